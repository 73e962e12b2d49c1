"""`python -m rewrite` is the command line."""

from __future__ import annotations

from rewrite.cli import command

if __name__ == "__main__":
    command()
