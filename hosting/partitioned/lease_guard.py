"""A sink that is written to only while its node may trust its lease.

A node knows that its lease is over before anybody else may get it (at two thirds of the session), unless it was stopped
between looking and writing. Then what the sink itself does counts, if it can fence. For sinks that cannot, this is all
there is, and the window is as short as one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hosting.partitioned.places import Place
from hosting.sinks.guard import Guard
from reliable_rx.errors import LeaseLost, invariant
from reliable_rx.reliable import DeadLetter, Sink, Skipping


class LeaseGuard(Guard):
    """*sink*, called *label* among those of its stream, for as long as *alive* says so."""

    def __init__(self, sink: Sink, place: Place, alive: Callable[[], bool], *, label: str) -> None:
        super().__init__(sink)
        self.label, self._place, self._alive = label, place, alive

    def open(self, stream: str, /) -> int | None:
        self._check()
        return self.guarded.open(stream)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check()
        self.guarded.write(first, values)

    def end(self, n: int, error: Exception | None, /) -> None:
        self._check()
        self.guarded.end(n, error)

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None:
        self._check()
        invariant(isinstance(self.guarded, Skipping), "only a sink that can leave ids out is told to")
        self.guarded.skip(n, until, why, letter)  # type: ignore[attr-defined]

    @property
    def remark(self) -> str:
        """What the sink has to say of what it found when it opened."""
        return getattr(self.guarded, "remark", "")

    def flush(self) -> None:
        self._check()
        self.guarded.flush()

    def close(self) -> None:
        self.guarded.close()

    def _check(self) -> None:
        if not self._alive():
            lease = self._place.lease
            message = f"{lease.partition}: epoch {lease.epoch} is over here, or nobody has answered for too long"
            raise LeaseLost(message, partition=str(lease.partition), epoch=lease.epoch, newest=None)
