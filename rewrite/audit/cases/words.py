"""Parts of ONNX's text form: names, types, numbers, tensors, strings.

In: protobuf messages. Out: text that ONNX's parser takes, or `NoTextError`: ONNX's text form has no
words for some of what a model may hold. Floats are written with the fewest digits that give them
back; types without a literal (float16, float8, 4 bits) as the numbers that hold their bits, which
is what the parser wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rewrite.ops.dtypes import BITS, ONNX_NAMES
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF

MOST_ELEMENTS = 1 << 16  # of a constant that is written as text
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE_WORDS = {short: word for word, short in ONNX_NAMES.items()}
_DOMAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_AS_NUMBERS = frozenset({"f32", "f64", "c64", "c128"})


class NoTextError(Exception):
    """What has no words in ONNX's text form."""


def identifier(name: str) -> str:
    """A name, in quotes where it is not a word."""
    return name if _NAME.fullmatch(name) else quoted(name)


def operator_words(domain: str, name: str) -> str:
    """`Relu`, `com.microsoft.Gelu`."""
    if not _NAME.fullmatch(name):
        raise NoTextError(f"the operator `{name}`")
    if not domain:
        return name
    if not _DOMAIN.fullmatch(domain):
        raise NoTextError(f"the domain `{domain}`, which is not made of words and dots")
    return f"{domain}.{name}"


def quoted(text: str | bytes) -> str:
    """A string in quotes."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise NoTextError("a string that is not UTF-8 text") from None
    if not text.isprintable():
        raise NoTextError("a string with characters that cannot be shown")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def type_words(kind: onnx.TypeProto) -> str:
    """`float[2,N]`, `seq(int64[])`."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return _tensor_type(kind.tensor_type)
    if which == "sequence_type":
        return f"seq({type_words(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_words(kind.optional_type.elem_type)})"
    raise NoTextError(f"a value of type {which or 'unknown'}")


def _tensor_type(tensor: onnx.TypeProto.Tensor) -> str:
    word = element_word(tensor.elem_type)
    if not tensor.HasField("shape"):
        return f"{word}[]"
    dims = [_dim(dim) for dim in tensor.shape.dim]
    return f"{word}[{','.join(dims)}]" if dims else word


def element_word(elem: int) -> str:
    """What ONNX's text form calls an element type."""
    short = DTYPE_OF.get(elem)
    if short is None:
        raise NoTextError(f"the element type {elem}")
    return _TYPE_WORDS[short]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> str:
    if dim.HasField("dim_value"):
        return str(dim.dim_value)
    return identifier(dim.dim_param) if dim.dim_param else "?"


def tensor_type_words(tensor: TensorProto) -> str:
    """The type of a constant."""
    dims = ",".join(map(str, tensor.dims))
    return element_word(tensor.data_type) + (f"[{dims}]" if tensor.dims else "")


def tensor_words(tensor: TensorProto) -> str:
    """The elements of a constant, in braces."""
    return "{" + ", ".join(elements(tensor)) + "}"


def elements(tensor: TensorProto) -> list[str]:
    """The elements as the parser reads them."""
    if np.prod(tensor.dims, dtype=float) > MOST_ELEMENTS:
        raise NoTextError(f"a constant of more than {MOST_ELEMENTS} elements")
    short = DTYPE_OF.get(tensor.data_type)
    if short == "string":
        return [quoted(text) for text in tensor.string_data]
    array = np.asarray(numpy_helper.to_array(tensor)).reshape(-1)
    if short == "bool":
        return [str(int(value)) for value in array]
    if short in _AS_NUMBERS:
        parts = array.view(array.real.dtype) if array.dtype.kind == "c" else array
        return [float_words(value) for value in parts]
    if short in DTYPE_CLASSES["int"] and BITS[short] >= 8:
        return [str(int(value)) for value in array]
    raw = numpy_helper.from_array(array).raw_data
    width = np.uint16 if BITS.get(short or "", 8) == 16 else np.uint8
    return [str(int(value)) for value in np.frombuffer(raw, width)]


def float_words(value: np.floating | float) -> str:
    """The fewest digits that give the number back in its own type."""
    return str(value).removesuffix(".0")


def attribute_words(attribute: onnx.AttributeProto) -> str:
    """`name = value`, with the type where the value alone would be read as another."""
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type).lower()
    name = identifier(attribute.name)
    if attribute.ref_attr_name:
        return f"{name}: {kind} = @{identifier(attribute.ref_attr_name)}"
    typed, text = _value(attribute)
    return f"{name}: {kind} = {text}" if typed else f"{name} = {text}"


def _value(attribute: onnx.AttributeProto) -> tuple[bool, str]:
    """Whether the type has to be written, and the value."""
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.INT:
            return False, str(attribute.i)
        case kinds.FLOAT:
            return True, float_words(np.float32(attribute.f))
        case kinds.STRING:
            return False, quoted(attribute.s)
        case kinds.INTS:
            return not attribute.ints, _listed(map(str, attribute.ints))
        case kinds.FLOATS:
            return True, _listed(float_words(np.float32(f)) for f in attribute.floats)
        case kinds.STRINGS:
            return not attribute.strings, _listed(map(quoted, attribute.strings))
        case kinds.TENSOR:
            tensor = attribute.t
            return False, f"{tensor_type_words(tensor)} {tensor_words(tensor)}"
        case _:
            word = kinds.AttributeType.Name(attribute.type).lower()
            raise NoTextError(f"the attribute `{attribute.name}`, of type {word}")


def _listed(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"
