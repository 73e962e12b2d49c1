"""Without the extra `verify` everything works, and it is said what was not tried."""

import sys
from pathlib import Path

from rewrite.audit.claims.proof import proofs
from rewrite.audit.claims.smt.suggest import suggested
from rewrite.audit.claims.verify import verify_rule
from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.instance import Budget
from rewrite.cli import main
from rewrite.lang.pack import load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

FOLDER = Path(__file__).parent / "planted_proofs"


def test_rules_are_sampled(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    pack, target = load_pack(FOLDER, vocabulary(), []), load_target("generic", vocabulary())
    rule = next(rule for rule in pack.rules if rule.name == "right_order")
    alone = Alone.of(pack, rule, target)
    assert proofs(alone.compiled, 10.0) == ()
    assert list(suggested(alone, 10.0)) == []
    assert verify_rule(pack, rule, [target], Budget(firing=5)).status == "sampled"
    # what needs no z3 is proved all the same
    order = next(rule for rule in pack.rules if rule.name == "right_reshapes")
    assert [p.prover for p in proofs(Alone.of(pack, order, target).compiled, 10.0)] == [
        "order of elements"
    ]


def test_the_command_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "z3", None)
    arguments = ("--rule", "right_order", "--instances", "3", "--target", "generic", "-j", "1")
    assert main(["verify", str(FOLDER), *arguments]) == 0
    out = capsys.readouterr().out
    assert "proofs by z3 were not tried: it is not installed (the extra `verify`)" in out
