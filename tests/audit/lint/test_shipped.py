"""The shipped packs are clean. What needs models is looked at by `make audit`."""

from __future__ import annotations

import pytest

from rewrite import resources
from rewrite.audit.lint.run import lint_pack, wanted
from rewrite.audit.lint.subject import open_pack

WITH_MODELS = ("RW901", "RW902", "RW903", "RW904", "RW931", "RW942", "RW945", "RW948")


@pytest.mark.parametrize("name", resources.shipped("rules"))
def test_nothing_is_found(name):
    folders = tuple(resources.shipped("rules").values())
    subject = open_pack(resources.shipped("rules")[name], folders)
    assert lint_pack(subject, wanted((), WITH_MODELS)).findings == ()


@pytest.mark.parametrize("name", ["quant-signed", "quant-symmetric"])
def test_nothing_is_found_with_models(name):
    subject = open_pack(resources.shipped("rules")[name])
    assert lint_pack(subject, wanted(WITH_MODELS, ())).findings == ()
