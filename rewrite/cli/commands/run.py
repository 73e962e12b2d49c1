"""Run a model on this machine.

Rewrites the model for the target (--target none: runs it as it is), compiles it and
runs it once, on files given with --input or on random numbers. Prints a line per
output; -o keeps the outputs. --profile says where the time goes and which operators
have no native kernel; --strict-native refuses those. --fast-math is for float32
models that can do without the last digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite.cli.console import Tell, add_inputs, check_places, number_from, working
from rewrite.errors import error, visible

if TYPE_CHECKING:
    import numpy as np

    from rewrite.runtime.session import Session


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="an ONNX file")
    add("--target", default="host", metavar="T", help="a target of this machine, or none (host)")
    add("--threads", type=number_from(1), default=1, metavar="N", help="threads (1)")
    add_inputs(parser)
    add("-o", "--output", type=Path, metavar="OUT.npz", help="keep the outputs")
    add("--profile", action="store_true", help="say what each kernel takes")
    add("--strict-native", action="store_true", help="refuse operators without a native kernel")
    add("--fast-math", action="store_true", help="allow larger rounding errors, for speed")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.cli.feeding import feeds_for
    from rewrite.execution import compile_model

    check_places(arguments.output)
    target = None if arguments.target == "none" else arguments.target
    with working(f"running {arguments.model.name}") as tell:
        session = compile_model(
            arguments.model,
            target,
            arguments.threads,
            strict=arguments.strict_native,
            fast_math=arguments.fast_math,
            progress=None if tell is None else _progress(tell),
        )
        with session:
            feeds = feeds_for(session, arguments.model, arguments.input, arguments.random)
            outputs = session.run(feeds)
            lines = [_line(name, value) for name, value in outputs.items()]
            if arguments.profile:
                lines += _profile(session, feeds)
    for line in lines:
        print(visible(line))
    if arguments.output is not None:
        _keep(arguments.output, outputs)
    return 0


def _progress(tell: Tell) -> Callable[[int], None]:
    """What a session says, how many kernels are yet to compile, as a share of the most."""
    most = 0

    def report(left: int) -> None:
        nonlocal most
        most = max(most, left)
        tell(f"{left} kernels to compile" if left else "", most - left, left)

    return report


def _line(name: str, value: Any) -> str:
    """One output: what it is, and its first elements."""
    return f"{name}: {_told(value)}"


def _told(value: Any) -> str:
    import numpy as np

    if isinstance(value, list):
        first = "".join(f"; {_told(v)}" for v in value[:2])
        return f"sequence of {len(value)}{first}{'; ...' if len(value) > 2 else ''}"
    if not isinstance(value, np.ndarray):
        return repr(value)[:200]
    shape = "x".join(map(str, value.shape)) or "scalar"
    first = ", ".join(str(v) for v in value.reshape(-1)[:4])  # as long as their type needs
    more = ", ..." if value.size > 4 else ""
    kind = "string" if value.dtype.kind in "OU" else value.dtype
    return f"{kind} {shape} [{first}{more}]"


def _profile(session: Session, feeds: Mapping[str, Any]) -> list[str]:
    from rewrite.runtime.profile import table

    lines = ["", *table(session.profile(feeds)).splitlines()]
    slow = [node for node, device in session.devices().items() if device == "reference"]
    if slow:
        lines.append(f"on the reference device: {', '.join(slow)}")
    else:
        lines.append("every operator ran as native code")
    return lines


def _keep(path: Path, outputs: Mapping[str, Any]) -> None:
    """The file, whole or not at all."""
    import io

    from rewrite import files
    from rewrite.cli.feeding import write_arrays

    stream = io.BytesIO()
    arrays = (pair for name, value in outputs.items() for pair in _arrays(name, value))
    write_arrays(stream, {name: _storable(array) for name, array in arrays})
    try:
        with files.whole(path.resolve()) as target:
            target.write(stream.getvalue())
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error("RW003", f"cannot write: {reason}", subject=str(path)) from None


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An array by its name, those of a sequence by name and number; nothing of an optional
    that is empty."""
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from _arrays(f"{name}.{number}", element)
    elif value is not None:
        yield name, value


def _storable(value: Any) -> np.ndarray[Any, Any]:
    """Types of ml_dtypes as the bytes they are: .npz files know numpy's own types alone."""
    import numpy as np

    array = np.asarray(value)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array
