"""Other interpreters, played in this one: what was stored under one is not loaded under the next.

Their byte code, and so the names of plans, cannot be compared, as with real ones; `test_interpreters.py` has these.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from checkpoint.format.code import Makers, makers
from hosting.engine.event_time.watermarks import encoded

REAL = makers()


class Pythons:
    """Which interpreter it is that runs: the real one, or one that was changed to."""

    def __init__(self) -> None:
        self.number = 0

    def makers(self) -> Makers:
        return REAL._replace(bytecode=REAL.bytecode + self.number, python=f"3.{11 + self.number}.0")

    def change(self) -> None:
        self.number += 1
        encoded.cache_clear()  # what the next process stores is its own


@contextmanager
def played_pythons() -> Iterator[Pythons]:
    """Play interpreters within, wherever code asks by which one it runs."""
    pythons = Pythons()
    asking = [module for module in list(sys.modules.values()) if getattr(module, "makers", None) is makers]
    with ExitStack() as patches:
        for module in asking:
            patches.enter_context(mock.patch.object(module, "makers", pythons.makers))
        yield pythons
