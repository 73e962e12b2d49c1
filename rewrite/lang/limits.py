"""Bounds on rule text. Packs come from strangers; nothing they write may cost much time or memory.

In: nothing. Out: constants. docs/language.md lists them.
"""

FILE_CHARACTERS = 1 << 20  # one .rules file
MANIFEST_CHARACTERS = 1 << 16  # one pack.yaml
YAML_NESTING = 8
PACK_CHARACTERS = 16 << 20  # all files of a pack and of those it extends
PACK_FILES = 500
PACKS = 50  # loaded together, with what they extend
SYNTAX_ERRORS = 50  # reported for one file
NESTING = 60  # operators, parentheses and operands inside each other
NUMBER_CHARACTERS = 40
NAME_CHARACTERS = 80
EXPANDED_NODES = 2_000  # pattern nodes of one rule after its pattern calls are expanded
EXPANDED_DEPTH = 100
CHAIN_LENGTH = 32
SIBLINGS = 64
BAG_ITEMS = 8
