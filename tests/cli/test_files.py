"""A file is whole or not there, and keeps its permissions."""

from __future__ import annotations

import os
import stat

import pytest

from rewrite import files


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_appears_when_it_is_finished(tmp_path):
    path = tmp_path / "a"
    with files.whole(path) as stream:
        stream.write(b"one")
        assert not path.exists()
        (other,) = tmp_path.iterdir()
        assert other.name.startswith(files.PART)
    assert path.read_bytes() == b"one"
    assert mode(path) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_where_something_goes_wrong_nothing_changes(tmp_path, failure):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write() -> None:
        with files.whole(path) as stream:
            stream.write(b"new")
            raise failure

    with pytest.raises(failure):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions(tmp_path):
    """Those of the file that is replaced; those asked for."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with files.whole(path) as stream:
        stream.write(b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o640)
    with files.whole(path, 0o600) as stream:
        stream.write(b"own")
    assert (path.read_bytes(), mode(path)) == (b"own", 0o600)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError), files.whole(tmp_path / "none" / "a"):
        pass


def test_the_longest_name(tmp_path):
    path = tmp_path / ("a" * 255)
    with files.whole(path) as stream:
        stream.write(b"x")
    assert path.read_bytes() == b"x"
