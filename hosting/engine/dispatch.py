"""Handing events to the queries that read them, as lists where nobody can tell and one by one where Rx promises it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hosting.engine.blame import blamed
from hosting.engine.errors_at_work import ErrorsAtWork
from hosting.engine.failing import strike
from hosting.engine.routes import Entry, Route, Routes, top_of
from hosting.engine.turns import Events
from reliable_rx.runtime.instance import Instance, Timer

if TYPE_CHECKING:
    from hosting.engine.event_time.watermarks import Watermarks
    from hosting.engine.timers import Ordering
    from reliable_rx.runtime.plan import PlanNode

Origin = tuple[str, str, int]
"""Source, partition and the position of the first event."""
Cascade = tuple[str, int, Sequence[Any], bool, Exception | None]
"""What a query emitted: its name, the id of the first value, the values, whether it ended, and its error."""


def came_after(instance: Instance, leaf: PlanNode, order: int) -> bool:
    """Whether *leaf* has subscribed behind *order*, which it may have done before too."""
    return instance.orders is not None and instance.orders.get(leaf.index, 0) > order


class Delivery:
    """The part of an engine that hands events over."""

    struck = strike

    routes: Routes
    watermarks: Watermarks
    immediate: deque[Timer]
    cascade: deque[Cascade]
    live: dict[str, set[str]]
    interleaving: set[Instance]
    event: tuple[str, str, int, Any] | None
    errors: ErrorsAtWork
    ordering: Ordering

    if TYPE_CHECKING:

        def settle(self) -> None: ...
        def settle_immediate(self) -> None: ...
        def absorb(self, instance: Instance, node: PlanNode, error: Exception) -> bool: ...

    def blame(self, raised: BaseException, by: Instance) -> Exception:
        """Return *raised* as the error of the query of *by*, whose function has raised it. *Raises* an interrupt."""
        error = blamed(raised)
        self.errors.note_raised(top_of(by).key, error)
        return error

    def tell_end(self, instance: Instance, leaf: PlanNode, source: str, error: Exception | None) -> None:
        """Tell who reads *source* that it has ended."""
        self.errors.note_told(top_of(instance).key, source, error)
        instance.end_leaf(leaf, error)

    def hand_over(self, turn: Events) -> None:
        """Hand the events of *turn* to everyone who reads their source."""
        values, source, origin = turn.values, turn.source, (turn.source, turn.partition, turn.first)
        route = self.routes.get(source)
        if self.is_told_apart(source, values):
            self.spread_singly(values, origin)
        elif source in self.watermarks.by_source:
            if route is not None and turn.singly:
                self.spread_singly(values, origin)
            else:
                self.spread(values, origin)
        elif route is not None:
            if turn.singly:
                self.deliver_run(route, turn)
            else:
                self.deliver(route, values, origin)

    def spread(self, values: Sequence[Any], origin: Origin) -> None:
        """Hand *values* to everyone who reads their source, on whatever clock."""
        route, marks = self.routes.get(origin[0]), self.watermarks.by_source.get(origin[0])
        if route is not None:
            self.deliver(route, values, origin)
        if marks is not None:
            self.watermarks.spread(marks, origin, values)

    def spread_singly(self, values: Sequence[Any], origin: Origin) -> None:
        """Hand over each of *values* with all that follows from it."""
        source, partition, first = origin
        for offset, value in enumerate(values):
            self.spread((value,), (source, partition, first + offset))
            self.settle()
            self.errors.clear()

    def deliver_run(self, route: Route, turn: Events) -> None:
        """Hand over events one by one, each with all that follows from it."""
        source, partition, first = turn.source, turn.partition, turn.first
        fans, reader = None, None
        for offset, value in enumerate(turn.values):
            if route.fans is not fans:  # they are another tuple whenever someone comes or goes
                fans, reader = route.fans, route.only_reader()
            if reader is None:
                self.deliver(route, (value,), (source, partition, first + offset))
            else:
                instance, leaf = reader
                if instance.active & leaf.bit:
                    deliver = leaf.deliver
                    deliver(instance, (value,))
            if self.immediate or self.cascade or self.errors:
                self.settle()
                self.errors.clear()

    def deliver(self, route: Route, values: Sequence[Any], origin: Origin) -> None:
        """Hand *values* to everyone who reads *route*."""
        for top, leaf, readers in route.fans or route.everyone():
            if leaf is None:
                self.deliver_singly(route, top, readers, values, origin)
            elif (instance := readers[0][0]).active & leaf.bit:
                leaf.deliver(instance, values)
                if self.immediate:
                    self.settle_immediate()
        if route.keyed:
            self.deliver_keyed(route, values, origin)

    def is_heard(self, name: str) -> bool:
        """Whether somebody reads the stream *name*, or may do so before what is emitted is handed over."""
        return name in self.routes or name in self.watermarks.by_source or bool(self.interleaving)

    def is_told_apart(self, source: str, values: Sequence[Any]) -> bool:
        """Whether a query may tell a list from its events one by one.

        One that reads several streams, or may choose one at an event, sees which stream comes first. Whatever else is
        there, now or in a replay, it has to see the same.
        """
        if len(values) == 1 or not self.interleaving:
            return False
        route = self.routes.get(source)
        if self.watermarks.by_source or (route is not None and (len(route.plain) > 1 or route.keyed)):
            return True
        return not self.live.keys() >= self.routes.keys()

    def deliver_keyed(self, route: Route, values: Sequence[Any], origin: Origin) -> None:
        """Hand each event to the queries that want its key."""
        if route.picky and len(values) > 1:
            source, partition, first = origin
            for offset, value in enumerate(values):
                self.deliver_keyed(route, (value,), (source, partition, first + offset))
            return
        self.event = (*origin, values[0]) if len(values) == 1 else None
        for (instance, leaf), mine, error in route.wanted(values):
            if mine:
                leaf.deliver(instance, mine)
            if error is not None:
                self.errors.note_raised(top_of(instance).key, error)
            if error is not None and not self.absorb(instance, leaf, error):
                instance.end_leaf(leaf, error)
            if self.immediate:
                self.settle_immediate()

    def deliver_singly(
        self, route: Route, top: Instance, readers: list[Entry], values: Sequence[Any], origin: Origin
    ) -> None:
        """Hand each event to all readers in one query; what it makes subscribe, be it again, gets the next one."""
        source, partition, first = origin
        ordering = self.ordering
        for offset, value in enumerate(values):
            self.event, before = (source, partition, first + offset, value), ordering.newest
            for instance, leaf in readers:
                if not instance.active & leaf.bit:
                    continue
                if ordering.newest != before and route.fans is None and came_after(instance, leaf, before):
                    continue
                deliver = leaf.deliver
                deliver(instance, (value,))
            if self.immediate:
                self.settle_immediate()
            self.errors.clear()
            if route.fans is None:
                readers = route.readers_of(top)
