"""Making the calls out of queries: when they go out, and how their answers come back as turns.

A call goes out when the turn that wants it is durable (`exactly_once`), so nobody is asked for what, after a crash,
has never happened; with `at_least_once` it goes out at once. Its answer is turned into bytes where it arrives, and
every run, the first one too, reads it from these bytes: what does not survive them is found before it is in the
journal. Answers are taken in the order in which they came, and a call is forgotten when its answer is taken.

Calls still in flight after a recovery are made again, since nobody knows what became of them.
"""

from __future__ import annotations

import logging
import time as wall
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from checkpoint import failures
from checkpoint.format.codec import decode, encode
from hosting.engine.pending_calls import Asked, Asker, standing_of
from hosting.engine.turns import Answer
from hosting.evaluator.group_commit import Group
from hosting.reports.incidents import Incidents
from reliable_rx.class_of import name_of
from reliable_rx.errors import AnswerRefused, described
from reliable_rx.failpoints import probe
from reliable_rx.runtime.calling import Call
from reliable_rx.unhosted.loop import CANCEL_S, LoopThread

LATE_S = 30.0
"""How long a call, beyond its own limit, is out before that is told."""
GRACE_S = 5.0
"""How long a stopping evaluator waits for the answers to calls that are in flight."""


class Made(NamedTuple):
    """Since when a call is out, and how long it may be."""

    since: float
    timeout_s: float | None


class Calls:
    """The calls that an engine wants: *asked*. Everything but `_answered` happens in one loop, which *wake* wakes.

    With *durable_first* a call goes out when the turn that wants it is durable.
    """

    def __init__(self, asked: Asked, incidents: Incidents, *, wake: Callable[[], None], durable_first: bool) -> None:
        self.asked, self.incidents, self._wake, self._durable_first = asked, incidents, wake, durable_first
        self.loop = LoopThread("calls")
        self.due: deque[Call] = deque()
        self.made: dict[Call, Made] = {}
        """The calls that are out, the oldest first."""
        self.answers: deque[tuple[Call, bytes, str]] = deque()
        """The call, its payload, and what it failed with."""
        self.failing: set[str] = set()
        self.finishing = False

    def note(self, group: Group) -> None:
        """A turn of *group* has been taken: cancel what it dropped, and remember what it wants.

        An edit drops calls and takes them up again; one that gives them another limit has them made again.
        """
        asked = self.asked
        for call in asked.dropped:
            made, asker = self.made.get(call), asked.askers.get(call)
            if made is None or (asker is not None and limit_of(asker) == made.timeout_s):
                continue
            del self.made[call]
            self.cancel(call)
            if asker is not None:
                self.due.append(call)
        (group.calls if self._durable_first else self.due).extend(asked.fresh)
        asked.fresh, asked.dropped = [], []

    def recovered(self) -> None:
        """After a recovery every call that is in flight is due again."""
        self.due.extend(self.asked.askers)
        self.asked.fresh, self.asked.dropped = [], []

    def make_due(self) -> bool:
        """Make the calls whose turns allow it; return whether there were any."""
        if not self.due or self.finishing:
            return False
        while self.due:
            call = self.due.popleft()
            if call in self.asked.askers and call not in self.made:
                self.made[call] = Made(wall.monotonic(), limit_of(self.asked.askers[call]))
                self.begin(call)
        return True

    def begin(self, call: Call) -> None:
        make, timeout_s = self.asked.request(call)
        probe("call.before")
        self.loop.tasks().begin(call, make, timeout_s, partial(self._answered, call))

    def cancel(self, call: Call) -> None:
        self.loop.tasks().cancel(call)

    def _answered(self, call: Call, value: Any, error: Exception | None) -> None:
        """In the calls' thread: a call has ended."""
        probe("call.answered")
        self.answers.append((call, recorded(value, error), "" if error is None else described(error)))
        self._wake()

    def next(self, time: float) -> Answer | None:
        """Return the next answer that somebody waits for."""
        while self.answers:
            call, payload, why = self.answers.popleft()
            self.made.pop(call, None)
            if call in self.asked.askers:
                if why or self.failing:
                    self.tell(standing_of(self.asked.askers[call][0]).name, why)
                return Answer(call, payload, time)
        return None

    def tell(self, query: str, why: str) -> None:
        """Report that a call of *query* has failed, or that one has been answered since."""
        if why:
            self.failing.add(query)
            message = (
                f"a call has failed with {why}; what becomes of its element is for the query to say (its policy, a "
                f"catch), and what may work the second time is tried again inside the function"
            )
            self.incidents.report("call", query, message, level=logging.WARNING)
        elif query in self.failing:
            self.failing.discard(query)
            self.incidents.resolve("call", query)

    def late(self, now: float) -> tuple[Asker, Made] | None:
        """Return who waits for the oldest call that is out for longer than it should be, and that call."""
        for call, made in self.made.items():
            if now - made.since < LATE_S:
                return None
            asker = self.asked.askers.get(call)
            if asker is not None and now - made.since >= LATE_S + (made.timeout_s or 0.0):
                return asker, made
        return None

    @contextmanager
    def last_answers(self) -> Iterator[Callable[[], bool]]:
        """Call for no more; the function says whether answers may still come within `GRACE_S`.

        Each that is taken meanwhile is one call fewer to repeat.
        """
        until = wall.monotonic() + GRACE_S
        self.finishing = True
        try:
            yield lambda: bool(self.made or self.answers) and wall.monotonic() < until
        finally:
            self.finishing = False

    def close(self) -> None:
        """Cancel what is in flight: it will be called again."""
        self.loop.close(CANCEL_S)


def limit_of(asker: Asker) -> float | None:
    """Return how long a call may be out, as the operator that wants it says today."""
    op: Any = asker[1].op
    return None if op.timeout_s is None else float(op.timeout_s)


def recorded(value: Any, error: Exception | None) -> bytes:
    """Return an answer as the journal will have it, or, if it cannot have it, that it was refused."""
    try:
        payload = encode((value, error))
        decode(payload)
        if not failures.fits(payload):
            raise failures.too_large("the journal", f"an answer of {len(payload):,} bytes")
    except BaseException as problem:  # in a thread of its own: no interrupt comes here
        refusal = AnswerRefused(
            f"a call answered with {name_of(type(value))}, which cannot be recorded ({described(problem)}): return "
            f"plain data"
        )
        return encode((None, refusal))
    return payload
