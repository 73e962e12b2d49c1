"""Install the system packages that some tests want, where that can be done.

In: nothing. Out: `qemu-aarch64` and `ld.lld` are there, or a line says which tests are skipped.
Debian's packages, as root only; on other systems the names are much the same. Nothing here is
needed to use the program. Runs before anything is installed: standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess

# A program, and the package that has it.
WANTED = {"qemu-aarch64": "qemu-user", "ld.lld": "lld"}


def main() -> None:
    missing = _missing()
    if not missing:
        return
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", *missing)
        missing = _missing()
    if missing:
        print(f"code for aarch64 will not be run in tests: {' and '.join(missing)} not installed")


def _missing() -> list[str]:
    return [package for program, package in WANTED.items() if shutil.which(program) is None]


def _apt(*command: str) -> None:
    """Whether it worked shows in what is there afterwards."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ["apt-get", "--quiet", "--quiet", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )


if __name__ == "__main__":
    main()
