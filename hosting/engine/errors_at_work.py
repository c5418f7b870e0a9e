"""What errors queries are told of, and have raised themselves, at the event, timer or command at work.

Whose error a query ends with is seen in that moment, and cannot be later: an error that is kept for a while is another
object behind a start. So the moments are those of a live run, also where many timers fire in one turn. Rejected: turns
(an outage makes one of many), a place for the last error (others are raised on its way out), the objects themselves of
what was raised (each holds the frames that it has come through, and a list of events may raise thousands).
"""

from __future__ import annotations

from typing import Any


class Errors:
    """What one query was told of and has raised."""

    __slots__ = ("raised", "told")

    def __init__(self) -> None:
        self.told: dict[str, Exception] = {}
        """With what each ends that it was told the end of."""
        self.raised: set[int] = set()
        """The ids of errors; what has one of these later in the same moment was raised, or made, by the query too."""


class ErrorsAtWork(dict[Any, Errors]):
    """By the key of a query, its errors of this moment.

    >>> at_work, error = ErrorsAtWork(), ValueError()
    >>> at_work.note_raised("q", error)
    >>> at_work.has_raised("q", error), at_work.has_raised("p", error)
    (True, False)
    """

    def __missing__(self, query: Any) -> Errors:
        found = self[query] = Errors()
        return found

    def note_told(self, query: Any, source: str, error: Exception | None) -> None:
        """Note that *query* is told of the end of *source*."""
        if error is not None:
            self[query].told[source] = error

    def note_raised(self, query: Any, error: Exception) -> None:
        """Note that a function of *query* has raised *error*."""
        self[query].raised.add(id(error))

    def has_raised(self, query: Any, error: Exception) -> bool:
        """Whether a function of *query* has raised *error*."""
        return query in self and id(error) in self[query].raised

    def told_of(self, query: Any) -> dict[str, Exception]:
        """Return with what each ends that *query* is told the end of."""
        return self[query].told if query in self else {}
