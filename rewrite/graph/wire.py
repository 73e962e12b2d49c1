"""Protobuf at the level of bytes: large tensor data is cut out of a model and put back in.

In: the bytes of a ModelProto. Out: a small ModelProto in which each large `raw_data` is a note of
where it lies in the file (`cut`); and the pieces of a file in which such notes have become data
again (`splice`). So neither reading nor writing a model holds its weights in memory.

Format: https://protobuf.dev/programming-guides/encoding. Field numbers: onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VARINT, I64, LEN, I32 = 0, 1, 2, 5

# A place in the model's own file instead of a file name. No file has this name.
INLINE = "\0inline"

# TensorProto
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14
_TENSOR: Any = "tensor"
# Fields that lead to tensors. GraphProto: initializer, node. NodeProto: attribute. AttributeProto:
# t, tensors, g, graphs. ModelProto: graph, functions (FunctionProto: node).
_GRAPH: Any = {5: _TENSOR}
_NODE: Any = {5: {5: _TENSOR, 10: _TENSOR, 6: _GRAPH, 11: _GRAPH}}
_GRAPH[1] = _NODE
_TREE: Any = {7: _GRAPH, 25: {7: _NODE}}
DEEPEST = 100  # messages inside messages, as in protobuf itself


class MalformedError(ValueError):
    """The bytes are not a protobuf message."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Data to be written in place of a note: `size` bytes that belong to the note number `key`."""

    key: int
    size: int


Piece = bytes | Hole


def varint(data: Any, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise MalformedError("a number does not end")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def encode_varint(number: int) -> bytes:
    """A number of at most 64 bits."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_len(field: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return encode_varint(field << 3 | LEN) + encode_varint(len(payload)) + payload


def fields(data: Any, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """`(number, wire type, where it begins, where its payload begins, where it ends)` of each."""
    at = start
    while at < end:
        begin = at
        tag, at = varint(data, at)
        kind = tag & 7
        payload = at
        if kind == LEN:
            size, payload = varint(data, at)
            at = payload + size
        elif kind == VARINT:
            _, at = varint(data, at)
        elif kind in (I64, I32):
            at += 8 if kind == I64 else 4
        else:
            raise MalformedError(f"wire type {kind}")
        if at > end:
            raise MalformedError("a field is longer than what holds it")
        yield tag >> 3, kind, begin, payload, at


# --- reading -----------------------------------------------------------------------------------


def note(offset: int, size: int, location: str = INLINE) -> bytes:
    """The fields of a TensorProto whose data lies at `offset` of the model's own file."""
    entries = {"location": location, "offset": str(offset), "length": str(size)}
    encoded = b"".join(
        encode_len(EXTERNAL_DATA, encode_len(1, k.encode()) + encode_len(2, v.encode()))
        for k, v in entries.items()
    )
    return encoded + encode_varint(DATA_LOCATION << 3 | VARINT) + b"\x01"


def cut(data: Any, least: int) -> bytes:
    """The model without tensor data of `least` bytes or more, which become notes."""
    return _cut(data, 0, len(data), _TREE, least, 0)


def _cut(data: Any, start: int, end: int, tree: Any, least: int, depth: int) -> bytes:
    if depth > DEEPEST:
        raise MalformedError("messages are nested too deep")
    parts: list[bytes] = []
    kept = start
    for number, kind, begin, payload, stop in fields(data, start, end):
        if kind != LEN or stop - payload < least:
            continue
        if tree is _TENSOR:
            if number != RAW_DATA:
                continue
            made = note(payload, stop - payload)
        elif number in tree:
            made = encode_len(number, _cut(data, payload, stop, tree[number], least, depth + 1))
        else:
            continue
        parts.append(bytes(data[kept:begin]))
        parts.append(made)
        kept = stop
    parts.append(bytes(data[kept:end]))
    return b"".join(parts)


# --- writing -----------------------------------------------------------------------------------


def splice(data: bytes, sizes: Callable[[int], int], notes: frozenset[int]) -> list[Piece]:
    """The pieces of the model in which each note has become a hole of `sizes(key)` bytes.

    `notes` are the keys in use: a note has its key as offset.
    """
    return _splice(data, 0, len(data), _TREE, sizes, notes) if notes else [data]


def _splice(
    data: bytes,
    start: int,
    end: int,
    tree: Any,
    sizes: Callable[[int], int],
    notes: frozenset[int],
) -> list[Piece]:
    pieces: list[Piece] = []
    kept = start
    marker = INLINE.encode()
    for number, kind, begin, payload, stop in fields(data, start, end):
        if kind != LEN or number not in tree or data.find(marker, payload, stop) < 0:
            continue
        inner: list[Piece]
        if tree[number] is _TENSOR:
            inner = _fill(data, payload, stop, sizes, notes)
        else:
            inner = _splice(data, payload, stop, tree[number], sizes, notes)
        head = encode_varint(number << 3 | LEN) + encode_varint(total(inner))
        pieces += [data[kept:begin] + head, *inner]
        kept = stop
    pieces.append(data[kept:end])
    return pieces


def _fill(
    data: bytes, start: int, end: int, sizes: Callable[[int], int], notes: frozenset[int]
) -> list[Piece]:
    """One TensorProto: its note becomes raw_data."""
    entries: dict[str, str] = {}
    kept: list[bytes] = []
    for number, _, begin, payload, stop in fields(data, start, end):
        if number == EXTERNAL_DATA:
            entries.update(_entry(data, payload, stop))
        elif number != DATA_LOCATION:
            kept.append(data[begin:stop])
    key = int(entries.get("offset", "-1"))
    if entries.get("location") != INLINE or key not in notes:
        return [data[start:end]]
    size = sizes(key)
    head = encode_varint(RAW_DATA << 3 | LEN) + encode_varint(size)
    return [b"".join(kept) + head, Hole(key, size)]


def _entry(data: bytes, start: int, end: int) -> Mapping[str, str]:
    """One StringStringEntryProto."""
    found = {1: "", 2: ""}
    for number, _, _, payload, stop in fields(data, start, end):
        found[number] = data[payload:stop].decode("utf-8", "replace")
    return {found[1]: found[2]}


def total(pieces: list[Piece]) -> int:
    """The number of bytes that the pieces will have."""
    return sum(piece.size if isinstance(piece, Hole) else len(piece) for piece in pieces)
