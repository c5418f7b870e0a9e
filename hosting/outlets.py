"""Sinks at the ends of streams: fed in order, flushed before a checkpoint, and what they have made durable is
acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosting.closing import close_all
from hosting.stream import Stream
from reliable_rx.errors import PositionUnavailable, StoreUnavailable, invariant
from reliable_rx.probes import probe
from reliable_rx.reliable import Sink

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

READ_MAX = 10_000


class Outlet:
    """One sink of one stream."""

    def __init__(self, stream: str, sink: Sink, holder: str) -> None:
        self.stream = stream
        self.sink = sink
        self.holder = holder
        self.position = 0
        self.flushed = 0
        self.knows = False

    def pump(self, stream: Stream) -> bool:
        """Write what is visible and not written yet."""
        if self.position >= stream.visible:
            return False
        while (before := self.position) < stream.visible:
            for segment in stream.read(before, READ_MAX):
                if segment.values:
                    self.sink.write(segment.first, segment.values)
                if segment.ended:
                    self.sink.end(segment.next - 1, segment.error)
                self.position = segment.next
            invariant(self.position > before, f"stream {self.stream!r} still has id {before:,}, which a sink wants")
        return True

    def flush(self, stream: Stream) -> None:
        """Make it durable, then let the stream forget it."""
        if self.flushed < self.position:
            probe("sink.before_flush")
            self.sink.flush()
            probe("sink.after_flush")
            self.flushed = self.position
            probe("sink.before_acknowledge")
            stream.acknowledge(self.holder, self.position - 1)


class Outlets:
    """All sinks of an evaluator."""

    def __init__(self, evaluator: QueryEvaluator, *, buffer_events_max: int) -> None:
        self.evaluator = evaluator
        self.buffer_events_max = buffer_events_max
        self.opened = False
        self.all: list[Outlet] = []
        self.trouble: StoreUnavailable | None = None
        self.held: dict[str, dict[str, int]] = {}

    def add(self, stream: str, sink: Sink) -> None:
        number = sum(outlet.stream == stream for outlet in self.all)
        self.all.append(Outlet(stream, sink, f"sink {number}"))

    def hold(self, held: dict[str, dict[str, int]]) -> None:
        """Before a replay: nothing of it may be forgotten that a holder or a sink may still want."""
        self.held = held
        streams, engine = self.evaluator.streams, self.evaluator.engine
        for name, holders in held.items():
            sinks = frozenset(outlet.holder for outlet in self.all if outlet.stream == name)
            self.evaluator.holders.restore(streams.open(name, engine.emitted(name)), holders, sinks=sinks)
        for outlet in self.all:
            position = held.get(outlet.stream, {}).get(outlet.holder, 0)
            self.evaluator.stream(outlet.stream).hold(outlet.holder, position)

    def open(self) -> None:
        """Ask every sink where it stands, once."""
        if self.opened:
            return
        self.opened = True
        for outlet in self.all:
            stream = self.evaluator.stream(outlet.stream)
            position = outlet.sink.open(outlet.stream)
            if position is None:
                position = self.held.get(outlet.stream, {}).get(outlet.holder, 0)
            elif position > stream.next_id:
                self._skip_to(stream, position)
            stream.check(position)
            outlet.position = outlet.flushed = position
            stream.hold(outlet.holder, position)
        self.pump()

    def _skip_to(self, stream: Stream, position: int) -> None:
        """A sink knows ids that the evaluator does not: only possible where outputs were visible before the journal."""
        if self.evaluator.delivery == "exactly_once":
            raise PositionUnavailable(
                f"a sink of stream {stream.name!r} already has ids up to {position - 1:,}, but this store has emitted "
                f"only {stream.next_id:,}: the sink belongs to another store, or the store was set back; use a fresh "
                f"sink",
                wanted=position,
                first=stream.first,
                end=stream.next_id,
            )
        self.evaluator.engine.continue_ids(stream.name, position)
        stream.skip_to(position)

    def pump(self) -> bool:
        """Write what has become visible everywhere."""
        moved = False
        try:
            for outlet in self.all:
                stream = self.evaluator.streams.get(outlet.stream)
                if stream is not None:
                    moved = outlet.pump(stream) or moved
                    if stream.next_id - outlet.flushed > self.buffer_events_max // 2:
                        outlet.flush(stream)
                        stream.trim()
            self.trouble = None
        except StoreUnavailable as error:
            self.trouble = error
        return moved

    @property
    def has_unflushed(self) -> bool:
        """Whether a sink was given what it has not been asked to make durable."""
        return any(outlet.flushed < outlet.position for outlet in self.all)

    def flush(self) -> None:
        """Make everything written durable. *Raises* `StoreUnavailable`."""
        for outlet in self.all:
            stream = self.evaluator.streams.get(outlet.stream)
            if stream is not None:
                outlet.pump(stream)
                outlet.flush(stream)

    def close(self) -> None:
        close_all(*(outlet.sink.close for outlet in self.all))
