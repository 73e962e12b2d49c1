"""Make a virtual environment that has pip, on whatever Python the machine brings.

In: the folder. Out: `<folder>/bin/python -m pip` works, or one line says what to install.
Debian splits `ensurepip` off into python3-venv, so a bare `python3` may lack it; a system pip
can then fill the environment instead. Runs before anything is installed: standard library only.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python3 tools/environment.py FOLDER")
    if sys.version_info < OLDEST:
        have = "{}.{}".format(*sys.version_info)
        want = "{}.{}".format(*OLDEST)
        sys.exit(f"this needs Python {want} or newer, {sys.executable} is {have}: make PYTHON=...")
    folder = Path(sys.argv[1])
    if not _has_pip(folder):
        _create(folder)
    if not _has_pip(folder):
        sys.exit("this Python cannot install packages: apt-get install python3-venv, then again")


def _has_pip(folder: Path) -> bool:
    python = folder / "bin" / "python"
    return python.exists() and _runs([str(python), "-m", "pip", "--version"])


def _create(folder: Path) -> None:
    if importlib.util.find_spec("venv") is None:
        sys.exit("this Python has no venv module: apt-get install python3-venv, then again")
    import venv

    with_pip = importlib.util.find_spec("ensurepip") is not None
    venv.EnvBuilder(symlinks=True, clear=True, with_pip=with_pip).create(folder)
    if not with_pip:
        # pip >= 22.3 can work on another interpreter; older ones fail here and main() explains.
        python = str(folder / "bin" / "python")
        _runs([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip"])


def _runs(command: list[str]) -> bool:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


if __name__ == "__main__":
    main()
