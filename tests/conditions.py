"""Waiting in tests: for a condition, with a deadline, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
DEADLINE_S = 60.0


def until(holds: Callable[[], A], what: str = "what the test waits for") -> A:
    """Wait until *holds* returns something true, and return that."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what} has not come in {DEADLINE_S:g} s"
        time.sleep(0.005)
    return found
