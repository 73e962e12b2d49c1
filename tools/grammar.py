"""Write the tables of the parser, rewrite/lang/grammar.json, from rewrite/lang/grammar.lark.

In: the grammar. Out: how its words are spelled, its productions, and the LALR(1) automaton, which
lark computes here so that nobody waits for it at run time. rewrite/lang/machine.py reads the file
and says what its entries mean. The same grammar gives the same text.
"""

from __future__ import annotations

import json
from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.lexer import PatternStr
from lark.parsers.lalr_analysis import Shift

from rewrite.lang.machine import GRAMMAR, TABLES


def tables(grammar: str) -> dict[str, Any]:
    """What grammar.json holds."""
    lark = Lark(grammar, parser="lalr", lexer="basic", keep_all_tokens=True,
                maybe_placeholders=False)  # fmt: skip
    rules = sorted(lark.rules, key=lambda r: (r.origin.name, [s.name for s in r.expansion]))
    table = lark.parser.parser._parse_table
    states = _renumbered(table.states, table.start_states["start"])
    number = {rule: ~i for i, rule in enumerate(rules)}
    automaton = [
        {
            symbol: states[arg] if action is Shift else number[arg]
            for symbol, (action, arg) in sorted(table.states[state].items())
        }
        for state in states
    ]
    end = states[table.end_states["start"]]
    automaton[end]["$END"] = end
    ignored = set(lark.ignore_tokens)
    spelled = {t.pattern.value: t.name for t in lark.terminals if isinstance(t.pattern, PatternStr)}
    patterns = {
        t.name: t.pattern.to_regexp()
        for t in _in_order(lark)
        if not isinstance(t.pattern, PatternStr)
    }
    return {
        "skipped": [p for name, p in patterns.items() if name in ignored],
        "patterns": {name: p for name, p in patterns.items() if name not in ignored},
        "spelled": dict(sorted(spelled.items(), key=lambda item: (-len(item[0]), item[0]))),
        "productions": [_production(rule, _passing(rules)) for rule in rules],
        "states": automaton,
    }


def _in_order(lark: Lark) -> list[Any]:
    """Terminals as they are tried: of higher priority first, then as lark sorts them."""
    return sorted(
        lark.terminals,
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
    )


def _renumbered(states: dict[Any, dict[str, Any]], start: Any) -> dict[Any, int]:
    """States in the order in which they are met from the first one, by names of symbols."""
    order = {start: 0}
    for state in (queue := [start]):
        for _, (action, arg) in sorted(states[state].items(), key=lambda item: item[0]):
            if action is Shift and arg not in order:
                order[arg] = len(order)
                queue.append(arg)
    return order


def _passing(rules: list[Rule]) -> frozenset[str]:
    """Inlined symbols that always stand for one child, which then needs no list around it."""
    found = {r.origin.name for r in rules if r.origin.name.startswith("_")}
    while True:
        lists = {
            r.origin.name
            for r in rules
            if r.origin.name in found
            and (len(r.expansion) != 1 or _is_list(r.expansion[0], frozenset(found)))
        }
        if not lists:
            return frozenset(found)
        found -= lists


def _is_list(symbol: Any, passing: frozenset[str]) -> bool:
    return not symbol.is_term and symbol.name.startswith("_") and symbol.name not in passing


def _production(rule: Rule, passing: frozenset[str]) -> list[Any]:
    """[symbol, size, what it makes, places of lists, whether one child stands for itself]"""
    name = rule.origin.name
    lists = [i for i, symbol in enumerate(rule.expansion) if _is_list(symbol, passing)]
    alone = bool(rule.options.expand1 and not rule.alias)
    makes = "" if name.startswith("_") else str(rule.alias or name)
    if name in passing or (alone and len(rule.expansion) == 1 and not lists):
        makes = "pass"
    return [name, len(rule.expansion), makes, lists, alone]


def text() -> str:
    """The file as it should be."""
    found = tables(GRAMMAR.read_text(encoding="utf-8"))
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in found.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    """One entry of a list on each line."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(item) for item in value) + "\n]"


def main() -> None:
    TABLES.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
