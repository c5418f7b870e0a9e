"""Registry of who holds the streams of an evaluator: backpressure, and holders whose readers are gone.

A holder (a sink, a named subscriber, another evaluator) keeps a stream from forgetting what it has not acknowledged; if
it lags by more than the buffer may hold, no turns are taken. That is right for a reader that is slow. A reader that is
gone would stop the turns for ever, so its holder is *absent*, and what happens to it is one rule:

* Disposed, faulted, or at the acknowledged end of the stream: let go at once.
* An observer that has raised, a sink that has failed, and one that a checkpoint knows and the app no longer declares:
  kept until the buffer is full, then let go.
* Closed or detached, and a name that a checkpoint knows and that has not come back since the start: stops the turns
  when the buffer is full, and is let go after `ABSENT_S` of that.
* A durable subscriber (``store …``), and a consumer of `Deliveries` that has stopped: never let go by itself.

Whatever stops the turns and whatever is let go is an incident that names stream, holder and position. Rejected: to let
go at once (an evaluator that is started again a moment later has lost its place), and by the age of a position (a slow
reader would lose events because of the clock).
"""

from __future__ import annotations

import logging
import time as wall
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol
from weakref import WeakValueDictionary

from checkpoint.store import Store
from hosting.edges.backpressure import GO_ON
from hosting.edges.sink_positions import is_sink
from hosting.reports.incidents import Incidents
from hosting.reports.store_commands import way_to_release
from reliable_rx.names import STORED

ABSENT_S = 60.0
STALL_S = 1.0
"""A stall shorter than this is ordinary backpressure, and not worth a line in the log."""
SHOWN_MAX = 5


class Patience(Enum):
    """How long the turns wait for a holder that is absent, once the buffer is full."""

    NONE = "none"
    SOME = "some"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Absence:
    """Why nobody reads for a holder, for how long the turns wait for it, and *since* when (`StreamHolders.clock`)."""

    why: str
    patience: Patience
    since: float


class Held(Protocol):
    """A stream that is kept for holders, each at its next id; some are absent."""

    name: str
    next_id: int
    holders: dict[str, int]
    absent: Mapping[str, Absence]

    @property
    def depth(self) -> int: ...
    def hold(self, holder: str, position: int, /) -> None: ...
    def release(self, holder: str, /) -> None: ...
    def leave(self, holder: str, absence: Absence, /) -> None: ...


class Subscribed(Protocol):
    """What reads a stream under a name."""

    status: str

    def detach(self) -> None: ...


class StreamHolders:
    """The holders of all streams of one evaluator. *lock* is the evaluator's; `full` is called with it held.

    *clock* gives seconds that only elapse; *check* refuses what a turn itself calls (`hosting.evaluator.reentrancy`).
    """

    def __init__(
        self,
        lock: Any,
        *,
        store: Store | None = None,
        incidents: Incidents | None = None,
        events_max: int = 200_000,
        clock: Callable[[], float] = wall.monotonic,
        check: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.lock, self.store, self.events_max, self.clock, self.check = lock, store, events_max, clock, check
        self.incidents = Incidents() if incidents is None else incidents
        self.held: dict[str, Held] = {}
        """Streams that somebody holds."""
        self.is_full = False
        self.full_since = 0.0
        self.trouble = ""
        """Who stops the turns, as a sentence; empty if nobody does."""
        self.said: dict[str, tuple[str, ...]] = {}
        self._subscribers = WeakValueDictionary[tuple[str, str], Subscribed]()
        """By stream and name, who was subscribed last."""

    def subscribed(self, stream: str, name: str, subscriber: Subscribed) -> None:
        """Note that *subscriber* has a *name*, and one before has it no more. *Raises* `ValueError` if that is live."""
        before = self._subscribers.get((stream, name))
        if before is not None and before.status == "live":
            raise ValueError(
                f"stream {stream!r} has a live subscriber called {name!r} already, and what one acknowledges is kept "
                f"for neither: `dispose` or `detach` that one first, or give this one another name"
            )
        if before is not None:
            before.detach()  # what it acknowledges from now on is of another
        self._subscribers[stream, name] = subscriber

    def has_name(self, stream: str, name: str | None, subscriber: Subscribed) -> bool:
        """Whether *subscriber* is the last that was given the *name*."""
        return name is not None and self._subscribers.get((stream, name)) is subscriber

    def check_name(self, stream: str, name: str | None, subscriber: Subscribed) -> None:
        """*Raises* `ValueError` if another one than *subscriber* has its *name* by now."""
        if name is not None and not self.has_name(stream, name, subscriber):
            raise ValueError(
                f"another subscriber of stream {stream!r} has been given its name {name!r} since: subscribe once more, "
                f"or use that one"
            )

    # -- backpressure

    def full(self) -> bool:
        """Whether some stream's slowest holder lags by more than the buffer may hold, or has not caught up since."""
        most = self.events_max * (GO_ON if self.is_full else 1.0)
        for stream in self.held.values():
            if stream.depth > most:
                return self._stops(most)
        if self.is_full:
            self._resolve()
        return False

    def _stops(self, most: float) -> bool:
        """Let go what the rule lets go; return whether somebody is left who stops the turns, and say who."""
        now = self.clock()
        if not self.is_full:
            self.is_full, self.full_since = True, now
        left: dict[str, list[str]] = {}
        for stream in list(self.held.values()):
            for holder in [each for each, at in stream.holders.items() if stream.next_id - at > most]:
                absence = stream.absent.get(holder)
                if absence is not None and self._is_over(absence, now):
                    self._let_go(stream, holder, absence)
                else:
                    left.setdefault(stream.name, []).append(holder)
        if not left:
            self._resolve()
            return False
        self._say(left, now)
        return True

    def _is_over(self, absence: Absence, now: float) -> bool:
        if absence.patience is Patience.SOME:
            return now - max(self.full_since, absence.since) >= ABSENT_S
        return absence.patience is Patience.NONE

    def _let_go(self, stream: Held, holder: str, absence: Absence) -> None:
        position = stream.holders[holder]
        stream.release(holder)
        anew = (
            "with on_error='skip' it goes on behind that"
            if is_sink(holder)
            else "let it begin anew where the stream begins"
        )
        self.incidents.report(
            "holder",
            f"{stream.name}/{holder}",
            f"let go at id {position:,}, when the buffer was full: {absence.why}. What it has not acknowledged "
            f"is forgotten from now on; {anew}",
        )

    def _say(self, left: Mapping[str, list[str]], now: float) -> None:
        sentences = {name: self._sentence(self.held[name], holders) for name, holders in left.items()}
        self.trouble = "; ".join([*sentences.values()][:SHOWN_MAX])
        absent = any(holder in self.held[name].absent for name, holders in left.items() for holder in holders)
        if not absent and now - self.full_since < STALL_S:
            return
        for name in [each for each in self.said if each not in left]:
            self.incidents.resolve("stall", name)
            del self.said[name]
        for name, holders in left.items():
            if self.said.get(name) != tuple(holders):
                self.said[name] = tuple(holders)
                self.incidents.report("stall", name, sentences[name], level=logging.WARNING)

    def _sentence(self, stream: Held, holders: list[str]) -> str:
        who = ", ".join(self._described(stream, each) for each in holders[:SHOWN_MAX])
        more = f" and {len(holders) - SHOWN_MAX:,} more" if len(holders) > SHOWN_MAX else ""
        return (
            f"no turns are taken: stream {stream.name!r} keeps {stream.depth:,} notifications for {who}{more}; let it "
            f"read on, or let it go with {way_to_release(self.store, stream.name, holders[0])}"
        )

    def _described(self, stream: Held, holder: str) -> str:
        absence = stream.absent.get(holder)
        what = "" if absence is None else f", nobody reads: {absence.why}"
        return f"{holder!r} (next id {stream.holders[holder]:,}{what})"

    def _resolve(self) -> None:
        for name in self.said:
            self.incidents.resolve("stall", name)
        self.said, self.trouble, self.is_full = {}, "", False

    # -- coming and going

    def absence(self, why: str, patience: Patience = Patience.SOME) -> Absence:
        """Return an absence that begins now."""
        return Absence(why, patience, self.clock())

    def release(self, stream: str, holder: str) -> bool:
        """Let *holder* of *stream* go; return whether it was one. What it has not acknowledged may be forgotten.

        *Raises* `StoreUnavailable` for a durable subscriber that the store cannot forget now.
        """
        self.check(f"release of {holder!r}")
        with self.lock:
            found = self.held.get(stream)
            if found is None or holder not in found.holders:
                return False
            if holder.startswith(STORED) and self.store is not None:
                self.store.release(stream, holder.removeprefix(STORED))
            found.release(holder)
            self.incidents.resolve("holder", f"{stream}/{holder}")
            return True

    def restore(self, stream: Held, holders: Mapping[str, int], *, sinks: frozenset[str]) -> None:
        """Hold *stream* for those that a checkpoint knows, absent until they come; *sinks* are the declared ones."""
        for holder, position in holders.items():
            is_here = holder in stream.holders or holder in sinks
            stream.hold(holder, position)
            if is_here:
                continue
            if is_sink(holder):  # `hosting.edges.moved_sinks` says more, once the sinks are open
                absence = self.absence("the app does not declare this sink any more", Patience.NONE)
            else:
                patience = Patience.ENDLESS if holder.startswith(STORED) else Patience.SOME
                absence = self.absence("it has not come back since the start", patience)
            stream.leave(holder, absence)

    def positions(self) -> dict[str, dict[str, int]]:
        """Return what a checkpoint remembers of who holds what; report who has not come back for long."""
        now = self.clock()
        for name, stream in self.held.items():
            for holder, absence in stream.absent.items():
                if now - absence.since >= ABSENT_S and absence.patience is not Patience.NONE:
                    self._report(name, holder, f"nobody reads: {absence.why}")
        return {name: dict(stream.holders) for name, stream in self.held.items()}

    def _report(self, stream: str, holder: str, what: str) -> None:
        message = f"{what}; have it read again, or let it go with {way_to_release(self.store, stream, holder)}"
        self.incidents.report("holder", f"{stream}/{holder}", message, level=logging.WARNING)
