"""Other interpreters, played in this one: what was stored under one is not loaded under the next.

Their byte code, and so the names of plans, cannot be compared, as with real ones; `test_interpreters.py` has these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from checkpoint.format import code
from hosting.engine.event_time.watermarks import encoded

REAL = code.makers()
REAL_MINOR = int(REAL.minor.partition(".")[2])


class Pythons:
    """Which interpreter it is that runs: the real one, or one that was changed to."""

    def __init__(self) -> None:
        self._number = 0

    @property
    def number(self) -> int:
        """How many interpreters later than the real one it is that runs."""
        return self._number

    @number.setter
    def number(self, number: int) -> None:
        self._number = number
        code.PYTHON, code.BYTECODE = f"3.{REAL_MINOR + number}.0", REAL.bytecode + number
        forget()

    def change(self) -> None:
        self.number += 1


@contextmanager
def played_pythons() -> Iterator[Pythons]:
    """Play interpreters within, wherever code asks by which one it runs."""
    with mock.patch.multiple(code, PYTHON=REAL.python, BYTECODE=REAL.bytecode):
        yield Pythons()
    forget()


def forget() -> None:
    """Have what one interpreter is, and has made, looked up again."""
    code.makers.cache_clear()
    encoded.cache_clear()
