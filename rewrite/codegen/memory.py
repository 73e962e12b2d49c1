"""Elements between memory and registers.

In: addresses, element types. Out: values as generators compute with them: f32 and the narrower
floats as `float`, f64 as `double`, integers in their own width (those below a byte as `i8`), bool
as `i1`, complex numbers as one integer that can only be moved. A value is a scalar (0 lanes) or a
vector of any number of lanes. Memory holds what numpy and ml_dtypes keep (rewrite/plan/view.py).
"""

from __future__ import annotations

from rewrite.codegen.floats import NARROW, decode, encode
from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import like, vector
from rewrite.codegen.value import Value
from rewrite.plan.view import BYTES

_REGISTERS: dict[str, str] = {
    "f32": "float", "f64": "double", "bool": "i1", "c64": "i64", "c128": "i128",
    "u8": "i8", "s8": "i8", "u16": "i16", "s16": "i16", "u32": "i32", "s32": "i32",
    "u64": "i64", "s64": "i64", "u4": "i8", "s4": "i8", "u2": "i8", "s2": "i8",
    **dict.fromkeys(sorted(NARROW), "float"),
}  # fmt: skip
_BELOW_A_BYTE = {"u4": 4, "s4": 4, "u2": 2, "s2": 2}


def register_type(dtype: str, lanes: int) -> str:
    """The LLVM type of elements in a register; 0 lanes: a scalar."""
    return vector(_REGISTERS[dtype], lanes)


def memory_type(dtype: str) -> str:
    """The LLVM type of one element in memory."""
    return {"f32": "float", "f64": "double"}.get(dtype) or f"i{8 * BYTES[dtype]}"


def load(f: Function, isa: Isa, dtype: str, pointer: Value, lanes: int, stride: Int = 1) -> Value:
    """Elements 0, stride, 2 stride, … from `pointer` on; stride 0: one element in all lanes."""
    if lanes == 0:
        return to_register(f, isa, dtype, f.load(memory_type(dtype), pointer))
    if isinstance(stride, int) and stride == 1:
        return to_register(f, isa, dtype, f.load(vector(memory_type(dtype), lanes), pointer))
    if isinstance(stride, int) and stride == 0:
        one = to_register(f, isa, dtype, f.load(memory_type(dtype), pointer))
        return f.splat(one, register_type(dtype, lanes))
    return to_register(f, isa, dtype, _gathered(f, dtype, pointer, lanes, stride))


def store(
    f: Function,
    isa: Isa,
    dtype: str,
    value: Value,
    pointer: Value,
    lanes: int,
    stride: Int = 1,
) -> None:
    """The opposite of `load`. Floats narrower than float32 are rounded if they are not yet."""
    raw = to_memory(f, isa, dtype, value)
    if lanes == 0 or (isinstance(stride, int) and stride == 1):
        f.store(raw, pointer)
        return
    for lane in range(lanes):
        at = f.at(pointer, f.mul(stride, lane), memory_type(dtype))
        f.store(f.extract(raw, lane), at)


def prefetch(f: Function, pointer: Value, level: int = 2) -> None:
    """Fetches a line into caches from this level on; any address will do."""
    f.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    near = 4 - level  # LLVM's locality: 3 for the nearest
    f.do(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 0, i32 {near}, i32 1)")


def _gathered(f: Function, dtype: str, pointer: Value, lanes: int, stride: Int) -> Value:
    name = memory_type(dtype)
    value = f.undef(vector(name, lanes))
    for lane in range(lanes):
        one = f.load(name, f.at(pointer, f.mul(stride, lane), name))
        value = f.insert(value, one, lane)
    return value


def to_register(f: Function, isa: Isa, dtype: str, raw: Value) -> Value:
    """What an element in memory is in a register."""
    if dtype == "bool":
        return f.compare("!=", raw, 0)
    if dtype in NARROW:
        return decode(f, isa, dtype, raw)
    if dtype in _BELOW_A_BYTE:
        return wrapped(f, dtype, raw)
    return raw


def to_memory(f: Function, isa: Isa, dtype: str, value: Value) -> Value:
    """What an element in a register is in memory."""
    if dtype == "bool":
        return f.cast("zext", value, like(value.type, "i8"))
    if dtype in NARROW:
        return encode(f, isa, dtype, value)
    if dtype in _BELOW_A_BYTE:  # the bits above are 0 in memory
        return f.binary("and", value, (1 << _BELOW_A_BYTE[dtype]) - 1)
    return value


def wrapped(f: Function, dtype: str, value: Value) -> Value:
    """The low bits of an `i8`, read as a number of 4 or 2 bits; other types as they are."""
    width = _BELOW_A_BYTE.get(dtype)
    if width is None:
        return value
    if dtype[0] == "u":
        return f.binary("and", value, (1 << width) - 1)
    return f.binary("ashr", f.binary("shl", value, 8 - width), 8 - width)
