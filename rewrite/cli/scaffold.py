"""What `rewrite new` writes: texts of packs, rules and targets to start from.

In: a name. Out: the text of each file. What is written passes `test`, `lint` and `verify` as it is:
a rule that does little, with a test that fires and tests that reject, to be replaced part by part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rewrite.errors import error
from rewrite.lang.manifest import NAME, RULE_NAME

# Operators that do nothing the second time. A scaffold takes one that the pack does not use yet,
# so that two scaffolds in one pack are two rules.
_IDEMPOTENT = ("Relu", "Abs", "Ceil", "Floor", "Round", "Sign")

_PACK = """\
name: {name}
doc: Rules for {name}, in one sentence.
opset: [14, 26]         # models of other opsets are left alone
example_opset: 18
# extends: [algebra]    # packs whose rules are included
# disable: [some_rule]  # rules of those that are left out
"""

_RULE = '''\
rule {name} in {phase} {{
  """{operator}({operator}(x)) = {operator}(x)."""
  match y = {operator}({operator}(x))
  emit  y = {operator}(x)
  claim equal(rtol=0)
  example fires plain """
    g (float[2,3] x) => (float[2,3] y) {{ a = {operator}(x)  y = {operator}(a) }}
  """
  example rejects inner_value_used """
    g (float[2,3] x) => (float[2,3] y, float[2,3] a) {{ a = {operator}(x)  y = {operator}(a) }}
  """
}}
'''

_TARGET = """\
doc: {name}, in one sentence.
extends: generic          # facts not given here are those of this target
packs: [{packs}]  # those beside this file, then the shipped ones
groups: true              # fused groups become local functions of the domain rewrite.{name}

# What it runs. Anything else is listed as unsupported; spelled as in rules: Conv, ms.Gelu.
operators: [{operators}]

# Operators that it takes only in part. `source` says where a fact comes from.
limits:
  Conv: {{rank: [4, 4], constant: [1], source: to be given}}

# What becomes one kernel: a convolution or product, and up to four operators after it.
fuses:
  contraction: {{heads: [Conv, MatMul, Gemm], epilogue: [pointwise], most: 5}}
"""

_OPERATORS = (
    "Add", "AveragePool", "Clip", "Concat", "Conv", "Gemm", "GlobalAveragePool", "MatMul",
    "MaxPool", "Mul", "Relu", "Reshape", "Sigmoid", "Softmax", "Sub", "Transpose",
)  # fmt: skip
_WIDTH = 96


@dataclass(frozen=True, slots=True)
class File:
    """A text to be written, by the name of its file."""

    name: str
    text: str


def pack(name: str) -> tuple[File, ...]:
    """The files of a new pack. Raises RW750 where the name cannot be one."""
    _check(name, NAME, "pack", "lower-case letters, digits, `_` and `-`, a letter first")
    first = rule(f"{name.replace('-', '_')}_example", "clean", ())
    return (File("pack.yaml", _PACK.format(name=name)), File("example.rules", first.text))


def rule(name: str, phase: str, texts: Iterable[str]) -> File:
    """A new rule for a pack that holds the `texts`. Raises RW750 where the name cannot be one."""
    check_rule(name)
    known = "\n".join(texts)
    free = [operator for operator in _IDEMPOTENT if f"{operator}({operator}(" not in known]
    operator = (free or _IDEMPOTENT)[0]
    return File(f"{name}.rules", _RULE.format(name=name, phase=phase, operator=operator))


def check_rule(name: str) -> None:
    """Raises RW750 where the name cannot be that of a rule."""
    _check(name, RULE_NAME, "rule", "lower-case letters, digits and `_`, a letter first")


def target(name: str, packs: Iterable[str]) -> File:
    """A new target. Raises RW750 where the name cannot be one."""
    pattern = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
    _check(name, pattern, "target", "lower-case letters, digits and hyphens, a letter first")
    text = _TARGET.format(name=name, packs=", ".join(packs), operators=", ".join(_OPERATORS))
    return File(f"{name}.yaml", "".join(_folded(line) for line in text.splitlines(keepends=True)))


def _folded(line: str) -> str:
    """A long list on several lines."""
    if len(line) <= _WIDTH or "[" not in line:
        return line
    head, _, items = line.rstrip("\n").rstrip("]").partition("[")
    rows, row = [], "  "
    for item in items.split(", "):
        if len(row) + len(item) + 2 > _WIDTH:
            rows.append(row.rstrip())
            row = "  "
        row += f"{item}, "
    return "\n".join([f"{head}[", *rows, row.rstrip(), "]\n"])


def _check(name: str, pattern: re.Pattern[str], kind: str, letters: str) -> None:
    if pattern.fullmatch(name) is None or len(name) > 80:
        raise error("RW750", f"`{name}` cannot be the name of a {kind}", hint=letters)
