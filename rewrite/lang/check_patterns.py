"""Static checks of `match`: operators, operand counts, attributes, types, bags, chains.

In: an expanded rule, the scope of its names, the opsets it is for. Out: diagnostics; the kinds of
bound attributes are written into the scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite.errors import Collector, Label, Span
from rewrite.lang import ast
from rewrite.lang.limits import BAG_ITEMS, CHAIN_LENGTH, SIBLINGS
from rewrite.lang.quantized_words import GRANULARITIES
from rewrite.lang.scope import Scope
from rewrite.lang.versions import (
    Operators,
    Range,
    attributes,
    least_inputs,
    most_inputs,
    most_outputs,
)
from rewrite.lang.vocabulary import Kind
from rewrite.lang.walk import nodes
from rewrite.lang.words import element_type_suggestion, operator_suggestion, suggestion
from rewrite.schema import (
    DTYPE_ATTRIBUTES,
    DTYPE_CLASSES,
    DTYPES,
    AttributeKind,
    AttributeSchema,
    OpSchema,
)

KINDS: Mapping[AttributeKind, Kind] = {
    "int": "number", "float": "number", "string": "string", "tensor": "tensor",
    "ints": "list", "floats": "list", "strings": "list",
}  # fmt: skip
# How the attribute kinds are called in messages, and the Python types of their literals.
LITERALS: Mapping[AttributeKind, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "string": ("a string", (str,)),
}
ELEMENTS: Mapping[AttributeKind, AttributeKind] = {
    "ints": "int", "floats": "float", "strings": "string",
}  # fmt: skip


@dataclass
class PatternChecker:
    """Checks the patterns of one rule, or of one pattern definition (`scope` None)."""

    operators: Operators
    opsets: Range
    errors: Collector
    scope: Scope | None = None
    closed: bool = True  # the closed world of attributes is demanded

    def statement(
        self, statement: ast.MatchStatement | ast.EachStatement, carriers: Sequence[OpSchema]
    ) -> None:
        """`carriers`: operators in `emit` that carry the attributes of this statement's node."""
        if isinstance(statement, ast.EachStatement):
            self._bounds(statement.least, statement.most, SIBLINGS, "siblings", statement.span)
        elif len(statement.names) > 1:
            self._outputs(statement)
        own = tops(statement.pattern)
        for node in nodes(statement.pattern):
            if isinstance(node, ast.OpPattern):
                mine = carriers if any(node is t for t in own) else ()
                self.operator(node, mine)
            else:
                self.node(node)

    def definition(self, definition: ast.PatternDef) -> None:
        for node in nodes(definition.pattern):
            if isinstance(node, ast.OpPattern):
                self.operator(node, ())
            else:
                self.node(node)

    def node(self, node: ast.Node) -> None:
        if isinstance(node, ast.TypePattern):
            self._type(node)
        elif isinstance(node, ast.Bag):
            self._bag(node)
        elif isinstance(node, ast.Chain):
            self._chain(node)

    # --- operators

    def operator(self, pattern: ast.OpPattern, carriers: Sequence[OpSchema]) -> None:
        versions = known_versions(pattern.op, self.operators, self.opsets, self.errors)
        if not versions:
            return
        self._operand_count(pattern, versions)
        self._attributes(pattern, versions, carriers)
        domain = self.operators.domain(pattern.op)
        key = (domain or "", pattern.op.name)
        if pattern.ordered and key not in self.operators.vocabulary.commutative:
            message = f"{pattern.op.name} is not commutative; its operands are always ordered"
            self.errors.add("RW215", message, pattern.span, "leave `ordered` out")

    def _operand_count(self, pattern: ast.OpPattern, versions: tuple[OpSchema, ...]) -> None:
        written = len(pattern.operands)
        rest = bool(pattern.operands) and isinstance(pattern.operands[-1], ast.Rest)
        if any(_can_match(v, written, rest) for v in versions):
            return
        newest = versions[-1]
        takes = _count_words(least_inputs(newest), most_inputs(newest))
        names = ", ".join(f"{x.name}?" if x.option == "optional" else x.name for x in newest.inputs)
        message = f"{pattern.op.name} takes {takes}, not {written}"
        hint = f"its operands are {names}" if newest.inputs else None
        self.errors.add("RW205", message, pattern.span, hint)

    def _outputs(self, statement: ast.MatchStatement) -> None:
        for top in tops(statement.pattern):
            versions = self.operators.within(top.op, self.opsets)
            mosts = [most_outputs(v) for v in versions]
            if not versions or None in mosts or max(m or 0 for m in mosts) >= len(statement.names):
                continue
            message = f"{top.op.name} has {max(m or 0 for m in mosts)} outputs"
            names = len(statement.names)
            self.errors.add("RW212", f"{message}, but {names} are named", statement.span)

    # --- attributes

    def _attributes(
        self,
        pattern: ast.OpPattern,
        versions: tuple[OpSchema, ...],
        carriers: Sequence[OpSchema],
    ) -> None:
        known, ever = attributes(versions), attributes(self.operators.all(pattern.op))
        seen: dict[str, ast.AttributePattern] = {}
        for attribute in pattern.attributes:
            if attribute.name in seen:
                note = (Label(seen[attribute.name].span, "the first one"),)
                message = f"the attribute `{attribute.name}` is given twice"
                self.errors.add("RW208", message, attribute.span, None, note)
                continue
            seen[attribute.name] = attribute
            schema = ever.get(attribute.name)
            if schema is None:
                report_attribute(pattern.op, attribute.name, attribute.span, versions, self.errors)
            else:
                self._attribute(attribute, schema)
        self._closed_world(pattern, [n for n in known if n not in seen], carriers)

    def _attribute(self, attribute: ast.AttributePattern, schema: AttributeSchema) -> None:
        if attribute.bind is not None:
            self._record(attribute.bind, schema)
        for value in attribute.values or ():
            if not literal_fits(value, schema.kind):
                wanted = literal_words(schema.kind)
                message = f"the attribute `{schema.name}` is {wanted}"
                self.errors.add("RW207", message, attribute.span)

    def _record(self, name: str, schema: AttributeSchema) -> None:
        """What the bound name holds, for the expressions that use it."""
        binding = self.scope.bindings.get(name) if self.scope is not None else None
        if binding is None or binding.sort != "attribute":
            return
        kind = KINDS.get(schema.kind, "any")
        if schema.name in DTYPE_ATTRIBUTES:
            kind = "any"
        binding.kind = kind if binding.kind in ("any", kind) else "any"
        if not schema.required and schema.default is None:
            binding.optional = True

    def _closed_world(
        self, pattern: ast.OpPattern, missing: list[str], carriers: Sequence[OpSchema]
    ) -> None:
        """Attributes not listed are carried by the same operator, or by one that has them all."""
        if not self.closed:
            return
        domain = self.operators.domain(pattern.op)
        for carrier in carriers:
            same = (carrier.domain, carrier.name) == (domain, pattern.op.name)
            if same or all(name in carrier.attributes for name in missing):
                return
        if not missing:
            return
        names = ", ".join(f"`{n}`" for n in missing)
        plural = "s" if len(missing) > 1 else ""
        message = f"{pattern.op.name} has the attribute{plural} {names}, which the rule leaves open"
        hint = (
            f"bind or compare it in braces, write `{missing[0]}: ignored` where it cannot matter, "
            "or carry it over with `..name`"
        )
        self.errors.add("RW209", message, pattern.op.span, hint)

    # --- types, bags, chains

    def _type(self, pattern: ast.TypePattern) -> None:
        check_dtypes(pattern, self.errors)
        dots = [d for d in pattern.shape or () if d.kind == "ellipsis"]
        if len(dots) > 1:
            note = (Label(dots[0].span, "the first one"),)
            self.errors.add("RW214", "a shape has at most one `...`", dots[1].span, None, note)

    def _bag(self, bag: ast.Bag) -> None:
        if not 2 <= len(bag.items) <= BAG_ITEMS:
            message = f"`{bag.kind}` takes 2 to {BAG_ITEMS} items, not {len(bag.items)}"
            hint = "write an infix operator for more" if len(bag.items) > 1 else None
            self.errors.add("RW217", message, bag.span, hint)

    def _chain(self, chain: ast.Chain) -> None:
        self._bounds(chain.least, chain.most, CHAIN_LENGTH, "a chain", chain.span, least=1)
        classes = self.operators.vocabulary.classes
        if chain.klass not in classes:
            hint = suggestion(chain.klass, classes) or f"the classes are {', '.join(classes)}"
            message = f"there is no class of operators `{chain.klass}`"
            self.errors.add("RW216", message, chain.span, hint)

    def _bounds(
        self, low: int, high: int, limit: int, what: str, span: Span, least: int = 2
    ) -> None:
        if not least <= low <= high <= limit:
            message = f"{low}..{high} is not a range of {what}"
            hint = f"it lies between {least} and {limit}, the smaller bound first"
            self.errors.add("RW218", message, span, hint)


# --- shared with other checks -------------------------------------------------------------------


def check_dtypes(pattern: ast.TypePattern, errors: Collector) -> None:
    for name in pattern.dtypes or ():
        if name not in DTYPES and name not in DTYPE_CLASSES:
            listed = f"element types are {', '.join((*DTYPES, *DTYPE_CLASSES))}"
            hint = element_type_suggestion(name, GRANULARITIES) or listed
            errors.add("RW213", f"there is no element type `{name}`", pattern.span, hint)


def known_versions(
    op: ast.OpName, operators: Operators, opsets: Range, errors: Collector
) -> tuple[OpSchema, ...]:
    """The versions within the range; () after a report."""
    if operators.domain(op) is None:
        prefixes = [p for p in operators.vocabulary.domains if p]
        hint = suggestion(op.prefix, prefixes) or f"the prefixes are {', '.join(prefixes)}"
        errors.add("RW202", f"there is no operator prefix `{op.prefix}`", op.span, hint)
        return ()
    versions = operators.within(op, opsets)
    if versions:
        return versions
    every = operators.all(op)
    if every and every[0].domain == "":
        low, high = opsets
        last = " and was deprecated later" if every[-1].deprecated else ""
        message = f"{op.name} does not exist in opsets {low} to {high}"
        hint = f"it came with opset {every[0].since}{last}; see `opset` and pack.yaml"
        errors.add("RW204", message, op.span, hint)
        return ()
    written = f"{op.prefix}.{op.name}" if op.prefix else op.name
    hint2 = operator_suggestion(written, operators.vocabulary.operators())
    errors.add("RW203", f"there is no operator {written}", op.span, hint2)
    return ()


def report_attribute(
    op: ast.OpName, name: str, span: Span, versions: tuple[OpSchema, ...], errors: Collector
) -> None:
    known = attributes(versions)
    hint = suggestion(name, known)
    legacy = {a: i for v in versions for i, a in v.legacy.items()}
    inputs = versions[-1].inputs
    if name in legacy:
        place = legacy[name]
        what = inputs[place].name if place < len(inputs) else name
        hint = f"`{what}` is always written as operand {place + 1}"
    elif any(x.name == name for x in inputs):
        hint = f"`{name}` is an operand: write it between the parentheses"
    elif hint is None and known:
        hint = f"it has {', '.join(known)}"
    errors.add("RW206", f"{op.name} has no attribute `{name}`", span, hint)


def literal_fits(value: object, kind: AttributeKind) -> bool:
    if isinstance(value, tuple):
        element = ELEMENTS.get(kind)
        return element is not None and all(literal_fits(v, element) for v in value)
    return kind in LITERALS and isinstance(value, LITERALS[kind][1])


def literal_words(kind: AttributeKind) -> str:
    if kind in LITERALS:
        return LITERALS[kind][0]
    if kind in ELEMENTS:
        return f"a list of {LITERALS[ELEMENTS[kind]][0].removeprefix('a ')}s"
    return f"a {kind.replace('_', ' ')} and cannot be compared with a literal"


def tops(pattern: ast.Pattern) -> list[ast.OpPattern]:
    """The operators that a statement names directly: itself, or the branches of an alternative."""
    if isinstance(pattern, ast.OpPattern):
        return [pattern]
    if isinstance(pattern, ast.Alternatives):
        return [top for branch in pattern.branches for top in tops(branch.pattern)]
    return []


def _can_match(schema: OpSchema, written: int, rest: bool) -> bool:
    most = most_inputs(schema)
    if most is not None and written > most:
        return False
    return rest or written >= least_inputs(schema)


def _count_words(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more operands"
    if least == most:
        return f"{least} operand{'' if least == 1 else 's'}"
    return f"{least} to {most} operands"
