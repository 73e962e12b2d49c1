"""The cache of machine code: whatever stands in the folder, the right code runs."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rewrite import files
from rewrite.codegen.isa import BASELINE, Isa, isa_of, native
from rewrite.codegen.kernel import symbol_of
from rewrite.runtime import objects as module
from rewrite.runtime.objects import Counts, Objects
from tests.runtime.plans import AddNumber, numbers

KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
SPEC = AddNumber(2.5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where objects are kept; does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REWRITE_CACHE", raising=False)
    return tmp_path / "rewrite" / "objects"


def works(address: int, number: float = 2.5) -> bool:
    x = numbers(5)
    y = np.empty_like(x)
    table = np.array([a.__array_interface__["data"][0] for a in (x, y)], np.int64)
    assert KERNEL(address)(table.ctypes.data, 0, 5, None) == 0
    return bool(np.array_equal(y, x + np.float32(number)))


def counts(objects: Objects) -> tuple[int, int, int]:
    return objects.counts.compiled, objects.counts.read, objects.counts.loaded


def kept(folder: Path, isa: Isa | None = None) -> Path:
    return folder / (symbol_of(SPEC, isa or native()) + module.SUFFIX)


def test_compiled_once_then_read(folder: Path) -> None:
    first = Objects(native())
    assert works(first.address(SPEC))
    assert works(first.address(SPEC))
    assert counts(first) == (1, 0, 1)
    second = Objects(native())
    assert works(second.address(SPEC))
    assert counts(second) == (0, 1, 0)
    assert second.counts.bytes == first.counts.bytes > 0
    assert [path.name for path in folder.iterdir()] == [kept(folder).name]
    assert kept(folder).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_addresses_in_order_and_progress(folder: Path) -> None:
    objects = Objects(native())
    told: list[int] = []
    specs = [AddNumber(1.0), AddNumber(2.0), AddNumber(1.0), AddNumber(3.0)]
    found = objects.addresses(specs, told.append)
    assert found[0] == found[2]
    assert len(set(found)) == 3
    assert told == [3, 2, 1, 0]
    assert all(works(a, s.number) for a, s in zip(found, specs, strict=True))
    told.clear()
    assert objects.addresses(specs, told.append) == found
    assert told == []


def test_specs_that_only_seem_equal(folder: Path) -> None:
    """-0.0 == 0.0: as sums they are not the same."""
    objects = Objects(native())
    assert AddNumber(0.0) == AddNumber(-0.0)
    plus, minus = objects.addresses([AddNumber(0.0), AddNumber(-0.0)])
    assert plus != minus
    x, y = np.array([-0.0], np.float32), np.empty(1, np.float32)
    table = np.array([a.__array_interface__["data"][0] for a in (x, y)], np.int64)
    for address, sign in ((plus, False), (minus, True)):
        KERNEL(address)(table.ctypes.data, 0, 1, None)
        assert bool(np.signbit(y[0])) == sign


# --- what may stand under the name of an object -------------------------------------------------


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def foreign(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(4000))


def of_another_symbol(path: Path) -> None:
    """A whole object of ours, renamed."""
    objects = Objects(native())
    objects.address(AddNumber(9.0))
    other = path.parent / (symbol_of(AddNumber(9.0), native()) + module.SUFFIX)
    other.replace(path)


def of_another_processor(path: Path) -> None:
    isa = BASELINE if native().arch == "x86_64" else isa_of(native().triple, "generic", ())
    Objects(isa).address(SPEC)
    kept(path.parent, isa).replace(path)


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


def a_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.replace(target)
    path.symlink_to(target)


def a_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil",
    [
        empty, cut, one_bit, foreign, of_another_symbol, of_another_processor, open_to_others,
        a_link, a_dangling_link, a_folder, a_pipe,
    ],
)  # fmt: skip
def test_files_that_are_not_used(folder: Path, spoil: Callable[[Path], None]) -> None:
    Objects(native()).address(SPEC)
    spoil(kept(folder))
    after = Objects(native())
    assert works(after.address(SPEC))
    assert counts(after) == (1, 0, 0)
    again = Objects(native())  # and what was wrong is put right, where that can be done
    assert works(again.address(SPEC))
    assert counts(again) == ((1, 0, 0) if spoil is a_folder else (0, 1, 0))
    assert not [p for p in folder.iterdir() if p.name.startswith(files.PART)]


def test_unreadable_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Objects(native()).address(SPEC)
    real = os.open

    def refuse(path: object, *rest: int, **named: int) -> int:
        if str(path).endswith(module.SUFFIX):
            raise PermissionError(errno.EACCES, "no")
        return real(path, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", refuse)
    objects = Objects(native())
    assert works(objects.address(SPEC))
    assert counts(objects) == (1, 0, 0)


# --- folders ------------------------------------------------------------------------------------


def test_nothing_is_kept_where_it_is_not_wanted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWRITE_CACHE", "off")
    for _ in range(2):
        objects = Objects(native())
        assert works(objects.address(SPEC))
        assert counts(objects) == (1, 0, 0)
    assert not folder.exists()


def test_a_folder_of_others_is_not_used(folder: Path) -> None:
    Objects(native()).address(SPEC)
    folder.chmod(0o777)
    objects = Objects(native())
    assert works(objects.address(SPEC))
    assert counts(objects) == (1, 0, 0)


def test_a_file_instead_of_the_folder(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_text("mine")
    assert works(Objects(native()).address(SPEC))
    assert folder.read_text() == "mine"


def test_a_link_instead_of_the_folder(folder: Path, tmp_path: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    (tmp_path / "other").mkdir()
    folder.symlink_to(tmp_path / "other")
    assert works(Objects(native()).address(SPEC))
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_takes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What is compiled works; after a few failures it is not tried again; reading goes on."""
    Objects(native()).address(SPEC)
    tried = []

    def full(path: Path, mode: int | None = None) -> object:
        tried.append(path)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "whole", full)
    objects = Objects(native())
    for k in range(6):
        assert works(objects.address(AddNumber(k / 2 + 10)), k / 2 + 10)
    assert works(objects.address(SPEC))
    assert len(tried) == module.MOST_FAILURES
    assert counts(objects) == (6, 1, 0)


def test_a_full_disk_leaves_no_half_of_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("a disk without room is played by /dev/full, which this system has not")
    real = os.open

    def full(path: object, flags: int, *rest: int, **named: int) -> int:
        where = "/dev/full" if files.PART in str(path) else path
        flags = flags & ~os.O_EXCL if where == "/dev/full" else flags
        return real(where, flags, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", full)
    objects = Objects(native())
    assert works(objects.address(SPEC))
    assert counts(objects) == (1, 0, 0)
    assert list(folder.iterdir()) == []


def test_too_many_objects_are_thinned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Objects(native())
    for k in range(6):
        first.address(AddNumber(float(k)))
        path = folder / (symbol_of(AddNumber(float(k)), native()) + module.SUFFIX)
        os.utime(path, (1000 + k, 1000 + k))
    (folder / (files.PART + "left-over")).write_bytes(b"x")
    os.utime(folder / (files.PART + "left-over"), (1, 1))
    monkeypatch.setattr(module, "MOST_FILES", 5)
    later = Objects(native())
    assert works(later.address(AddNumber(77.0)), 77.0)
    names = {path.name for path in folder.iterdir()}
    for k, there in ((0, False), (1, False), (3, True), (5, True), (77, True)):
        name = symbol_of(AddNumber(float(k)), native()) + module.SUFFIX
        assert (name in names) == there, k
    assert not [name for name in names if name.startswith(files.PART)]


# --- many at once -------------------------------------------------------------------------------


WRITER = """
import sys
from rewrite.codegen.isa import native
from rewrite.runtime.objects import Objects
from tests.runtime.plans import AddNumber
from tests.runtime.test_objects import works
for _ in range(3):
    objects = Objects(native())
    for k in range(8):
        assert works(objects.address(AddNumber(float(k))), float(k))
print(objects.counts.read)
"""


def test_processes_at_once(folder: Path) -> None:
    """They write the same objects; each reads what is whole."""
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    for process in begun:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert out.strip() == b"8"
    assert len(list(folder.iterdir())) == 8


def test_threads_at_once(folder: Path) -> None:
    objects = Objects(native())
    found: list[list[int]] = []
    specs = [AddNumber(float(k)) for k in range(10)]

    def ask() -> None:
        found.append(objects.addresses(specs))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(each == found[0] for each in found)
    assert objects.counts.compiled == 10


def test_code_that_cannot_be_made(folder: Path) -> None:
    """The error goes to the caller; the cache holds nothing of it and goes on."""

    def fail() -> bytes:
        raise ValueError("no code")

    objects = Objects(native())
    for _ in range(2):
        with pytest.raises(ValueError, match="no code"):
            objects.load("nothing", fail)
    assert works(objects.address(SPEC))
    assert counts(objects) == (1, 0, 0)


def test_an_interrupted_link_is_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Objects(native())
    real = Objects._link

    def interrupted(self: Objects, symbol: str, image: bytes) -> int:
        real(self, symbol, image)
        del self._addresses[symbol]
        raise KeyboardInterrupt

    monkeypatch.setattr(Objects, "_link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        objects.address(SPEC)
    monkeypatch.setattr(Objects, "_link", real)
    assert works(objects.address(SPEC))


def test_counts_begin_at_zero() -> None:
    assert Objects(native()).counts == Counts(0, 0, 0, 0)
