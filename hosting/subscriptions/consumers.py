"""What a consumer of a stream is asked, what it may answer, and what becomes of an event that it cannot take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from reactivex.abc import ObserverBase

from reliable_rx.class_of import is_a
from reliable_rx.operators.contract.arguments import check_methods, cut
from reliable_rx.reliable import DeadLetter

Record = tuple[int, Any]
"""An id and its value."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a consumer is: *at* is the id that it wants next (*inclusive*), or the last one that it has (not)."""

    at: int
    inclusive: bool

    @property
    def position(self) -> int:
        """The next id to deliver."""
        return self.at if self.inclusive else self.at + 1


class Consumer(Protocol):
    """Application code that takes events."""

    def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
        """Take ids with their values, the next ones for this consumer behind id *after*, the last it was given.

        Returning None says that they are done. A consumer that is elsewhere does nothing with them and says where.
        """

    def end(self, n: int, error: Exception | None, /) -> None:
        """Take the terminal notification: completed, or failed with *error*. Nothing follows."""


@runtime_checkable
class Resuming(Protocol):
    """A consumer that is asked where it is before anything is delivered; None leaves it to the subscription."""

    def resume(self) -> Resume | None: ...


@runtime_checkable
class Failing(Protocol):
    """A consumer that is told when its subscription has been stopped or faulted."""

    def failed(self, error: Exception, /) -> None: ...


Methods = Mapping[str, tuple[str, ...]]
OBSERVER: Methods = {"on_next": ("id", "value"), "on_error": ("id", "error"), "on_completed": ("id",)}
CONSUMER: Methods = {"deliver": ("records", "after"), "end": ("id", "error")}


def check_observer(observer: Any) -> None:
    """*Raises* `TypeError` for what is no `ReliableObserver`: those of RxPY get no ids."""
    if isinstance(observer, ObserverBase) or not hasattr(observer, "on_next"):
        raise TypeError(
            f"an observer with on_next(id, value), on_error(id, error) and on_completed(id) is wanted, got "
            f"{cut(observer)}: for values without ids, as in RxPY, write stream.observable(0).subscribe(...)"
        )
    check_methods("the observer", observer, OBSERVER)


def check_consumer(consumer: Any) -> None:
    """*Raises* `TypeError` for what is no `Consumer`."""
    if isinstance(consumer, type):
        raise TypeError(f"the consumer is the class {cut(consumer)}: give an instance of it")
    check_methods("the consumer", consumer, CONSUMER)


def checked(method: str, answer: Any) -> Resume | None:
    """Return what a *method* of a consumer has answered. *Raises* `TypeError` for what says neither yes nor where."""
    if answer is None or (is_a(answer, Resume) and is_a(answer.at, int)):
        return answer
    meant = "the events are done" if method == "deliver" else "it goes on where it was"
    raise TypeError(
        f"{method} of the consumer returned {cut(answer)}: let it return None if {meant}, or Resume(at=..., "
        f"inclusive=...) with the id where it is"
    )


class Verdict(Enum):
    """What becomes of an event that a consumer cannot take."""

    STOP = "stop"
    """Deliver nothing more, and keep what follows, until `Subscription.start`."""
    SKIP = "skip"
    """Go on with the next one."""
    PARK = "park"
    """Put it aside as a `DeadLetter`, and go on with the next one."""
    FAULT = "fault"
    """End the subscription: what follows is not kept for it any more."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Pauses between attempts: *first_s*, each *factor* times the last, *most_s* at most, ± *jitter*; for *within_s*.

    >>> [round(Retry().pause_s(attempt, 0.5), 2) for attempt in (1, 2, 3, 4, 5, 6)]
    [0.02, 0.1, 0.5, 2.5, 5.0, 5.0]
    """

    first_s: float = 0.02
    factor: float = 5.0
    most_s: float = 5.0
    jitter: float = 0.25
    within_s: float = 60.0

    def pause_s(self, attempt: int, drawn: float) -> float:
        """Return how long to wait after *attempt* (the first is 1); *drawn* is between 0 and 1."""
        pause_s = min(self.most_s, self.first_s * self.factor ** min(attempt - 1, 20))
        return pause_s * (1 + self.jitter * (2 * drawn - 1))


ONCE = Retry(within_s=0.0)
"""No second attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """How to deliver: at most *batch* events at once, of those that *keep* keeps (if it raises, the event is kept).

    *park* takes dead letters; it must have made them durable when it returns.
    """

    batch: int = 100
    keep: Callable[[Any], bool] | None = None
    retry: Retry = Retry()
    verdict: Verdict = Verdict.STOP
    park: Callable[[DeadLetter], Any] | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch is {self.batch}; at least one event must fit into it")
        if (self.verdict is Verdict.PARK) != (self.park is not None):
            raise ValueError("the verdict PARK needs `park`, which takes the dead letters, and no other verdict does")
