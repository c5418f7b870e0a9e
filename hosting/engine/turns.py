"""Turns: everything that could differ from run to run, as data.

An engine is a function of its rows and a turn, so a turn holds what the world decided: which events of which
partition, what time it was, which query was created, what a call was answered. The journal stores turns without the
events (their source has these), and a replay takes them again. They are named tuples because one is made per event
when events come singly, and a frozen dataclass costs three times as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reliable_rx import Limits
from reliable_rx.event_time import EventTime
from reliable_rx.reliable import Rejected
from reliable_rx.runtime.calling import Call


class Events(NamedTuple):
    """Consecutive events of one source partition; *ended* if none will follow, *error* if it ended with one.

    *singly* makes every event a turn of its own: this is then a run of turns that came together, written as one.
    *times* are those that the source's function has read from the events, if it has one.
    """

    source: str
    partition: str
    first: int
    values: Sequence[Any]
    time: float
    ended: bool = False
    error: Exception | None = None
    singly: bool = False
    times: Sequence[float] | None = None

    @property
    def turns(self) -> int:
        """How many turns these are."""
        return len(self.values) or 1 if self.singly else 1


class Rejects(NamedTuple):
    """Records of one source partition that could not be read, among the ids from *first* on and before *next*."""

    source: str
    partition: str
    first: int
    next: int
    records: Sequence[Rejected]
    time: float


class Tick(NamedTuple):
    """The clock moved to *time* and something was due."""

    time: float


class Answer(NamedTuple):
    """A *call* out of a query has been answered; *payload* is its value and error as bytes."""

    call: Call
    payload: bytes
    time: float


class Create(NamedTuple):
    """A query begins, or is edited if its name is taken. *plan* is the name of its plan, *code* the plan itself."""

    name: str
    plan: str
    code: Any
    keys: tuple[Any, ...]
    policy: str
    limits: Limits
    time: float
    clock: EventTime | None = None


class Dispose(NamedTuple):
    """A query ends, and its state is forgotten; *anew* if it begins anew at once, so that its stream goes on.

    What is due in it comes before, or in *ending*: the queries that end in this turn and those behind it. There are
    none where an app is stopped: it is its functions of today that take what is due.
    """

    name: str
    time: float
    anew: bool = False
    ending: tuple[str, ...] | None = None


class Fail(NamedTuple):
    """A query ends with *error*, and its state is forgotten: something of it cannot be stored, or be had again."""

    name: str
    error: Exception
    time: float


class Resume(NamedTuple):
    """Partitions were not silent until *time*, but unheard: these, or all, where the engine could take no turns.

    At a start it says until when the process before is known to have run; later on, that this one runs.
    """

    time: float
    partitions: tuple[tuple[str, str], ...] | None = None
    ran_until: float | None = None


class Appear(NamedTuple):
    """A source has partitions that it did not have before, to be read from these *positions* on.

    It has ended when these have ended too. Where they begin is written down here, for a starting point such as "the
    latest" would be another one after a crash.
    """

    source: str
    positions: Mapping[str, int]


class Expect(NamedTuple):
    """A source that has ended may go on: for a query that begins next it has not; or it has ended again, if not *more*.

    Between the two lies the creation of a query, by which it is known whether anybody reads what is new in the source.
    """

    source: str
    more: bool


Turn = Events | Rejects | Tick | Answer | Create | Dispose | Fail | Resume | Appear | Expect


class Output(NamedTuple):
    """Consecutive notifications of one stream: values from id *first* on, and the terminal one behind them if
    *ended*."""

    name: str
    first: int
    values: Sequence[Any]
    ended: bool = False
    error: Exception | None = None

    @property
    def next(self) -> int:
        return self.first + len(self.values) + self.ended


AT_END = "the end"


def end_of(source: str) -> tuple[str, str, int, Any]:
    """Return what stands for an event while the end of *source* is at work."""
    return source, AT_END, -1, None


def is_end(event: tuple[str, str, int, Any] | None) -> bool:
    """Whether *event* is the end of its source."""
    return event is not None and event[1:] == (AT_END, -1, None)
