"""Bags, alternatives, chains, siblings: the parts of a pattern that match in several ways."""

from __future__ import annotations

import itertools

import pytest

from rewrite.match import codegen
from rewrite.match.matcher import entry_of
from tests.match.support import compile_text, read_model, rule_text

# --- prod{} and sum{} ----------------------------------------------------------------------------


def trees(leaves: tuple[str, ...], op: str = "Mul") -> list[str]:
    """Every way to combine the leaves, in this order, as nodes; the result is `y`."""
    found: list[str] = []

    def grow(items: tuple[str, ...], nodes: str, count: int) -> None:
        if len(items) == 1:
            last = f"t{count - 1} ="
            found.append(nodes.replace(last, "y ="))
            return
        for i in range(len(items) - 1):
            name = f"t{count}"
            node = f"{name} = {op}({items[i]}, {items[i + 1]}) "
            grow((*items[:i], name, *items[i + 2 :]), nodes + node, count + 1)

    grow(leaves, "", 0)
    return sorted(set(found))


@pytest.mark.parametrize("order", list(itertools.permutations(["s", "k", "b"])))
def test_any_order_and_association_of_three(ask, order):
    for nodes in trees(order):
        text = f"""g (float[2] a, float[2] b) => (float[2] y) <float k = {{0.5}}>
            {{ s = Sigmoid(a) {nodes} }}"""
        found = ask("y = prod{0.5, q, Sigmoid(p)}", text)
        assert found.names == {"y": "y", "q": "b", "p": "a"}
        assert sorted(found.nodes) == ["s", "t0", "y"]


def test_five_leaves(ask):
    for nodes in trees(("a", "b", "s", "k", "c"), "Add"):
        text = f"""g (float[2] a, float[2] b, float[2] c) => (float[2] y) <float k = {{2}}>
            {{ s = Sigmoid(a) {nodes} }}"""
        names = ask("y = sum{Sigmoid(a), 2, p, q, r}", text).names
        assert sorted(names.values()) == ["a", "a", "b", "c", "y"]


def test_exactly_that_many_leaves_where_one_may_be_a_product(ask):
    text = "g (float[2] a, float[2] b, float[2] c) => (float[2] y) { t = Mul(a, b) y = Mul(t, c) }"
    assert ask("y = prod{p, q}", text).names == {"y": "y", "p": "t", "q": "c"}
    assert ask("y = prod{p, q, r}", text).names == {"y": "y", "p": "a", "q": "b", "r": "c"}
    assert ask("y = prod{p, q, r, s}", text).code == "bag"
    assert ask("y = prod{c, Mul(p, q)}", text).names["p"] == "a"


def test_every_cut_is_tried(ask):
    """Of (a b)(c d) three leaves can be cut in two ways; the condition takes the second."""
    text = """g (float[2] a, float[2] b, float[2] c, float[2] d) => (float[2] y)
        { s = Mul(a, b) t = Mul(c, d) y = Mul(s, t) }"""
    pattern = "y = prod{p, q, r}"
    assert ask(pattern, text).names == {"y": "y", "p": "s", "q": "c", "r": "d"}
    both = ask(pattern, text, "y", 'where op(p) == "", op(q) == ""')
    assert both.names == {"y": "y", "p": "c", "q": "d", "r": "s"}
    assert ask(pattern, text, "y", 'where op(r) == "Mul", is_input(p)').names["r"] == "s"


def test_inner_nodes_are_single_use(ask):
    text = """g (float[2] a, float[2] b, float[2] c) => (float[2] y, float[2] z)
        { t = Mul(a, b) y = Mul(t, c) z = Neg(t) }"""
    assert ask("y = prod{p, q, r}", text).code == "bag"
    text = "g (float[2] a, float[2] b) => (float[2] y) { t = Mul(a, b) y = Mul(t, t) }"
    assert ask("y = prod{p, q, r, s}", text).code == "bag", "t is used twice"
    text = """g (float[2] a, float[2] b, float[2] c) => (float[2] y, float[2] t)
        { t = Mul(a, b) y = Mul(t, c) }"""
    assert ask("y = prod{p, q, r}", text).code == "bag", "t is an output of the graph"


def test_equal_leaves(ask):
    text = "g (float[2] x) => (float[2] y) { t = Mul(x, x) y = Mul(x, t) }"
    assert ask("y = prod{x, x, x}", text)
    assert ask("y = prod{p, p, q}", text).names == {"y": "y", "p": "x", "q": "x"}
    text = "g (float[2] x, float[2] z) => (float[2] y) { t = Mul(x, z) y = Mul(x, t) }"
    assert ask("y = prod{p, q, p}", text).names == {"y": "y", "p": "x", "q": "z"}
    assert ask("y = prod{p, p, p}", text).code != "match"


# --- alternatives --------------------------------------------------------------------------------

ACT = "g (float[2] x) => (float[2] y) <float lo = {0}, float hi = {6}> { c = Sin(x) %s }"
FORMS = """c = Sin(x)
    act = Relu(c) as relu | Clip(c, lo: const, hi: const) as clip | c
    y = Neg(act)"""


def test_the_branch_taken_binds_its_names(ask):
    found = ask(FORMS, ACT % "a = Relu(c) y = Neg(a)")
    assert found.match.branches == {"relu"}
    assert found.names == {
        "c": "c", "x": "x", "act": "a", "lo": None, "hi": None, "y": "y",
    }  # fmt: skip
    found = ask(FORMS, ACT % "a = Clip(c, lo, hi) y = Neg(a)")
    assert found.match.branches == {"clip"}
    assert found.names["hi"] == "hi"
    found = ask(FORMS, ACT % "y = Neg(c)")
    assert found.match.branches == frozenset()
    assert found.names["act"] == "c"
    assert found.nodes == ["c", "y"]


def test_guards_belong_to_their_branch(ask):
    pattern = "y = Neg(Relu(x) if (rank(x) == 1) | Relu(x) as other)"
    text = "g (float[%s] x) => (float[%s] y) { a = Relu(x) y = Neg(a) }"
    assert ask(pattern, text % ("2", "2")).match.branches == frozenset()
    assert ask(pattern, text % ("2,2", "2,2")).match.branches == {"other"}
    only = "y = Neg(Relu(x) if (rank(x) == 1))"
    assert ask(only, text % ("2,2", "2,2")).code == "guard"


def test_a_later_failure_goes_back_to_the_next_branch(ask):
    """The first alternative matches by itself, but not the rule as a whole."""
    pattern = "y = ordered Sub(Relu(p) as one | q as two, p)"
    text = "g (float[2] a, float[2] b) => (float[2] y) { r = Relu(a) y = Sub(r, %s) }"
    assert ask(pattern, text % "a").match.branches == {"one"}
    assert ask(pattern, text % "b").match.branches == {"two"}


def test_conditions_of_where_take_part_in_backtracking(ask):
    pattern = "y = Neg(Relu(x) as one | z as two)"
    text = "g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"
    assert ask(pattern, text, "y", "where if one: rank(x) == 1").match.branches == {"one"}
    assert ask(pattern, text, "y", "where if one: rank(x) == 2").match.branches == {"two"}


def test_a_name_bound_in_one_branch_only(ask):
    """The interpreter matches what generated code cannot say; the meaning is the same."""
    text = "g (float[2] a, float[2] b) => (float[2] y) { r = Relu(a) y = Sub(r, %s) }"
    pattern = "y = ordered Sub(Relu(p) | q, p)"
    entry = entry_of(compile_text(rule_text(pattern)))
    assert isinstance(entry.program, str)
    assert ask(pattern, text % "a").names["q"] is None
    assert ask(pattern, text % "b").names == {"y": "y", "p": "b", "q": "r"}


def test_named_patterns(ask):
    rule = "pattern cube(a) = Pow(a, 3) | prod{a, a, a}\n" + rule_text("y = Neg(cube(x))")
    power = "g (float[2] x) => (float[2] y) <float k = {3}> { c = Pow(x, k) y = Neg(c) }"
    product = "g (float[2] x) => (float[2] y) { t = Mul(x, x) c = Mul(t, x) y = Neg(c) }"
    assert ask(rule, power).names["x"] == "x"
    assert ask(rule, product).names["x"] == "x"


# --- chains --------------------------------------------------------------------------------------

LINE = """g (float[1,2,4] x, float[2] b) => (float[1,2,4] y) <float[2,2,1] w = {1,2,3,4}>
    { c = Conv(x, w) r = Relu(c) s = Mul(r, r) y = Neg(s) }"""


def test_a_chain_reaches_its_start(ask):
    found = ask("c = Conv(x, w) y = chain(c, pointwise, 1..8)", LINE)
    assert found.names == {"c": "c", "x": "x", "w": "w", "y": "y"}
    assert found.nodes == ["c", "y", "s", "r"]


@pytest.mark.parametrize(("bounds", "matches"), [("1..2", False), ("3..3", True), ("4..8", False)])
def test_the_length_of_a_chain(ask, bounds, matches):
    assert bool(ask(f"c = Conv(x, w) y = chain(c, pointwise, {bounds})", LINE)) is matches


def test_the_longest_chain_that_leads_to_a_match(ask):
    assert ask("y = chain(x, pointwise, 1..8)", LINE).names["x"] == "c"
    assert ask("y = chain(x, pointwise, 1..2)", LINE).names["x"] == "r"
    shorter = ask("y = chain(x, pointwise, 1..8)", LINE, "y", 'where op(x) != "Conv"')
    assert shorter.names["x"] == "r"


def test_inner_values_of_a_chain_have_one_consumer(ask):
    used = LINE.replace("(float[1,2,4] y)", "(float[1,2,4] y, float[1,2,4] z)").replace(
        "y = Neg(s)", "y = Neg(s) z = Abs(r)"
    )
    assert not ask("c = Conv(x, w) y = chain(c, pointwise, 1..8)", used)
    assert ask("y = chain(x, pointwise, 1..8)", used).names["x"] == "r"


def test_side_operands_are_free(ask):
    text = """g (float[1,2,4] x, float[1,2,4] d) => (float[1,2,4] y) <float[2,2,1] w = {1,2,3,4}>
        { c = Conv(x, w) e = Exp(d) y = Add(e, c) }"""
    found = ask("c = Conv(x, w) y = chain(c, pointwise, 1..8)", text)
    assert found.nodes == ["c", "y"]


def test_unary_chains(ask):
    text = """g (float[2] x, float[2] b) => (float[2] y)
        { a = Relu(x) t = Add(a, b) s = Abs(t) y = Neg(s) }"""
    assert ask("y = chain(x, unary, 1..8)", text).names["x"] == "t"


# --- siblings ------------------------------------------------------------------------------------

MATMULS = """g (float[2,2] x, float[2,2] q) => (float[2,2] a, float[2,3] b, float[2,2] c)
    <float[2,2] u = {1,2,3,4}, float[2,3] v = {1,2,3,4,5,6}>
    { a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, q) }"""
EACH = "each ys over x = MatMul(x, W: const[_, N])"


def test_siblings_are_lists(ask):
    found = ask(EACH + " 2..16", MATMULS, "a", emit="ys = x")
    assert found.names == {"ys": ("a", "b"), "x": "x", "W": ("u", "v"), "N": (2, 3)}
    assert found.nodes == ["a", "b"]
    assert [r.name for r in found.match.roots] == ["a", "b"]


@pytest.mark.parametrize("anchor", ["a", "b"])
def test_any_sibling_may_be_the_anchor(ask, anchor):
    assert ask(EACH + " 2..16", MATMULS, anchor, emit="ys = x").names["ys"] == ("a", "b")


def test_a_node_that_does_not_match_is_no_sibling(ask):
    assert ask(EACH + " 2..16", MATMULS, "c", emit="ys = x").code == "const"
    assert ask(EACH + " 3..16", MATMULS, "a", emit="ys = x").code == "siblings"


def test_the_guard_is_asked_for_each_sibling(ask):
    pattern = EACH + " if (dim(W, 1) == 3) 1..16"
    assert ask(pattern, MATMULS, "b", emit="ys = x").names["ys"] == ("b",)
    assert ask(pattern, MATMULS, "a", emit="ys = x").code == "siblings"


def test_at_most_so_many_siblings(ask):
    text = """g (float[1] x) => (float[1] a, float[1] b, float[1] c)
        { a = Neg(x) b = Neg(x) c = Neg(x) }"""
    pattern = "each ys over x = Neg(x) 2..2"
    assert ask(pattern, text, "a", emit="ys = x").names["ys"] == ("a", "b")
    assert ask(pattern, text, "c", emit="ys = x").code == "siblings"


def test_siblings_of_a_statement(ask):
    text = """g (float[2,2] x) => (float[2,2] a, float[2,2] b) <float[2,2] u = {1,2,3,4}>
        { n = Relu(x) a = MatMul(n, u) b = MatMul(n, u) }"""
    found = ask("n = Relu(x) each ys over n = MatMul(n, W: const) 2..4", text, "b", emit="ys = x")
    assert found.names == {"n": "n", "x": "x", "ys": ("a", "b"), "W": ("u", "u")}
    assert found.nodes == ["n", "a", "b"]


def test_siblings_deeper_than_one_node(ask):
    text = """g (float[2,2] x) => (float[2,2] a, float[2,2] b)
        <float[2,2] u = {1,2,3,4}, float[2] k = {1,2}>
        { s = MatMul(x, u) a = Add(s, k) t = MatMul(x, u) b = Add(k, t) }"""
    pattern = "each ys over x = Add(MatMul(x, W: const), c: const) 2..4"
    found = ask(pattern, text, "a", emit="ys = x")
    assert found.names == {"ys": ("a", "b"), "x": "x", "W": ("u", "u"), "c": ("k", "k")}


def test_statements_found_through_uses(ask):
    text = """g (float[2] x, float[2] z) => (float[2] s, float[2] y, float[2] w)
        { s = Sin(x) w = Sin(z) y = Cos(x) }"""
    found = ask("s = Sin(x) y = Cos(x)", text, emit="s = x  y = x")
    assert found.names == {"s": "s", "x": "x", "y": "y"}


def test_statements_found_through_uses_go_on_from_there(ask):
    text = """g (float[2] x) => (float[2] p, float[2] y)
        { s = Sin(x) p = Relu(s) y = Cos(x) }"""
    found = ask("t = Sin(x) p = Relu(t) y = Cos(x)", text, emit="p = x  y = x")
    assert found.names == {"t": "s", "x": "x", "p": "p", "y": "y"}


def test_more_choices_than_python_allows_loops(ask):
    """20 nested blocks are CPython's limit; such a pattern is left to the interpreter."""
    sum_of = "x0"
    for i in range(1, 23):
        sum_of = f"({sum_of} + Sin(x{i}))"
    entry = entry_of(compile_text(rule_text(f"y = {sum_of}")))
    assert entry.program == "more choices are nested than Python allows"
    inputs = ", ".join(f"float[1] x{i}" for i in range(23))
    nodes = "".join(f"s{i} = Sin(x{i}) t{i} = Add(t{i - 1}, s{i}) " for i in range(1, 23))
    nodes = nodes.replace("t0", "x0").replace("t22", "y")
    model = read_model(f"g ({inputs}) => (float[1] y) {{ {nodes} }}")
    assert ask(f"y = {sum_of}", model).names["x22"] == "x22"
    assert codegen.MOST_LOOPS < 20


def test_a_search_without_end_is_given_up(ask):
    """Eight names against a product of 24 equal factors, and a condition that never holds."""
    nodes = "".join(f"t{i} = Mul({f't{i - 1}' if i else 'x'}, x) " for i in range(23))
    text = f"g (float[1] x) => (float[1] y) {{ {nodes} y = Mul(t22, x) }}"
    found = ask("y = prod{a, b, c, d, e, f, g, h}", text, "y", "where rank(a) == 7")
    assert found.code == "steps"
