"""The streams of one evaluator by name: made when a query first emits or somebody asks, fed group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

from checkpoint.store import Store
from hosting.edges.egress import Stream
from hosting.edges.holders import StreamHolders
from hosting.edges.retention import Retention, RetiredStreams
from hosting.engine.turns import Output
from reliable_rx.names import STORED


class Streams(dict[str, Stream]):
    """Streams by name, which of them have changed since a checkpoint began, and how much went into them."""

    def __init__(
        self, store: Store, holders: StreamHolders, *, retain_events: int, retention: Retention | None = None
    ) -> None:
        super().__init__()
        self.retired = RetiredStreams(self, retention or Retention())
        self.unloaded: WeakValueDictionary[str, Stream] = WeakValueDictionary()
        """Those of queries that are gone, as far as somebody still has them."""
        self._has_unloaded = False
        self.store, self.holders, self.retain_events = store, holders, retain_events
        self.changed: dict[str, None] = {}
        self.events_out = 0
        self.far = frozenset(store.subscribed())
        """Those that evaluators of other processes read out of our store, while we are not running."""

    def open(self, name: str, next_id: int) -> Stream:
        """Return the stream *name*, made if nobody has asked for it; then its next id is *next_id*."""
        return self.get(name) or self._make(name, next_id)

    def _make(self, name: str, next_id: int) -> Stream:
        found = self.unloaded.pop(name, None) if self._has_unloaded else None
        if found is not None:
            self[name] = found
            return found
        stream = self[name] = Stream(
            name, self.store, next_id=next_id, retain_events=self.retain_events, registry=self.holders
        )
        if name in self.far:
            for holder, n in self.store.acknowledged(name).items():
                stream.keep_for(STORED + holder, n + 1)
        return stream

    def append(self, outputs: Sequence[Output]) -> None:
        """Put outputs into their streams, not visible yet."""
        changed = self.changed
        for out in outputs:
            name = out.name
            stream = self.get(name) or self._make(name, out.first)
            stream.append(out)
            changed[name] = None
            self.events_out += len(out.values)

    def show(self, outputs: Sequence[Output]) -> None:
        """Make outputs visible that were appended."""
        for name, upto in {out.name: out.next for out in outputs}.items():
            self[name].show(upto)

    def is_read(self, name: str) -> bool:
        """Whether somebody who is there holds or observes the stream *name*."""
        stream = self.get(name)
        return stream is not None and (bool(stream.wakers) or any(each not in stream.absent for each in stream.holders))

    def unload(self, name: str) -> None:
        """Free the buffer of a stream that is in the store; who has it or asks for it reads it from there."""
        stream = self.get(name)
        if stream is None or stream.holders or stream.wakers or name in self.changed:
            return
        stream.unload(self.store)
        self.unloaded[name], self._has_unloaded = self.pop(name), True

    def drop(self, name: str) -> None:
        """A stream has been deleted from the store: nothing of it can be read any more."""
        stream = self.get(name) or self.unloaded.get(name)
        if stream is not None and name not in self.changed:
            for holder in list(stream.holders):
                stream.release(holder)
            stream.unload(None)
            self.pop(name, None)
            self.unloaded[name], self._has_unloaded = stream, True

    def take_changed(self) -> dict[str, None]:
        """Return the names of those that have changed since the last time; a checkpoint has them now."""
        changed, self.changed = self.changed, {}
        return changed

    def give_back(self, changed: Mapping[str, None]) -> None:
        """Count *changed* as changed again: their checkpoint failed."""
        self.changed = {**changed, **self.changed}
