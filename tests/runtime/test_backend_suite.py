"""The standard suite of backends: every case, by kernels or by the reference device.

The reference device alone passes every case, too (`test_reference_device`): what it computes is
what sessions fall back to.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import rewrite.backend
from tests.runtime import suite
from tests.runtime.interpreter import Interpreter


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" not in metafunc.fixturenames:
        return
    names = suite.cases()
    if metafunc.function is test_reference_device:  # whole networks take it minutes
        names = {name: case for name, case in names.items() if case.kind != "real"}
    metafunc.parametrize("name", list(names))


def case_of(name: str) -> suite.Case:
    reason = suite.excluded(name)
    if reason is not None:
        pytest.skip(reason)
    if name.startswith("test_image_decoder") and importlib.util.find_spec("PIL") is None:
        pytest.skip("ImageDecoder decodes pictures with Pillow, which is not installed")
    return suite.cases()[name]


def test_reference_device(name: str) -> None:
    case = case_of(name)
    model = case.model
    for inputs, expected in case.data():
        found = Interpreter(model).run(suite.feeds_of(model, inputs))
        assert suite.differ(expected, found, case.rtol, case.atol) is None


def test_session(name: str) -> None:
    """As `rewrite.backend` runs it: kernels where there are, the reference device for the rest."""
    case = case_of(name)
    model = case.model
    prepared = rewrite.backend.prepare(model)
    for inputs, expected in case.data():
        found = list(prepared.run(inputs))
        assert suite.differ(expected, found, case.rtol, case.atol) is None


def test_exclusions_exist() -> None:
    """No exclusion outlives the case that it is about."""
    excluded = [name for name in suite.cases() if suite.excluded(name)]
    assert 0 < len(excluded) <= 10
    assert set(suite.WIDER) <= set(suite.cases())


def test_page_of_operators() -> None:
    """docs/operators.md is of this suite, and what it says of it is enough."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "operators.md").read_text("utf-8")
    found = re.search(r"(\d+) cases run, (\d+) pass; .* run natively \((\S+) %\)", text)
    assert found is not None, "written by tools/operators.py"
    node = [c.name for c in suite.cases().values() if c.kind == "node"]
    assert int(found[1]) == int(found[2]) == sum(not suite.excluded(name) for name in node)
    assert float(found[3]) >= 90


@pytest.mark.parametrize(
    ("wanted", "got", "same"),
    [
        ([np.float32(1)], [np.float64(1)], False),
        ([np.zeros(2)], [np.zeros(2)], True),
        ([np.zeros(2)], [np.zeros((2, 1))], False),
        ([np.array([np.nan])], [np.array([np.nan])], True),
        ([np.array([np.nan])], [np.array([0.0])], False),
        ([[np.zeros(1)]], [[np.zeros(1), np.zeros(1)]], False),
        ([None], [None], True),
        ([None], [np.zeros(1)], False),
        ([np.array(["a"], object)], [np.array(["b"], object)], False),
    ],
)
def test_comparison(wanted: list, got: list, same: bool) -> None:
    assert (suite.differ(wanted, got, 1e-6, 0.0) is None) == same
