"""Install the system packages that some tests want, where that can be done.

In: nothing. Out: an emulator, a linker and a browser are there, or lines say what is not tested.
Debian's packages, as root only; on other systems the names are much the same. Nothing here is
needed to use the program. Runs before anything is installed: standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess

# What is tested with them: programs, and the packages that have them.
WANTED = {
    "code for aarch64": {"qemu-aarch64": "qemu-user", "ld.lld": "lld"},
    "the page of a report": {"chromium": "chromium", "chromedriver": "chromium-driver"},
}


def main() -> None:
    missing = _missing()
    if not missing:
        return
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", *missing)
    for what, programs in WANTED.items():
        if missing := _missing_of(programs):
            print(f"{what} will not be run in tests: {' and '.join(missing)} not installed")


def _missing() -> list[str]:
    return [package for programs in WANTED.values() for package in _missing_of(programs)]


def _missing_of(programs: dict[str, str]) -> list[str]:
    return [package for program, package in programs.items() if shutil.which(program) is None]


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
