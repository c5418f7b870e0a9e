"""The world of one event-time query: a clock and timers of its own, and events in the order of their time.

Operators run here unchanged. What arrives waits (`hosting.engine.event_time.reorder`) until the watermark
(`hosting.engine.event_time.watermark`) has passed it; then the clock goes from event to event, firing what was due
before each, and at last to the watermark itself, so that windows close without a later event. Events of exactly the
watermark's time still wait: others may be among those yet to come, and a timer due at *t* fires after all events
stamped *t*. So what a query emits does not depend on how its partitions were interleaved, but for events that come
late. Everything that is not about time is the engine's.

The query begins with the first event that is handed to it: before that there is no time to begin at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby, repeat
from math import nextafter
from operator import lt
from typing import TYPE_CHECKING, Any

from hosting.engine.dispatch import came_after
from hosting.engine.endless import moves
from hosting.engine.event_time.catching_up import CatchingUp
from hosting.engine.event_time.reorder import END, LAST, Channel, Entry, Reorder
from hosting.engine.event_time.validation import is_timeless
from hosting.engine.event_time.watermark import INFINITE, Watermark
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.routes import Entry as ReaderEntry
from hosting.engine.routes import Routes
from hosting.engine.side_outputs import post
from hosting.engine.time_moves import REARMED_MAX, is_hopeless
from hosting.engine.timers import Clock, Timers
from hosting.engine.turns import end_of
from reliable_rx.errors import LimitExceeded
from reliable_rx.event_time import EventTime
from reliable_rx.query.query import SourceLeaf
from reliable_rx.reliable import LateEvent
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.plan import PlanNode
from reliable_rx.runtime.reading import subscribe_inner
from reliable_rx.runtime.stage_context import finish_node

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine


class EventClock(CatchingUp, Clock):
    """The world of one standing query on event time."""

    engine: QueryEngine
    timers: Timers
    standing: Standing
    spec: EventTime
    watermark: Watermark
    takes_lists: bool
    name = ""
    leaves_out = True

    def __init__(self, engine: QueryEngine) -> None:
        super().__init__(-INFINITE, engine.immediate, engine.ordering)
        self.engine = engine
        self.floor = -INFINITE  # the floor is what the row knows; the watermark knows the rest
        self.begun, self.late = False, 0
        self.joined_in = -1  # in which run of events it came here from another watermark
        self.ended: set[str] = set()
        self.over: dict[str, Exception | None] = {}  # those whose end the query has been told
        self.leads: dict[str, float] = {}  # by path, how long before they were due timers have been set
        self.routes = Routes()
        self.readers: dict[str, list[ReaderEntry]] = {}
        self.waiting = Reorder(self)
        self.playing: tuple[str, Sequence[Entry]] = ("", ())  # what is handed over as a list just now, of which source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @property
    def touch(self) -> Callable[[Any], Any]:
        return self.engine.touch

    @property
    def own_clock(self) -> EventClock:
        return self

    @property
    def mapper(self) -> Callable[[Any], Any] | None:
        """What reads the key by which events find the query, if it has one."""
        leaf = self.standing.plan.leaves[0].op if self.standing.keys else None
        return leaf.key_mapper if isinstance(leaf, SourceLeaf) else None

    # -- coming and going

    def adopt(self, standing: Standing) -> None:
        """Be the world of *standing*, in the place of the one before."""
        if "watermark" in self.__dict__:
            self.watermark.remove(self)
        self.standing = standing
        self.takes_lists = standing.policy == "fail" and is_timeless(standing.plan)
        standing.world = self  # type: ignore[assignment]

    def join(self, spec: EventTime, sources: frozenset[str]) -> None:
        """Follow the watermark of *spec* over *sources* from now on."""
        self.engine.touch(self.standing)
        before, self.spec = self.__dict__.get("watermark"), spec
        self.watermark = self.engine.watermarks.of(spec, sources, self)
        self.name = self.watermark.name
        self.engine.readers.note(self.standing.name, sources)
        if before is not None and before is not self.watermark:
            self.joined_in = self.engine.watermarks.runs
            self.watermark.follow(before)
            self.engine.watermarks.leave(self, before)
        self.watermark.add(self)
        self.watermark.set_alarm()
        if before is None:
            self.clock = max(self.clock, self.watermark.time)
        self.floor = self.clock  # one that stands further is gone after by `catch_up`, through what waits
        for source, error in self.watermark.over.items():
            if source not in self.ended:
                self.ended.add(source)
                self.over[source] = error

    def start(self) -> None:
        """Begin at once if nothing will come that could move the clock."""
        if self.watermark.is_over:
            self.move(INFINITE)

    def begin(self, time: float) -> None:
        self.engine.touch(self.standing)
        self.begun = True
        self.clock = self.floor = time
        self.standing.start()
        self.engine.settle_immediate()

    def close(self) -> None:
        """The query has ended, or what is left of it goes."""
        if "watermark" in self.__dict__:  # one that had ended before the store was opened has none
            self.engine.watermarks.leave(self, self.watermark)
        self.waiting.clear()

    # -- what arrives

    def arrive(
        self,
        channel: Channel,
        stamps: list[float],
        positions: Sequence[int],
        values: Sequence[Any],
        floors: list[float] | None,
    ) -> None:
        """Take events; *floors* says where the watermark stands when each comes, if some may be behind others."""
        if channel[0] in self.ended:
            return
        new = list(zip(stamps, repeat(channel), positions, values))
        if min(stamps) >= self.clock and (floors is None or not any(map(lt, stamps, floors))):
            self.waiting.add(new)
            return
        clock, timely = self.clock, []
        for place, entry in enumerate(new):
            if self.standing.status != RUNNING:
                return
            floor = clock if floors is None else max(clock, floors[place])
            if entry[0] >= floor:
                timely.append(entry)
            elif self.spec.late != "keep":
                self.lose(entry, floor)
            else:
                self.waiting.add(timely)
                timely = []
                self.move(floor)
                self.lose(entry, floor)
        self.waiting.add(timely)

    def lose(self, entry: Entry, floor: float) -> None:
        """Do with a late event what the query wants done."""
        self.engine.touch(self.standing)
        self.late += 1
        self.engine.tell(self.standing.name)
        stamp, (source, partition), position, value = entry
        if self.spec.late == "side":
            post(self.engine, f"{self.standing.name}.late", LateEvent(source, partition, position, value, stamp, floor))
        elif self.spec.late == "keep":
            if not self.begun:
                self.begin(floor)
            self.deliver(source, partition, position, value)

    def refuse(self, source: str, partition: str, position: int, value: Any, error: Exception) -> None:
        """An event has no time, or no key, that could be read."""
        if source in self.ended or self.joined_in == self.engine.watermarks.runs:
            return
        self.engine.event = (source, partition, position, value)
        self.engine.errors.note_raised(self.standing.name, error)
        if not self.begun:
            self.begin(self.clock if self.clock > -INFINITE else 0.0)
        for instance, leaf in list(self.readers_of(source)):
            if not self.engine.absorb(instance, leaf, error):
                instance.end_leaf(leaf, error)
        self.engine.settle_of(self.standing.name)

    def end_source(self, source: str, high: float, error: Exception | None) -> None:
        """*source* ends after its events, the last of which is stamped *high*, and after those that wait here."""
        if source in self.ended:
            return
        self.engine.touch(self.standing)
        self.ended.add(source)
        high = max(high, self.clock, *(each[0] for each in self.waiting.entries if each[1][0] == source))
        self.waiting.add([(high, (LAST, source), END, error)])

    # -- time

    def move(self, time: float) -> None:
        """Move the clock to *time* through everything that is due before; to the end of it if *time* is infinite."""
        if time <= self.clock:
            if self.waiting.fresh:
                self.hold()
            return
        if not self.waiting.entries and not self.timers.heap and time < INFINITE:
            self.clock = time
            return
        if self.timers.heap and self.timers.heap[0][0] < self.clock:
            self.make_up()
        entries = self.waiting.take(time) if time < INFINITE else self.waiting.take_all()
        if entries:
            self.play(entries, time)
        if self.standing.status != RUNNING:
            return
        if time == INFINITE:
            if self.watermark.is_over:  # else a selector has named one more source in what has just been handed over
                self.drain()
        else:
            if self.timers.heap:
                self.fire_due(time)
            self.clock = time
        self.hold()
        if self.watermark.time > time:  # a source was read anew on the way, and with it another watermark
            self.catch_up()

    def play(self, entries: list[Entry], time: float) -> None:
        """Hand over events that are older than *time*."""
        if not self.begun:
            self.begin(next((each[0] for each in entries if each[0] > -INFINITE), time if time < INFINITE else 0.0))
        if self.takes_lists and len(self.ended) == len(self.over):
            self.play_lists(entries)
        else:
            self.play_singly(entries)

    def play_singly(self, entries: list[Entry]) -> None:
        heap, standing = self.timers, self.standing
        for stamp, (source, partition), position, value in entries:
            if stamp > self.clock:
                if heap.heap:
                    self.fire_due(stamp)
                self.clock = stamp
            if position == END:
                self.finish_source(partition, value)
            else:
                self.deliver(source, partition, position, value)
            if standing.status != RUNNING:
                return

    def play_lists(self, entries: list[Entry]) -> None:
        """Hand over whole lists: nothing in the query looks at the clock."""
        self.clock = max(self.clock, entries[-1][0])
        self.engine.event = None
        for source, run in groupby(entries, key=lambda each: each[1][0]):
            self.playing = source, entries
            values = [each[3] for each in run]
            for instance, leaf in self.readers_of(source):
                if instance.active & leaf.bit:
                    leaf.deliver(instance, values)
            self.engine.settle_immediate()
        self.playing = "", ()

    def deliver(self, source: str, partition: str, position: int, value: Any) -> None:
        engine = self.engine
        engine.event, before = (source, partition, position, value), engine.ordering.newest
        for instance, leaf in self.readers.get(source) or self.readers_of(source):
            if instance.active & leaf.bit and (source in self.readers or not came_after(instance, leaf, before)):
                leaf.deliver(instance, (value,))
        if engine.immediate or engine.errors:
            engine.settle_of(self.standing.name)

    def finish_source(self, source: str, error: Exception | None) -> None:
        self.engine.touch(self.standing)
        self.over[source], self.engine.event = error, end_of(source)
        for instance, leaf in list(self.readers_of(source)):
            self.engine.tell_end(instance, leaf, source, error)
        self.engine.settle_of(self.standing.name)

    def drain(self) -> None:
        """Nothing will come any more: let all that is on its way arrive. Put off until calls are answered."""
        if not self.begun:
            self.begin(self.clock if self.clock > -INFINITE else 0.0)
        self.engine.touch(self.standing)
        if not self.engine.calls.waits(self.standing):
            try:
                for horizon in moves(self.standing, self.timers, self.clock, self.leads):
                    self.fire_due(horizon, inclusive=True)
                    self.clock = max(self.clock, horizon)
            except LimitExceeded as error:
                finish_node(self.standing, self.standing.plan.root, error)
        self.floor = self.clock

    def fire_due(self, time: float, *, inclusive: bool = False) -> None:
        """Fire what is due before *time*, or at it if *inclusive*."""
        engine, timers = self.engine, self.timers
        self.in_timers, self.reach, engine.event = True, nextafter(time, INFINITE) if inclusive else time, None
        mark, actions, begun = engine.orders, 0, self.clock
        enough = mark + REARMED_MAX
        while (timer := timers.pop(time, inclusive=inclusive)) is not None:
            if timer[0] > self.clock:
                mark, actions = engine.orders, 0
                if mark <= enough:
                    self.clock = timer[0]
                elif is_hopeless(begun, timer[0], time):
                    engine.leap, self.clock = (timer[0], time), time
                else:
                    self.clock, begun, enough = timer[0], timer[0], mark + REARMED_MAX
            actions += timer[1] > mark  # set since the clock has come here, and part of what set it
            if not actions:
                engine.errors.pop(self.standing.name, None)
            engine.fire_bounded(timer, actions)
        self.in_timers = False

    def hold(self) -> None:
        """Keep what still waits. A query that would keep more than its limit fails."""
        if self.standing.status != RUNNING:
            return
        if self.clock > max(self.floor, self.watermark.time):  # another one than it has followed on the way here
            self.engine.touch(self.standing)
            self.floor = self.clock
        for source in self.routes.sweep() if self.routes.left else ():
            self.readers.pop(source, None)
        self.waiting.keep(self.clock)
        error = self.waiting.excess(self.standing)
        if error is None:
            return
        if self.begun:
            finish_node(self.standing, self.standing.plan.root, error)
        else:
            self.engine.finish(self.standing, error)

    # -- the world of the instances

    def set_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float | None) -> Timer:
        lead = 0.0 if due is None else due - self.clock
        if lead > self.leads.get(node.path, -1.0):
            self.engine.touch(self.standing)
            self.leads[node.path] = lead
        return super().set_timer(instance, node, tag, due)

    def subscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if leaf.reads_inner:
            subscribe_inner(instance, leaf, self.engine.order())
            return
        source: str = leaf.op.source  # type: ignore[attr-defined]
        refusal = self.engine.readers.refusal(instance, source)
        self.resume(instance, leaf, self.engine.order())
        if refusal is not None:
            instance.end_leaf(leaf, refusal)
            return
        if source not in self.watermark.sources:
            self.join(self.spec, self.watermark.sources | {source})
        if source in self.over and self.engine.end_of(source) is None:  # it has begun anew since
            self.ended.discard(source)
            del self.over[source]
            self.join(self.spec, self.watermark.sources)
            self.watermark.listen(source)
        if source in self.over:
            self.engine.tell_end(instance, leaf, source, self.over[source])

    def resume(self, instance: Instance, leaf: PlanNode, order: int) -> None:
        source: str = leaf.op.source  # type: ignore[attr-defined]
        if instance.parent is not None or not (instance.plan.single and instance.plan.by_list):
            if instance.orders is None:
                instance.orders = {}
            instance.orders[leaf.index] = order
        self.readers.pop(source, None)
        self.engine.readers.choose(instance, source)
        self.routes.of(source).add(instance, leaf, order)

    def unsubscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if instance.orders is not None:
            instance.orders.pop(leaf.index, None)
        if leaf.reads_inner:
            self.engine.unsubscribe(instance, leaf)
            return
        source: str = leaf.op.source  # type: ignore[attr-defined]
        self.engine.readers.leave(instance, source)
        self.readers.pop(source, None)
        self.routes.leave(source, instance, leaf)

    def readers_of(self, source: str) -> list[ReaderEntry]:
        """Return who reads *source* inside the query, in the order in which they subscribed."""
        found, route = self.readers.get(source), self.routes.get(source)
        if found is None and route is not None:
            found = self.readers[source] = list(route.readers())
        return found or []

    def save(self) -> tuple[Any, ...]:
        """Return what is stored with the query's row."""
        return self.name, self.floor, self.begun, self.late, sorted(self.ended), dict(self.over), dict(self.leads)
