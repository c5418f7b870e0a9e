"""What a run owes when its feeds have ended: answers to the calls that follow from events, and to sinks what there is.

A call follows from events if it is asked for as they are taken, or as the answer to such a call is: not what a timer
asks for, or a query that begins by itself, which may go on for ever. Rejected: to wait until no call is at work and
nothing is unwritten, since others go on emitting; and for no calls of queries for which a timer waits (a `timeout`
behind the calls is such a timer).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, Protocol

from hosting.cli.wording import plural

WAITS_S = 10.0
"""After so long a run says what it waits for."""
SHOWN_MAX = 3


class Calls(Protocol):
    """Which calls are waited for, of all queries."""

    def of_events(self) -> Iterator[tuple[str, int, int]]: ...


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
    """Calls and outputs of one moment, which are waited for; *tell* says for what, where that takes long.

    >>> class Nothing:
    ...     def of_events(self): return iter(())
    ...     def lacking(self): return []
    >>> Owed(Nothing(), Nothing(), print).is_paid()
    True
    """

    def __init__(self, calls: Calls, sinks: Sinks, tell: Callable[[str], Any]) -> None:
        self._calls, self._sinks, self._tell = calls, sinks, tell
        self.forget()

    def forget(self) -> None:
        """Begin anew: something more has come."""
        self._since: float | None = None
        self._lacking: Sequence[tuple[Written, int]] | None = None

    def is_paid(self) -> bool:
        """Whether all calls are answered that follow from events, and what there was by then is written."""
        if next(self._calls.of_events(), None) is not None:
            self._tell_late()
            return False
        if self._lacking is None:
            self._lacking = self._sinks.lacking()
        return all(sink.failure is not None or sink.position >= end for sink, end in self._lacking)

    def _tell_late(self) -> None:
        if self._since is None:
            self._since = monotonic()
        elif monotonic() - self._since > WAITS_S:
            self._since = float("inf")
            self._tell(
                f"all sources have ended; the run goes on for {left_of(self._calls.of_events())}, as these follow from "
                f"events: Ctrl-C ends it, and the next start goes on with them"
            )


def left_of(calls: Iterable[tuple[str, int, int]]) -> str:
    """Say how many calls of which queries are not answered.

    >>> left_of([("q", 1, 1), ("q", 1, 2), ("p", 2, 1)])
    "3 calls of queries 'p', 'q'"
    """
    found = list(calls)
    names = sorted({name for name, _, _ in found})
    shown = ", ".join(map(repr, names[:SHOWN_MAX])) + (
        f" and {len(names) - SHOWN_MAX:,} more" * (len(names) > SHOWN_MAX)
    )
    return f"{plural(len(found), 'call')} of {'query' if len(names) == 1 else 'queries'} {shown}"


def unanswered(calls: Collection[tuple[str, int, int]], made: Container[tuple[str, int, int]]) -> Iterator[str]:
    """Yield what to say of *calls* without an answer; those *made* were out when the process stopped.

    >>> print(*unanswered([("q", 1, 1), ("q", 1, 2), ("p", 2, 1)], {("q", 1, 2)}), sep="\\n")
    cut off before it was answered, and made again by the next start: 1 call of query 'q'
    not made yet, and made by the next start: 2 calls of queries 'p', 'q'
    """
    out, waiting = [each for each in calls if each in made], [each for each in calls if each not in made]
    if out:
        were = "it was" if len(out) == 1 else "they were"
        yield f"cut off before {were} answered, and made again by the next start: {left_of(out)}"
    if waiting:
        yield f"not made yet, and made by the next start: {left_of(waiting)}"
