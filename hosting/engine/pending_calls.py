"""What an engine knows of the calls out of its queries: which are wanted, by whom; never how they are made.

The calls in flight are in the rows of the operators that wait for them, so a checkpoint needs nothing from here. A
call is named by the query that asks, the turn, and how many calls of this query the turn has asked for: the answer to a
call of a query that is gone is never taken for that of another, and a replay gives the same names.
Rejected: numbers of the engine's one counter. Where another query subscribes once more in the replay than in the first
run, all numbers behind it differ, and pure queries lose the answers that the journal has for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from checkpoint.format.codec import decode
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.routes import top_of
from hosting.engine.turns import Create, Events, Rejects
from reliable_rx.errors import CheckpointRefused, described
from reliable_rx.interrupts import let_through
from reliable_rx.query.symbols import beside
from reliable_rx.runtime.calling import Call
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import PlanNode

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

Asker = tuple[Instance, PlanNode]
OF_EVENTS = (Events, Rejects)
"""Turns that hand over what a source has given."""


class Asked:
    """The calls that are in flight, and what has changed about them since somebody looked."""

    def __init__(self, engine: QueryEngine) -> None:
        self.engine = engine
        self.askers: dict[Call, Asker] = {}
        self.fresh: list[Call] = []
        self.dropped: list[Call] = []
        self.turn, self.counts = 0, dict[str, int]()
        """The newest turn in which somebody has asked, and how often each query did in it."""
        self.unreadable: dict[str, CheckpointRefused] = {}
        """Queries whose answers in the journal cannot be read any more, until a replay has looked."""
        self.others: set[Call] = set()
        """Those that follow from no event of a source: a timer asks for them, or a query that begins by itself.

        So does, as far as is known here, what waits for one of these: the answer to it asks for the next.
        """
        self._following = 0
        """The turn in which the answer to a call is taken that follows from an event."""
        self.full: dict[Asker, None] = {}
        """Who has so many elements waiting that no more events should be taken."""

    def answer(self, call: Call, payload: bytes) -> None:
        """Give an answer to whoever waits for it; one that cannot be read is an error of the query, or spoils it."""
        asker = self.askers.pop(call, None)
        if asker is None:
            return
        instance, node = asker
        if call not in self.others:
            self._following = self.engine.number
        self.others.discard(call)
        try:
            value, error = decode(payload)
        except BaseException as raised:  # what it is made of may be gone since it was recorded
            let_through(raised)
            value, error = None, unreadable_answer(raised)
            if self.engine.replaying:
                self.unreadable[standing_of(instance).name] = error
                return
        instance.answer(node, call, value, error)
        self.drain(standing_of(instance))

    def drain(self, standing: Standing) -> None:
        """Let happen what a query whose events are over has put off until its calls were answered."""
        clock = standing.world.own_clock
        if clock is not None and clock.watermark.is_over and standing.status == RUNNING:
            self.engine.settle_immediate()
            clock.drain()

    def waits(self, standing: Standing) -> bool:
        """Whether a query has calls in flight."""
        return any(top_of(instance) is standing for instance, _ in self.askers.values())

    def of_events(self) -> Iterator[Call]:
        """Give those that follow from an event: asked for as it is taken, or as the answer to such a call is."""
        return (call for call in self.askers if call not in self.others)

    @property
    def header(self) -> dict[str, Any]:
        """What of it is in no row."""
        self.others &= self.askers.keys()
        return {"other calls": sorted(self.others)} if self.others else {}

    def request(self, call: Call) -> tuple[Callable[[], Awaitable[Any]], float | None]:
        """Return the *call* to be made, and how long it may take."""
        instance, node = self.askers[call]
        op: Any = node.op
        value = op.element(instance.states[node.slot], call)
        return beside(instance, lambda: op.coroutine(value)), op.timeout_s

    # -- what the operators do through their context

    def ask(self, instance: Instance, node: PlanNode, value: Any) -> Call:
        if self.turn != self.engine.number:
            self.turn = self.engine.number
            self.counts.clear()
        name = standing_of(instance).name
        count = self.counts[name] = self.counts.get(name, 0) + 1
        call = (name, self.turn, count)
        self.askers[call] = (instance, node)
        self.fresh.append(call)
        if type(self.engine.turn) not in OF_EVENTS and self._following != self.engine.number:
            self.others.add(call)
        return call

    def resume(self, instance: Instance, node: PlanNode) -> None:
        op: Any = node.op
        state = instance.states[node.slot]
        for call in op.in_flight(state):
            self.askers[call] = (instance, node)
            self.fresh.append(call)
        self.hold(instance, node, full=op.is_full(state))

    def drop(self, instance: Instance, node: PlanNode) -> None:
        op: Any = node.op
        for call in op.in_flight(instance.states[node.slot]):
            if self.askers.pop(call, None) is not None:
                self.dropped.append(call)
                if type(self.engine.turn) is not Create:  # an edit, which takes them up again
                    self.others.discard(call)
        self.full.pop((instance, node), None)

    def hold(self, instance: Instance, node: PlanNode, *, full: bool) -> None:
        if full:
            self.full[instance, node] = None
        elif self.full:
            self.full.pop((instance, node), None)

    def origin(self, instance: Instance, node: PlanNode, value: Any) -> Any:
        """Return the event at work if the query's policy will want to know it; else the element stands for itself."""
        standing = standing_of(instance)
        if standing.policy == "fail":
            return None
        return self.engine.event or (f"{standing.name}{node.path}", "", -1, value)

    def at_work(self, origin: Any) -> None:
        self.engine.event = origin


def unreadable_answer(raised: BaseException) -> CheckpointRefused:
    """Say that an answer which was recorded cannot be read, and what to do."""
    return CheckpointRefused(
        f"a recorded answer of map_async cannot be read ({described(raised)}): bring back what it was made of, or run "
        f"the query again, which asks anew",
        what=described(raised),
        where="state",
    )


def standing_of(instance: Instance) -> Standing:
    """Return the query that *instance* is part of."""
    return top_of(instance)  # type: ignore[return-value]
