"""Wrong rules are refuted by small counterexamples; the same rules as they should be are not.

The values that a counterexample must show follow from ONNX's definitions of the operators, worked
out by hand in the comments.
"""

import math
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewrite.audit.claims.check import check
from rewrite.audit.claims.verify import verify_rule
from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.generate import instances_of
from rewrite.audit.instances.instance import Budget
from rewrite.lang.pack import load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

FOLDER = Path(__file__).parent / "planted"
MOST_NODES = 4  # a Q(Relu(DQ)) has three


@cache
def pack():
    return load_pack(FOLDER, vocabulary(), [])


@cache
def generic():
    return load_target("generic", vocabulary())


def names(file):
    folder = load_pack(FOLDER, vocabulary(), [])
    return [rule.name for rule in folder.rules if Path(rule.span.file).name == file]


@cache
def verified(name, **budget):
    rule = next(rule for rule in pack().rules if rule.name == name)
    return verify_rule(pack(), rule, [generic()], Budget(**budget))


@pytest.mark.parametrize("name", names("wrong.rules"))
def test_wrong_rules_are_refuted(name):
    result = verified(name)
    assert (result.status, result.problem().code) == ("refuted", "RW730"), result.how
    found = result.counterexample
    assert found.size <= MOST_NODES
    onnx.checker.check_model(found.before, full_check=True)
    elements = [math.prod(t.dims) for t in found.before.graph.initializer]
    assert sum(elements) + sum(a.size for a in found.feeds.values()) <= 20
    assert found.reason
    assert found.source.startswith("example ")


@pytest.mark.parametrize("name", names("right.rules"))
def test_right_rules_are_not(name):
    result = verified(name, firing=30)
    assert result.ok, result.how
    assert result.counts.fired >= 30
    assert result.counts.runs > 200


def test_a_bound_of_relu6():
    # min(relu(x), 6) is 6 for large x, Clip with 6.5 gives 6.5
    found = verified("wrong_constant").counterexample
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert wanted.max() == 6
    assert got.max() == 6.5


def test_minus_zero():
    # -0 + 0 = 0 in IEEE 754, rounded to nearest
    found = verified("minus_zero").counterexample
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    differs = np.signbit(wanted) != np.signbit(got)
    assert differs.any()
    assert (wanted[differs] == 0).all()


def test_clip_upside_down():
    # Clip is min(max(x, lo), hi): with lo > hi it is hi everywhere; max(min(x, hi), lo) is lo
    found = verified("clip_upside_down").counterexample
    low, high = (onnx.numpy_helper.to_array(t) for t in found.before.graph.initializer)
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert low > high
    assert (wanted == high).all()
    assert (got == low).all()


def test_integers_wrap():
    # max(x + c, x) is x where x + c wraps around, and then x + c is smaller than x
    found = verified("overflow").counterexample
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert wanted.max() == np.iinfo(wanted.dtype).max
    assert got.min() < 0


def test_softmax_before_opset_13():
    # over all of axes 1 and 2 together, elements of one row do not add up to 1 along axis 1
    found = verified("default_of_old_opsets").counterexample
    assert found.before.opset_import[0].version <= 12
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert np.allclose(wanted.sum(axis=(1, 2)), 1)
    assert np.allclose(got.sum(axis=1), 1)
    assert not np.allclose(got.sum(axis=(1, 2)), 1)


def test_the_empty_sum():
    # no number is added up: 0, whatever the constant
    found = verified("empty_sum").counterexample
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert (wanted == 0).all()
    assert (got != 0).all()
    assert any(0 in a.shape for a in found.feeds.values())


def test_codes_of_the_other_type():
    # 127 bounds s8; a u8 code of 128 and more is cut
    found = verified("signedness").counterexample
    assert found.before.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    (wanted,), (got,) = found.wanted.values(), found.got.values()
    assert wanted.max() > 127
    assert got.max() == 127


def test_everything_is_the_same_again():
    first, second = verified("clip_upside_down"), verified.__wrapped__("clip_upside_down")
    assert first.how == second.how
    assert first.counterexample.before.SerializeToString(
        deterministic=True
    ) == second.counterexample.before.SerializeToString(deterministic=True)


def test_another_seed_tries_other_models():
    rule = next(rule for rule in pack().rules if rule.name == "doubled")
    tried = [instances_of(pack(), rule, generic(), Budget(firing=15, seed=s)) for s in (0, 1)]
    assert [i.varied for i in tried[0]] != [i.varied for i in tried[1]]


def on_each(rule, instances):
    """What becomes of the claim of the rule on the instances it fires on."""
    alone = Alone.of(pack(), rule, generic())
    applied = [(instance.model, alone.apply(instance.model)) for instance in instances]
    return [check(model, a.after, a.bound).status for model, a in applied if a and a.after]


def test_instances_of_a_right_rule_refute_a_wrong_one():
    # clip_upright rejects bounds that are upside down; without that condition the rule fires there
    right = next(rule for rule in pack().rules if rule.name == "clip_upright")
    wrong = next(rule for rule in pack().rules if rule.name == "clip_upside_down")
    instances = instances_of(pack(), right, generic())
    assert {i.fires for i in instances} == {True, False}
    assert "broken" not in on_each(right, instances)
    assert "broken" in on_each(wrong, instances)


def test_a_budget_that_ends_is_no_pass():
    result = verified("doubled", seconds=0.0)
    assert (result.status, result.problem().code) == ("undecided", "RW732")


def test_the_whole_domain_is_counted():
    # Not of bool: 2 elements have 4 inputs, a scalar 2
    result = verified("not_not", firing=30)
    assert result.counts.whole > 10
