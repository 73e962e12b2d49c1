"""What a rule promises, held against what its text and its examples can show.

In: rules, their examples. Out: whether arithmetic on floats is done in another way than before;
whether an example computes any number; whether a literal is a number of float16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import onnx

from rewrite.audit.lint.conditions import Conditions
from rewrite.audit.lint.known import known_of
from rewrite.audit.lint.measure import changes_of
from rewrite.lang import ast
from rewrite.lang.versions import Operators
from rewrite.lang.walk import nodes
from rewrite.match.structure import rounded
from rewrite.schema import DTYPE_CLASSES

# Operators whose float result is rounded; what they compute in another order is other bits.
ROUNDS = frozenset((
    "Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Sqrt", "Reciprocal", "Exp", "Log", "Erf",
    "Tanh", "Sigmoid", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Softplus", "Softmax", "LogSoftmax",
    "Gelu", "Elu", "Celu", "Selu", "HardSigmoid", "HardSwish", "Mish", "Swish", "LeakyRelu",
    "PRelu", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "CumSum", "AveragePool",
    "GlobalAveragePool", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "BatchNormalization",
    "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization",
    "LpNormalization", "LRN", "Attention", "LSTM", "GRU", "RNN",
))  # fmt: skip

# Those that compute one sum, or one product, whatever its sign: a - b = a + (-b), bit for bit.
_ALIKE = {"Sub": "Add", "Sum": "Add", "PRelu": "LeakyRelu"}


def other_arithmetic(rule: ast.Rule, operators: Operators) -> tuple[Counter[str], ...] | None:
    """The operators that round floats before and after, in a way to apply the rule in which they
    are others; None where there is no such way.

    Where what it emits rounds nothing, or values are integers, bits stay.
    """
    if not _may_be_float(rule, operators) or _of_integers(rule):
        return None
    for change in changes_of(rule, operators.vocabulary):
        before, after = _rounding(change.least), _rounding(change.most)
        if after and before != after:
            return before, after
    return None


def _of_integers(rule: ast.Rule) -> bool:
    """Whether the arithmetic emitted is that of values cast to integers, at least in part."""
    for emitted in rule.emit:
        for node in nodes(emitted):
            if isinstance(node, ast.Binary) and any(map(_integer, (node.left, node.right))):
                return True
    return False


def _integer(expr: ast.Expr) -> bool:
    """`Cast(x) { to: s32 }`, `s32(c)`."""
    if isinstance(expr, ast.OpExpr) and expr.op.name == "Cast":
        to = next((a.value for a in expr.attributes if a.name == "to"), None)
        return isinstance(to, ast.Name) and to.name in DTYPE_CLASSES["int"]
    return isinstance(expr, ast.Call) and expr.function in DTYPE_CLASSES["int"]


def _rounding(counts: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        if name in ROUNDS and count:
            found[_ALIKE.get(name, name)] += count
    return found


def _may_be_float(rule: ast.Rule, operators: Operators) -> bool:
    """No, where a value of the match has to be of integers: operators do not mix types."""
    known = known_of(rule, operators)
    told = Conditions(known)
    told.learn(rule)
    floats = DTYPE_CLASSES["f"]
    for name in _values(rule):
        allowed = told.possible(f"dtype({name})")
        if allowed is not None and allowed.values is not None and not allowed.values & floats:
            return False
    return True


def _values(rule: ast.Rule) -> Iterator[str]:
    """Statements, and the operands of operators that round."""
    for statement in rule.match:
        if isinstance(statement, ast.MatchStatement):
            yield from (name for name in statement.names if name != "_")
        for node in nodes(statement):
            if isinstance(node, ast.OpPattern) and node.op.name in ROUNDS:
                yield from (o.name for o in node.operands if isinstance(o, ast.Variable))


def computes(model: onnx.ModelProto) -> bool:
    """Whether some output may have an element."""
    for output in model.graph.output:
        shape = output.type.tensor_type.shape
        if not any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in shape.dim):
            return True
    return False


def lost_in_half(number: ast.Number) -> str | None:
    """What float16 makes of a literal that is none of its numbers, nor near one."""
    if number.value == 0:
        return None
    half = rounded(number.value, "f16")
    if half == 0:
        return "0"
    if half != half or abs(half) == float("inf"):
        return "infinity"
    return None
