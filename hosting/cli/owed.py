"""What a run owes when its feeds have ended: answers to the calls that follow from events, and to sinks what there is.

A query for which a timer waits may call for ever: of such a one the calls are waited for that were wanted by then.
Rejected: to wait until no call is at work and nothing is unwritten, since others go on emitting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol


class Calls(Protocol):
    """Which calls are waited for, of all queries."""

    @property
    def askers(self) -> Mapping[Any, object]: ...
    def of_events(self) -> Set[Any]:
        """Return those of queries for which no timer waits."""
        ...


class Written(Protocol):
    """A sink and how far it has been written."""

    @property
    def position(self) -> int: ...
    @property
    def failure(self) -> Exception | None: ...


class Sinks(Protocol):
    """All sinks."""

    def lacking(self) -> Sequence[tuple[Written, int]]:
        """Return those that go on, with the id behind what there is for each."""
        ...


class Owed:
    """Calls and outputs of one moment, which are waited for."""

    def __init__(self, calls: Calls, sinks: Sinks) -> None:
        self._all, self._sinks = calls, sinks
        self.forget()

    def forget(self) -> None:
        """Begin anew: something more has come."""
        self._calls: Set[Any] | None = None
        self._lacking: Sequence[tuple[Written, int]] | None = None

    def is_paid(self) -> bool:
        """Whether all calls are answered that are owed, and what there was by then is written."""
        askers = self._all.askers.keys()
        self._calls = set(askers if self._calls is None else self._calls & askers)
        if self._calls or (askers and self._all.of_events()):
            return False
        if self._lacking is None:
            self._lacking = self._sinks.lacking()
        return all(sink.failure is not None or sink.position >= end for sink, end in self._lacking)
