"""The fixture of the tests of reading, writing and editing; their helpers are in graphkit.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def corpus() -> Path:
    from graphkit import corpus_folder

    folder = corpus_folder()
    if folder is None:
        pytest.skip(
            "these checks read real models, which are not part of the project: there are none in "
            "the folder $REWRITE_CORPUS, nor in ../shared/models"
        )
    return folder
