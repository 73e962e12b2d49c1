"""Named patterns: every call is replaced by the body of its definition.

In: a rule and the pattern definitions in sight. Out: the same rule without `PatternCall`s.
Names that are local to a definition get a suffix of their own for each call (`t__1`), so that they
never meet a name of the rule; names of alternatives stay, so that the rule can ask for them.
Sizes are computed before anything is built: a small text cannot expand into a large pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from rewrite.errors import Collector, Label
from rewrite.lang import ast
from rewrite.lang.limits import EXPANDED_DEPTH, EXPANDED_NODES
from rewrite.lang.quantized import expand_quantized
from rewrite.lang.walk import children, nodes, own_names, replace_nodes
from rewrite.lang.words import suggestion

Definitions = Mapping[str, ast.PatternDef]


@dataclass(frozen=True, slots=True)
class Size:
    """Of a definition expanded: nodes, depth, and how often each parameter occurs."""

    nodes: int
    depth: int
    uses: Mapping[str, int]


@dataclass
class Expander:
    """Expands the rules of one pack. `sizes` is None for what cannot be expanded."""

    definitions: Definitions
    errors: Collector
    sizes: dict[str, Size | None] = field(default_factory=dict)
    failed: bool = False  # a call met since the flag was cleared cannot be expanded

    def __post_init__(self) -> None:
        """Measure every definition, callees first; report the ones that are not well formed."""
        for name in self._callees_first():
            definition = self.definitions[name]
            _check_parameters(definition, self.errors)
            self.sizes[name] = self._size(definition)

    def expand(self, rule: ast.Rule) -> ast.Rule | None:
        """None where a call cannot be expanded; the reason is reported."""
        self.failed = False
        total = sum(self._measure(s.pattern, {}).nodes for s in rule.match)
        if self.failed:
            return None
        if total > EXPANDED_NODES:
            message = f"the rule `{rule.name}` has {total} pattern nodes"
            hint = f"at most {EXPANDED_NODES} are allowed; split the rule or its patterns"
            self.errors.add("RW313", message, rule.match[0].span, hint)
            return None
        before = len(self.errors.found)
        if any(isinstance(n, ast.PatternCall) for s in rule.match for n in nodes(s)):
            numbers = count(1)
            match = tuple(
                replace(s, pattern=self._rewrite(s.pattern, _Scope({}, {}), numbers))
                for s in rule.match
            )
            rule = replace(rule, match=match)
        rule = expand_quantized(rule, self.errors)
        return None if len(self.errors.found) > before else rule

    # --- sizes

    def _callees_first(self) -> list[str]:
        """Definitions in an order in which each comes after those it calls; loops are reported."""
        order: list[str] = []
        state: dict[str, bool] = {}  # False: being visited, True: done
        for start in self.definitions:
            path: list[tuple[str, list[str]]] = []
            if start not in state:
                state[start] = False
                path.append((start, self._calls(start)))
            while path:
                name, waiting = path[-1]
                if not waiting:
                    state[name] = True
                    order.append(path.pop()[0])
                    continue
                callee = waiting.pop(0)
                if state.get(callee) is False:
                    self._report_loop([n for n, _ in path], callee)
                elif callee not in state:
                    state[callee] = False
                    path.append((callee, self._calls(callee)))
        return order

    def _calls(self, name: str) -> list[str]:
        inside = nodes(self.definitions[name].pattern)
        called = [n.name for n in inside if isinstance(n, ast.PatternCall)]
        return [c for c in dict.fromkeys(called) if c in self.definitions]

    def _report_loop(self, path: list[str], name: str) -> None:
        loop = path[path.index(name) :]
        self.sizes.update(dict.fromkeys(loop))
        message = f"the pattern `{name}` contains itself: {' → '.join([*loop, name])}"
        hint = "write the repetition out, or use `chain`"
        self.errors.add("RW312", message, self.definitions[name].span, hint)

    def _size(self, definition: ast.PatternDef) -> Size | None:
        if definition.name in self.sizes:  # it calls itself
            return None
        uses = dict.fromkeys(definition.parameters, 0)
        self.failed = False
        measured = self._measure(definition.pattern, uses)
        if self.failed:
            return None
        if measured.nodes > EXPANDED_NODES or measured.depth > EXPANDED_DEPTH:
            message = (
                f"the pattern `{definition.name}` expands to {measured.nodes} nodes, "
                f"{measured.depth} inside each other"
            )
            hint = f"at most {EXPANDED_NODES} nodes and a depth of {EXPANDED_DEPTH} are allowed"
            self.errors.add("RW313", message, definition.span, hint)
            return None
        return Size(measured.nodes, measured.depth, uses)

    def _measure(self, root: ast.Node, uses: dict[str, int]) -> Size:
        """Size of a pattern with its calls expanded; counts the uses of parameters on the way."""
        for name in own_names(root):
            if name in uses:
                uses[name] += 1
        callee = self._callee(root) if isinstance(root, ast.PatternCall) else None
        weights = tuple(callee.uses.values()) if callee is not None else ()
        total, depth = 1, 0
        for i, child in enumerate(children(root)):
            weight = weights[i] if i < len(weights) else 1
            before = dict(uses)
            size = self._measure(child, uses)
            for name, old in before.items():
                uses[name] = min(old + (uses[name] - old) * weight, 1 << 40)
            total, depth = total + size.nodes * weight, max(depth, size.depth)
        if callee is not None:
            total, depth = total + callee.nodes, depth + callee.depth
        return Size(min(total, 1 << 40), depth + 1, {})

    def _callee(self, call: ast.PatternCall) -> Size | None:
        definition = self.definitions.get(call.name)
        if definition is None:
            self.failed = True
            _report_unknown(call, self.definitions, self.errors)
            return None
        if len(call.arguments) != len(definition.parameters):
            self.failed = True
            wanted, given = len(definition.parameters), len(call.arguments)
            note = Label(definition.span, "defined here")
            message = f"`{call.name}` takes {wanted} operands, not {given}"
            self.errors.add("RW317", message, call.span, None, (note,))
            return None
        size = self.sizes.get(call.name)
        if size is None:
            self.failed = True
        return size

    # --- substitution

    def _rewrite(self, node: ast.Pattern, scope: _Scope, numbers: count[int]) -> ast.Pattern:
        if isinstance(node, ast.PatternCall):
            return self._call(node, scope, numbers)
        if isinstance(node, ast.Variable):
            return _variable(node, scope, self.errors)
        if isinstance(node, ast.Rest):
            name = scope.rename(node, node.name, self.errors)
            return replace(node, name=name, type=_type(node, node.type, scope, self.errors))
        if isinstance(node, ast.OpPattern):
            operands = tuple(self._rewrite(x, scope, numbers) for x in node.operands)
            attributes = tuple(_attribute(a, scope, self.errors) for a in node.attributes)
            return replace(node, operands=operands, attributes=attributes)
        if isinstance(node, ast.Dequantized):
            return replace(node, codes=_codes(node.codes, scope, self.errors))
        if isinstance(node, ast.Quantized):
            operand = self._rewrite(node.operand, scope, numbers)
            named = None if node.codes is None else _codes(node.codes, scope, self.errors)
            return replace(node, operand=operand, codes=named)
        if isinstance(node, ast.Bag):
            return replace(node, items=tuple(self._rewrite(x, scope, numbers) for x in node.items))
        if isinstance(node, ast.Chain):
            return replace(node, start=self._rewrite(node.start, scope, numbers))
        if isinstance(node, ast.Alternatives):
            branches = tuple(self._branch(b, scope, numbers) for b in node.branches)
            return replace(node, branches=branches)
        return node

    def _branch(
        self, branch: ast.Alternative, scope: _Scope, numbers: count[int]
    ) -> ast.Alternative:
        guard = branch.guard
        if guard is not None and scope.active:
            guard = _expression(guard, scope, self.errors)
        return replace(branch, pattern=self._rewrite(branch.pattern, scope, numbers), guard=guard)

    def _call(self, call: ast.PatternCall, scope: _Scope, numbers: count[int]) -> ast.Pattern:
        definition = self.definitions[call.name]
        arguments = [self._rewrite(a, scope, numbers) for a in call.arguments]
        number = next(numbers)
        inner = _Scope(dict(zip(definition.parameters, arguments, strict=True)), {}, call)
        for node in nodes(definition.pattern):
            for name in own_names(node):
                if name not in inner.arguments:
                    inner.locals[name] = f"{name}__{number}"
        return self._rewrite(definition.pattern, inner, numbers)


@dataclass
class _Scope:
    """What the names of a definition stand for at one call. Without a call: themselves."""

    arguments: dict[str, ast.Pattern]
    locals: dict[str, str]
    call: ast.PatternCall | None = None

    @property
    def active(self) -> bool:
        return self.call is not None

    def rename(self, node: ast.Node, name: str, errors: Collector, typed: bool = False) -> str:
        """The name that replaces a name; a parameter used as a name needs a name as argument.

        `typed`: an argument with a type will do, because its type is tested at another place.
        """
        if name in self.locals:
            return self.locals[name]
        argument = self.arguments.get(name)
        if argument is None:
            return name
        if isinstance(argument, ast.Variable) and (typed or argument.type is None):
            return argument.name
        note = () if self.call is None else (Label(node.span, f"`{name}` is used as a name here"),)
        message = f"the argument for `{name}` must be a plain name"
        hint = "name it in a match statement of its own first"
        errors.add("RW318", message, argument.span, hint, note)
        return name


def _variable(node: ast.Variable, scope: _Scope, errors: Collector) -> ast.Pattern:
    argument = scope.arguments.get(node.name)
    if argument is None:
        name = scope.rename(node, node.name, errors)
        return replace(node, name=name, type=_type(node, node.type, scope, errors))
    if node.type is None and not node.optional:
        return argument
    name = scope.rename(node, node.name, errors)
    return replace(node, name=name, type=_type(node, node.type, scope, errors))


def _codes(node: ast.Variable, scope: _Scope, errors: Collector) -> ast.Variable:
    """The codes of a `DQ` or `Q`: a name, of which the call or the definition says the type."""
    argument = scope.arguments.get(node.name)
    if isinstance(argument, ast.Variable) and node.type is None and not node.optional:
        return argument
    name = scope.rename(node, node.name, errors)
    return replace(node, name=name, type=_type(node, node.type, scope, errors))


def _type(
    node: ast.Node, pattern: ast.TypePattern | None, scope: _Scope, errors: Collector
) -> ast.TypePattern | None:
    if pattern is None or pattern.shape is None or not scope.active:
        return pattern
    dims = tuple(
        d if d.name is None else replace(d, name=scope.rename(node, d.name, errors))
        for d in pattern.shape
    )
    return replace(pattern, shape=dims)


def _attribute(
    node: ast.AttributePattern, scope: _Scope, errors: Collector
) -> ast.AttributePattern:
    if node.bind is None or node.bind == "_":
        return node
    return replace(node, bind=scope.rename(node, node.bind, errors))


def _expression(expr: ast.Expr, scope: _Scope, errors: Collector) -> ast.Expr:
    def change(node: ast.Node) -> ast.Node:
        if isinstance(node, ast.Name | ast.Splat):
            return replace(node, name=scope.rename(node, node.name, errors, typed=True))
        if isinstance(node, ast.CaseArm) and node.name is not None:
            return replace(node, name=scope.rename(node, node.name, errors, typed=True))
        return node

    result = replace_nodes(expr, change)
    assert isinstance(result, ast.Expr)
    return result


# --- checks of definitions and calls ------------------------------------------------------------


def _check_parameters(definition: ast.PatternDef, errors: Collector) -> None:
    used = {name for node in nodes(definition.pattern) for name in own_names(node)}
    for i, parameter in enumerate(definition.parameters):
        if parameter in definition.parameters[:i] or parameter == "_":
            message = f"the pattern `{definition.name}` names the parameter `{parameter}` twice"
            if parameter == "_":
                message = "a parameter needs a name other than `_`"
            errors.add("RW317", message, definition.span)
        elif parameter not in used:
            message = f"the pattern `{definition.name}` never uses its parameter `{parameter}`"
            errors.add("RW317", message, definition.span, "remove it, or match it as an operand")


def _report_unknown(call: ast.PatternCall, known: Definitions, errors: Collector) -> None:
    message = f"there is no pattern `{call.name}`"
    hint = suggestion(call.name, known)
    if call.name in ("prod", "sum"):
        hint = f"its items stand in braces: `{call.name}{{a, b}}`"
    elif hint is None:
        hint = "operators are UpperCase; a pattern is defined by `pattern name(a, b) = ...`"
    errors.add("RW311", message, call.span, hint)
