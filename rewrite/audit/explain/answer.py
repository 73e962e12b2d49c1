"""The question of `rewrite explain`, answered as one record.

In: a model, a target, further packs; the name of a rule, of a node, or both. Out: `Answer`.

A node that is still there after rewriting is explained where the rules stopped; one that is not,
in the model as it was, together with what took it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from rewrite import resources
from rewrite.audit.explain.misses import Grouped, Miss, at_node, of_node, of_rule
from rewrite.audit.explain.story import Fate, State, Story
from rewrite.audit.explain.words import node_words
from rewrite.errors import Span, error
from rewrite.lang.pack import load_pack
from rewrite.lang.words import suggestion
from rewrite.match.near import MOST_VIOLATIONS
from rewrite.match.vocabulary import vocabulary
from rewrite.told import nearby

SECONDS = 60.0  # for the near misses of a rule in a whole model


@dataclass(frozen=True, slots=True)
class Answer:
    """`fate`: what became of the node. `misses`: of one node; `groups`: of a rule in the model.

    `fired`: how often the rule was applied. `cut`: time ended the search before its end.
    """

    target: str
    rule: str | None
    node: str | None
    fate: Fate | None
    fired: int
    misses: tuple[Miss, ...]
    groups: tuple[Grouped, ...]
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """The record as plain data; spans as FILE:LINE:COLUMN."""
        found: dict[str, Any] = _plain(self)
        return found


def answer(story: Story, rule: str | None, node: str | None) -> Answer:
    """Raises RW740 where the target has no such rule, RW741 where the model has no such node."""
    chosen = None if rule is None else story.rule(rule)
    if rule is not None and chosen is None:
        raise _no_rule(story, rule)
    fired = 0 if rule is None else story.journal.fired().get(rule, 0)
    if node is None:
        assert chosen is not None  # the command asks for one of the two
        groups, cut = of_rule(story, chosen, story.after, MOST_VIOLATIONS, SECONDS)
        return Answer(story.target.name, rule, None, None, fired, (), groups, cut)
    state, place, fate = _place(story, node)
    if chosen is not None:
        misses: tuple[Miss, ...] = (at_node(story, chosen, place, state),)
    else:
        misses = of_node(story, place, state, MOST_VIOLATIONS)
    return Answer(story.target.name, rule, node_words(place), fate, fired, misses, ())


def _place(story: Story, name: str) -> tuple[State, ir.Node, Fate | None]:
    before, after = story.before.places.get(name), story.after.places.get(name)
    if before is None and after is None:
        known = [*story.before.places, *story.after.places]
        hint = suggestion(name, known) or "a node is called by its name, or by that of an output"
        raise error("RW741", f"the model has no node `{name}`", hint=hint)
    if before is not None:
        fate = story.fate(before)
        if fate is not None or after is None:
            return story.before, before, fate
    assert after is not None
    return story.after, after, None


def _no_rule(story: Story, name: str) -> Exception:
    """The rule is not among those of the target: whose is it, and why is it not here?"""
    message = f"the packs of target `{story.target.name}` have no rule `{name}`"
    for pack, folder in resources.shipped("rules").items():
        loaded = load_pack(folder, vocabulary(), [resources.folder("rules")])
        origin = loaded.origins.get(name)
        if origin is None:
            continue
        if pack in story.target.packs:
            break
        whose = f"it is a rule of pack `{origin.pack}`; --rules {origin.pack} adds the pack"
        return error("RW740", message, hint=whose)
    listed = f"`rewrite targets {story.target.name}` lists its packs"
    meant = suggestion(name, [rule.name for rule in story.rules])
    return error("RW740", message, hint=meant or listed)


def _plain(value: object) -> Any:
    if isinstance(value, Span):
        return f"{value.file}:{value.line}:{value.column}"
    if is_dataclass(value):  # `with` is no name in Python
        return {f.name.rstrip("_"): _plain(getattr(value, f.name)) for f in fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


# --- text --------------------------------------------------------------------------------------


def text(found: Answer) -> list[str]:
    """The answer for a terminal."""
    lines = _about_rule(found) if found.node is None else _about_node(found)
    if found.cut:
        lines.append(f"(cut after {SECONDS:g} s)")
    return lines


def _about_node(found: Answer) -> list[str]:
    lines = [f"{found.node}: {_fate(found.fate)}"]
    whole = [m for m in found.misses if found.rule is not None or len(m.matched) >= m.size]
    for miss in whole:
        lines += _miss(miss, found.node)
    others = sorted(miss.rule for miss in found.misses if miss not in whole)
    if others:
        find = "1 rule finds" if len(others) == 1 else f"{len(others)} rules find"
        lines.append(f"{find} only some of their operators here: {', '.join(others)}")
    if found.rule is None and not found.misses:
        lines.append("no rule comes near it")
    return lines


def _fate(fate: Fate | None) -> str:
    if fate is None:
        return "still there after rewriting"
    if fate.code == "taken":
        others = ", ".join(f"`{name}`" for name in fate.with_[:6])
        together = f", together with {others}" if others else ""
        return f"taken by {fate.by}{together}"
    words = {"folded": "computed: its operands are constant", "removed": "gone: nothing uses it"}
    return words[fate.code]


def _about_rule(found: Answer) -> list[str]:
    times = "once" if found.fired == 1 else f"{found.fired} times"
    lines = [f"{found.rule}: applied {times}" if found.fired else f"{found.rule}: never applied"]
    if not found.groups:
        lines.append("nothing that is left comes near it")
    for group in found.groups:
        count = len(group.nodes)
        places = ", ".join(f"`{name}`" for name in group.nodes[:4])
        more = f" and {count - 4} more" if count > 4 else ""
        lines.append(f"{count} near miss{'es' if count > 1 else ''}: {places}{more}")
        lines += _reasons(group.miss)
    return lines


def _miss(miss: Miss, node: str | None) -> list[str]:
    where = "" if miss.anchor == node else f" at {miss.anchor}"
    plural = "" if miss.size == 1 else "s"
    count = f"{min(len(miss.matched), miss.size)} of {miss.size} operator{plural}"
    if not miss.reasons:
        return [f"{miss.rule}: matches{where} in the {miss.state} model ({count})"]
    return [
        f"{miss.rule}: does not apply{where} in the {miss.state} model ({count} found)",
        *_reasons(miss),
    ]


def _reasons(miss: Miss) -> list[str]:
    lines: list[str] = []
    for number, reason in enumerate(miss.reasons):
        start = "would match if" if number == 0 else "           and"
        what = f"{start} {reason.would}" if reason.would else reason.reason
        lines.append(f"  {what}  [{reason.code}]")
        if reason.span is not None:
            key = f" ({reason.key})" if reason.key else ""
            lines.append(f"      {_at(reason.span)}{key}")
    for other in miss.others[:2]:
        wanted = " and ".join(reason.would or reason.reason for reason in other)
        lines.append(f"  or if {wanted}")
    return lines


def _at(span: Span) -> str:
    return f"{nearby(Path(span.file))}:{span.line}:{span.column}"
