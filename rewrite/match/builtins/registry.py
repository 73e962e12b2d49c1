"""`@builtin`: how a Python function becomes callable from rule text.

In: annotated functions of the modules of this folder, found by scanning it. Out: `Builtin`, whose
`call` converts arguments by the annotations and turns numpy's complaints into `Unknown`.

| annotation | accepts | kind |
|---|---|---|
| `Tensor` | a constant, a number, a list of numbers | tensor |
| `float`, `int` | a number, a constant with one element, a known size | number |
| `Ints` | a list of integers, an integer constant of rank 0 or 1 | tensor |
| `Tensors` | a list of constants | list |
| `Items` | any list | list |
| `Value` | anything that has a type: a graph value, a constant, a number | value |
| `Dtype` | the name of an element type | dtype |
| `str`, `bool`, `object` | a string, a truth value, anything | string, bool, any |

A first parameter `env: Env` is the environment; `maker: Maker` makes nodes, for `emit` only.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from rewrite.lang.vocabulary import FunctionSignature, Kind, Parameter
from rewrite.match import budget
from rewrite.match.operators import simplest
from rewrite.match.values import Env, Symbol, Tensor, Unknown, describe, is_graph_value
from rewrite.schema import DTYPES

Ints = tuple[int, ...]
Items = tuple[Any, ...]
Tensors = tuple[Tensor, ...]
Value = object  # a graph value, a constant or a number: something with a type
Dtype = str

F = TypeVar("F", bound=Callable[..., object])

_REGISTERED: list[tuple[str, Callable[..., object]]] = []

_KINDS: Mapping[str, Kind] = {
    "Tensor": "tensor", "float": "number", "int": "number", "int | float": "number",
    "Ints": "tensor", "Ints | None": "tensor", "Items": "list", "Tensors": "list", "Value": "value",
    "int | None": "number", "Tensor | None": "tensor", "Dtype | None": "dtype",
    "Dtype": "dtype", "str": "string", "bool": "bool", "object": "any",
}  # fmt: skip

# What a library function raises for arguments it cannot take.
_COMPLAINTS = (ArithmeticError, IndexError, MemoryError, TypeError, ValueError)


def builtin(function: F) -> F:
    """Register a function. Its name without a trailing `_` is its name in rule text."""
    _REGISTERED.append((function.__name__.rstrip("_"), function))
    return function


def register(name: str, function: Callable[..., object]) -> None:
    """Register a function under another name, for families made by a factory."""
    _REGISTERED.append((name, function))


@dataclass(frozen=True, slots=True)
class Builtin:
    signature: FunctionSignature
    call: Callable[..., object]  # (env, positional, keywords), and the maker where it makes nodes


@cache
def _registered() -> Mapping[str, Callable[..., object]]:
    package = importlib.import_module("rewrite.match.builtins")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    found: dict[str, Callable[..., object]] = {}
    for name, function in _REGISTERED:
        if name in found:
            raise ValueError(f"two functions are named {name}")
        found[name] = function
    return dict(sorted(found.items()))


def functions() -> Mapping[str, Builtin]:
    """Every function of the closed set, by name, in name order."""
    return {name: find(name) for name in _registered()}


@cache
def find(name: str) -> Builtin:
    """The function of that name; `KeyError` where there is none."""
    return _make(name, _registered()[name])


def _make(name: str, function: Callable[..., object]) -> Builtin:
    signature = inspect.signature(function)
    declared = list(signature.parameters.values())
    makes = bool(declared) and declared[0].annotation == "Maker"
    takes_env = makes or (bool(declared) and declared[0].annotation == "Env")
    declared = declared[1:] if takes_env else declared
    parameters = tuple(_parameter(p) for p in declared)
    result = _KINDS[str(signature.return_annotation)]
    if makes and result != "list":
        result = "value"
    doc = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    converters = tuple(_CONVERTERS[str(p.annotation)] for p in declared)
    call = _caller(name, function, takes_env, parameters, converters)
    return Builtin(FunctionSignature(name, parameters, result, doc, makes), call)


def _parameter(declared: inspect.Parameter) -> Parameter:
    variadic = declared.kind is inspect.Parameter.VAR_POSITIONAL
    optional = declared.default is not inspect.Parameter.empty
    name = declared.name.rstrip("_")
    return Parameter(name, _KINDS[str(declared.annotation)], optional, variadic)


def _caller(
    name: str,
    function: Callable[..., object],
    takes_env: bool,
    parameters: tuple[Parameter, ...],
    converters: tuple[Callable[[Env, object], object], ...],
) -> Callable[..., object]:
    by_name = {p.name: i for i, p in enumerate(parameters)}
    spelled = [p for p in inspect.signature(function).parameters if p not in ("env", "maker")]
    variadic = any(p.variadic for p in parameters)
    places = [i for i, p in enumerate(parameters) if p.variadic]
    last = places[0] if places else len(parameters) - 1

    numeric = any(p.kind in ("tensor", "list", "any") for p in parameters)

    def call(
        env: Env,
        positional: tuple[object, ...],
        keywords: Mapping[str, object],
        maker: object = None,
    ) -> object:
        if len(positional) > len(parameters) and not variadic:
            raise Unknown(f"{name} takes at most {len(parameters)} arguments")
        arguments: list[object] = []
        if takes_env:
            arguments.append(env if maker is None else maker)
        for i, argument in enumerate(positional):
            arguments.append(converters[i if i < last else last](env, argument))
        named: dict[str, object] = {}
        for key, value in keywords.items():
            if key not in by_name:
                raise Unknown(f"{name} has no parameter {key}")
            named[spelled[by_name[key]]] = converters[by_name[key]](env, value)
        work = budget.PER_CALL
        for argument in arguments:
            if isinstance(argument, (Tensor, tuple)):
                work += _extent(argument)
        budget.spend(work)
        try:
            if numeric:
                with np.errstate(all="ignore"):
                    result = function(*arguments, **named)
            else:
                result = function(*arguments, **named)
        except _COMPLAINTS as complaint:
            raise Unknown(f"{name}: {complaint or type(complaint).__name__}") from complaint
        return simplest(result) if isinstance(result, Tensor) else result

    return call


def _extent(argument: Tensor | tuple[object, ...]) -> int:
    """How much there is of an argument, in elements."""
    if isinstance(argument, Tensor):
        return argument.size
    return budget.PER_ITEM * len(argument)


def to_number(env: Env, value: object) -> int | float:
    """A number, or the one element of a constant."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Symbol):
        raise Unknown(f"the size {value} is not known")
    tensor = env.tensor(value)
    if tensor.size != 1 or tensor.array.dtype.kind not in "bif":
        raise Unknown(f"{describe(value)} is not one number")
    item: int | float = tensor.array.reshape(()).item()
    return item


def to_int(env: Env, value: object) -> int:
    """An integer; a number with an integer value counts."""
    number = to_number(env, value)
    if isinstance(number, float):
        if not number.is_integer():
            raise Unknown(f"{number} is not an integer")
        return int(number)
    return int(number)


def to_ints(env: Env, value: object) -> tuple[int, ...]:
    """A list of integers, or a constant of rank 0 or 1 as one."""
    if isinstance(value, tuple):
        return tuple(to_int(env, item) for item in value)
    tensor = env.tensor(value)
    if tensor.ndim > 1:
        raise Unknown(f"{describe(value)} is not a list of integers")
    return tuple(to_int(env, item) for item in tensor.array.reshape(-1).tolist())


def to_items(env: Env, value: object) -> tuple[object, ...]:
    """A list; a constant of rank 1 counts as the list of its elements."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, Tensor) and value.ndim == 1:
        return tuple(value.array.tolist())
    raise Unknown(f"{describe(value)} is not a list")


def _to_tensors(env: Env, value: object) -> tuple[Tensor, ...]:
    if not isinstance(value, tuple):
        raise Unknown(f"{describe(value)} is not a list")
    if not value:
        raise Unknown("the list is empty")
    return tuple(env.tensor(item) for item in value)


def _or_none(convert: Callable[[Env, object], object]) -> Callable[[Env, object], object]:
    return lambda env, value: None if value is None else convert(env, value)


def to_bool(env: Env, value: object) -> bool:
    """A truth value. A comparison of constants holds where it holds for all elements."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Tensor) and value.array.dtype == np.bool_:
        return bool(value.array.all())
    raise Unknown(f"{describe(value)} is neither true nor false")


def to_dtype(env: Env, value: object) -> str:
    """The name of an element type."""
    if isinstance(value, str) and value in DTYPES:
        return value
    raise Unknown(f"{describe(value)} is not an element type")


def _to_string(env: Env, value: object) -> str:
    if isinstance(value, str) and not isinstance(value, Symbol):
        return value
    raise Unknown(f"{describe(value)} is not a string")


def _to_value(env: Env, value: object) -> object:
    if is_graph_value(value) or isinstance(value, (Tensor, bool, int, float, tuple)):
        return value
    raise Unknown(f"{describe(value)} has no type")


_CONVERTERS: Mapping[str, Callable[[Env, object], object]] = {
    "Tensor": Env.tensor, "float": to_number, "int": to_int, "int | float": to_number,
    "Ints": to_ints, "Items": to_items, "Tensors": _to_tensors, "Value": _to_value,
    "Dtype": to_dtype, "Ints | None": _or_none(to_ints), "int | None": _or_none(to_int),
    "Tensor | None": _or_none(Env.tensor), "Dtype | None": _or_none(to_dtype),
    "str": _to_string, "bool": to_bool, "object": lambda env, value: value,
}  # fmt: skip
