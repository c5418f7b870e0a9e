"""What the tests of the tests share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Callable[[], Path]:
    """Return what gives a folder of its own to each try."""

    def made(numbers: Any = itertools.count()) -> Path:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return folder

    return made
