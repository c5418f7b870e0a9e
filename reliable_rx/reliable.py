"""The fat pipe: what carries values *with* their sequence ids, acknowledgement and replay.

Operators never see any of this; it is what stands outside a query's edges. Three families: the
`Reliable*` interfaces between evaluators, `Source` for partitioned inputs, `Sink` for what leaves.
Ids of a stream are consecutive and the terminal notification has one too, so that it is replayed and deduplicated like
any other. A *position* is the next id to read; ``start(n)`` is inclusive; ``acknowledge(n)`` means that n and
all before may be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class ReliableObserver(Protocol[T_contra]):
    """Receives values with their ids."""

    def on_next(self, n: int, value: T_contra, /) -> None: ...
    def on_error(self, n: int, error: Exception, /) -> None: ...
    def on_completed(self, n: int, /) -> None: ...


class ReliableSubscription(Protocol):
    """One subscriber's hold on a stream."""

    def start(self, n: int, /) -> None:
        """Deliver from id *n* on, *n* included."""

    def acknowledge(self, n: int, /) -> None:
        """Say that *n* and all before are safe here and may be forgotten there."""

    def dispose(self) -> None:
        """End the subscription; what it held may be forgotten."""


class ReliableObservable(Protocol[T_co]):
    """A sequenced, replayable stream."""

    def subscribe(self, observer: ReliableObserver[Any], /) -> ReliableSubscription: ...


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that could not be read: its id, what is there instead of an event, and why.

    The same whenever the partition is read again, so that it can become a dead letter.
    """

    position: int
    value: Any
    error: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events of one partition: ids ``first``, ``first + 1``, …

    *ended* says that nothing will ever follow these; *error* ends the partition with an error instead. The *skipped*
    ids before *first* hold nothing and never will: a log whose positions have gaps says so, and what is neither an
    event nor skipped is lost. Those of them that hold a record which cannot be read are *rejected*. *coming* says that
    more is there already and on its way; ask again.
    """

    first: int
    values: Sequence[Any]
    ended: bool = False
    error: Exception | None = None
    skipped: int = 0
    coming: bool = False
    rejected: tuple[Rejected, ...] = ()

    @property
    def next(self) -> int:
        """The position behind this batch."""
        return self.first + len(self.values)


class Reader(Protocol):
    """One open partition. Used by one thread at a time."""

    def fetch(self, count_max: int, /) -> Batch:
        """Return at most *count_max* events from the position on, without waiting; maybe none."""

    def acknowledge(self, n: int, /) -> None:
        """*n* and all before are covered by a committed checkpoint and may be forgotten."""

    def close(self) -> None: ...


class Source(Protocol):
    """A partitioned, replayable input.

    The same partition opened at the same position gives the same events, for as long as they
    have not been acknowledged.
    """

    def partitions(self) -> Sequence[str]:
        """Name the partitions, in a stable order."""

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from id *at* on. Ids start at 0. *Raises* `PositionUnavailable`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A partition as its source lists it: what must be read to its end before it, and what sharing it over nodes asks.

    It is opened once all its *parents* have ended: two parents are a merge, two children of one parent a split. A
    *base* partition holds data that was there before; all others of its source wait for it. *room* is the machine room
    it lives in, *weight* how much work it is beside the others.
    """

    name: str
    parents: tuple[str, ...] = ()
    _: KW_ONLY
    base: bool = False
    room: str | None = None
    weight: int = 1


@runtime_checkable
class Listed(Protocol):
    """A source that says more of its partitions than their names; they may be others the next time it is asked."""

    def listing(self) -> Sequence[Listing]: ...


@runtime_checkable
class Bounded(Protocol):
    """A source that knows how far its partitions reach."""

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return the first id that can be read now and the one behind the last."""
        ...


@runtime_checkable
class Findable(Protocol):
    """A source that can look events up by their time."""

    def find(self, partition: str, time: float, /) -> int:
        """Return the id of the first event at or after *time* (Unix time in seconds), the end if there is none."""
        ...


@runtime_checkable
class Growing(Protocol):
    """A source whose partitions have an end, though what they are read from may grow behind it."""

    def extent(self, partition: str, /) -> Any:
        """Return, as plain data, how much there was where *partition* was read to its end; None if it was not."""

    def growth(self, partition: str, extent: Any, /) -> str | None:
        """Say what has been added since there was *extent*, None if nothing."""
        ...


@runtime_checkable
class Defined(Protocol):
    """A source whose events depend on functions and options: a start after a crash compares them with those of before.

    Of one that does not say, its `timestamp` and the code of its class are compared.
    """

    def definition(self) -> Mapping[str, Any]:
        """Return what decides which events it gives, by name."""
        ...


@runtime_checkable
class Numbered(Protocol):
    """A source whose ids depend on functions and options: each start compares them with those that positions are of.

    Of one that does not say, an edit of its class is told, and nothing is refused.
    """

    def numbering(self) -> Mapping[str, Any]:
        """Return what decides which event has which id, by name: None where an option is left out."""
        ...


@runtime_checkable
class Waking(Protocol):
    """A reader or source that can say that something has arrived, so that nobody needs to poll it."""

    def on_available(self, wake: Callable[[], None], /) -> None: ...


@runtime_checkable
class SequencedEnd(Protocol):
    """A reader whose terminal notification has an id, the one behind the last value, and is acknowledged by it."""

    sequenced_end: bool


class Sink(Protocol):
    """Where a stream's notifications leave the system.

    The evaluator asks `open` for the position, calls `write` with consecutive ids from there on, `flush` before every
    checkpoint, and acknowledges to the stream what `flush` has made durable. After a restart it goes on from the
    position.

    An `OSError` (`StoreUnavailable`) says that the place is not available: the same call comes again later. `LeaseLost`
    stops the evaluator. Any other error of `write` or `end` is taken for a value that cannot be written: the values of
    that call are then given again in smaller calls, down to single ones. So `write` checks its values, not `flush`; and
    values that a `write` which raised has written all the same are recognised by their ids when they come again.
    """

    def open(self, stream: str, /) -> int | None:
        """Get ready; return the next id wanted, or None if the sink does not know what it has."""

    def write(self, first: int, values: Sequence[Any], /) -> None: ...

    def end(self, n: int, error: Exception | None, /) -> None:
        """Take the terminal notification: completed, or failed with *error*."""

    def flush(self) -> None:
        """Make everything written so far durable before returning."""

    def close(self) -> None: ...


@runtime_checkable
class Skipping(Protocol):
    """A sink that can go on behind ids that it does not have; only such a one may leave out what it cannot write.

    An attribute ``keeps_letters = False`` says that it has no place for dead letters: it may be told to skip only.
    """

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None:
        """Step over the ids from *n* on to below *until*; keep the *letter*, if there is one, beside the values.

        It is as durable as a value: the position behind it and the letter are kept by the next `Sink.flush`. Ids below
        the position are skipped already.
        """


@runtime_checkable
class Inspectable(Protocol):
    """A sink that can say what it has without being opened: a repair asks it before anyone has agreed to anything.

    An attribute ``writes_at_once = True`` says of any sink that what it is given is there before `Sink.flush`: then a
    repair takes what it has for all that readers have had, and guesses no ids.
    """

    def stored_position(self, stream: str, /) -> int | None:
        """Return what `Sink.open` would return for *stream*. Nothing is made, locked, cut or written for that."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where ids come from: a stream and the store that numbers it; on nodes the partition and the group.

    *store* is what tells the store, or the group, from all others.

    >>> print(Origin("totals", store="3f2a91c07be5d846"))
    stream 'totals' of store 3f2a91c0
    >>> print(Origin("totals", store="3f2a91c07be5d846", partition="sales/north", group="shops"))
    stream 'totals' of sales/north in group 'shops' (3f2a91c0)
    """

    stream: str
    _: KW_ONLY
    store: str = ""
    partition: str = ""
    group: str = ""

    def __str__(self) -> str:
        partition = f" of {self.partition}" if self.partition else ""
        return f"stream {self.stream!r}{partition}{self._giver()}"

    def _giver(self) -> str:
        if self.group:
            return f" in group {self.group!r}" + (f" ({self.store[:8]})" if self.store else "")
        return f" of store {self.store[:8]}" if self.store else ""


@runtime_checkable
class Claiming(Protocol):
    """A sink that keeps beside what it writes where the ids come from, and mixes in none from elsewhere."""

    def claim(self, origin: Origin, /) -> None:
        """Take note of the *origin* of all ids until `close`; called before `fence`, `open` and `stored_position`.

        Where there are ids of another origin, these change nothing and raise `CheckpointRefused`; for another store or
        group `PositionUnavailable` without a first id, which refuses the start: it may be the wrong store.
        """


@runtime_checkable
class Fencing(Protocol):
    """A sink that can refuse a former writer, which may have been stopped in the midst of a write and does not know."""

    def fence(self, epoch: int, /) -> None:
        """From now on, durably, take nothing from a writer of an earlier *epoch*; called before `Sink.open`.

        A `Claiming` sink refuses another origin first, and their writer goes on. *Raises* `LeaseLost` if a later epoch
        has been here; `write` and `flush` then do so too.
        """


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that a query could not digest, with where it came from and what went wrong.

    Or a value that a sink could not write: then *source* is the stream, *partition* is empty, *position* is the id.
    Or the end of *source*: then *partition* is empty, *position* is -1, *value* is None.
    """

    source: str
    partition: str
    position: int
    value: Any
    error: str = field(metadata={"digest": False})  # what an error says may differ from run to run
    traceback: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LateEvent:
    """An event that came behind the clock of a query, with where it came from; times in seconds."""

    source: str
    partition: str
    position: int
    value: Any
    time: float
    watermark: float
