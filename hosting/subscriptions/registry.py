"""Registry of the streams that can be had, and of who wants them, for `hosting.subscriptions.manager`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hosting.edges.egress import Stream, StreamSource
from hosting.edges.holders import Patience
from hosting.partitioned.crew import Task
from hosting.reports.incidents import Incidents
from hosting.subscriptions.consumers import Consumer, Delivering
from hosting.subscriptions.subscription import Subscription
from reliable_rx.reliable import Source


@dataclass(frozen=True, slots=True)
class Offer:
    """A stream that can be had: partition *partition* of what *source* gives each subscriber, from id *first* on.

    *is_quiet* says whether it may be forgotten with its only subscriber (None: it has none): its next event will offer
    it again.
    """

    source: Callable[[str], Source]
    release: Callable[[str], None]
    bounds: Callable[[str], tuple[int, int]] | None
    partition: str
    first: int | None
    owner: object
    incidents: Incidents | None = None
    """Where it is told what fails, if the stream is a host's."""
    is_quiet: Callable[[str | None], bool] = lambda holder: False

    def begin(self) -> int:
        """Return where those begin who subscribed before it was offered."""
        if self.first is not None:
            return self.first
        return self.bounds(self.partition)[0] if self.bounds is not None else 0

    def end(self) -> int:
        """Return the id that comes next. *Raises* `ValueError` if nobody knows."""
        if self.bounds is None:
            raise ValueError("this source does not know where it ends (`bounds`): say from which id on with `at`")
        return self.bounds(self.partition)[1]


def held_by(stream: Stream, holder: str) -> StreamSource:
    """Return *stream* as the source of a subscriber, under the name by which it is held for him."""
    source = StreamSource(stream, subscriber=None, patience=Patience.ENDLESS)
    source.subscriber = holder
    return source


@dataclass(slots=True, eq=False)
class Entry:
    """One subscriber of a stream. *at* is where he begins, None for what comes from now on."""

    subscription: Subscription
    holder: str
    at: int | None
    early: bool
    """It was there before the stream was."""
    stored: bool
    rule: bool = False
    """It is there because of a rule, which would make it again."""
    begun: bool = False
    task: Task = field(init=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """An implicit subscription: a consumer is made for every stream whose name it fits."""

    name: str
    fits: Callable[[str], bool]
    make: Callable[[str], Consumer]
    delivering: Delivering
