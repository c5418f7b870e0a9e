"""Named places where a test may make the world fail: `probe("journal.before_commit")`.

A probe costs one truth test when nothing is armed. What it does when armed (raise, kill the process, say the disk is
full) is decided by `reliable_rx.testing.faults`; production code only names the places. The idea is
FreeBSD's fail(9) and gofail; no maintained Python equal was found, and the need is this small.
"""

from __future__ import annotations

from collections.abc import Callable

ARMED: dict[str, Callable[[], None]] = {}


def probe(name: str) -> None:
    """Do what is armed under *name*, usually nothing."""
    if ARMED:
        action = ARMED.get(name)
        if action is not None:
            action()
