"""How long the streams of queries that are gone stay readable: by count, bytes and age, the oldest first.

A query that stands for a session or an order leaves a stream behind. It stays readable for a while, in the store alone:
once a checkpoint has all of it, its buffer is freed, and read again if somebody looks. What is over a limit is deleted
with the next checkpoint. Who holds a stream and is there keeps it; who holds it and is gone does not. The next ids stay
(`hosting.engine.disposed_ids`). Rejected: deleting with the query (its last outputs and its end would be gone before a
reader that polls has seen them), and a timer (nothing need be exact here, and checkpoints are taken anyway).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reliable_rx.errors import StoreUnavailable
from reliable_rx.operators.contract.arguments import check_number

if TYPE_CHECKING:
    from hosting.edges.streams import Streams
    from hosting.engine.engine import QueryEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is kept of the streams of queries that are gone: at most so many, of so many bytes together, for so long.

    >>> Retention(streams=10).age_s
    604800.0
    """

    streams: int = 1000
    bytes: int = 64 << 20
    age_s: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        for name in ("streams", "bytes", "age_s"):
            check_number(name, getattr(self, name), least=0)


class Kept(NamedTuple):
    """A stream of a query that is gone, all of which is in the store."""

    ended_at: float
    bytes: int


class RetiredStreams:
    """The streams of queries that are gone, oldest first, and which of them may be deleted."""

    def __init__(self, streams: Streams, retention: Retention) -> None:
        self.streams, self.retention = streams, retention
        self.kept: dict[str, Kept] = {}
        self.bytes = 0
        self.unwanted: set[str] = set()
        """Those that somebody wants forgotten."""

    def recovered(self, engine: QueryEngine) -> None:
        """Find those that the store has."""
        retired = engine.retired
        if not retired.by_name and not retired.buckets:
            return
        alive = (engine.standing, engine.suspended)
        found = [
            name
            for name in self.streams.store.streams()
            if not any(name in each for each in alive) and retired.get(name)
        ]
        for name in sorted(found, key=lambda name: (retired.ended_at(name), name)):
            self._add(name, retired.ended_at(name), self._size(name))

    def begin(self, engine: QueryEngine) -> tuple[dict[str, None], dict[str, int]]:
        """A checkpoint begins: return what has ended since the last one, and what it may delete, up to which ids."""
        fresh = engine.retired.take_fresh()
        for name in fresh.keys() & self.kept.keys():  # it has come back meanwhile, and ended again
            self._remove(name)
        return fresh, self._expired(engine)

    def _expired(self, engine: QueryEngine) -> dict[str, int]:
        expired: dict[str, int] = {}
        count, size, limits = len(self.kept), self.bytes, self.retention
        for name, kept in list(self.kept.items()):
            if name in engine.standing or name in engine.suspended:  # it has come back
                self._remove(name)
                count, size = count - 1, size - kept.bytes
                continue
            is_over = count > limits.streams or size > limits.bytes or engine.clock - kept.ended_at > limits.age_s
            if not (is_over or name in self.unwanted):
                if not self.unwanted:
                    break
                continue
            if not self.streams.is_read(name):
                expired[name] = engine.retired.get(name)
                count, size = count - 1, size - kept.bytes
        return expired

    def measured(self, fresh: dict[str, None]) -> dict[str, int]:
        """Return how many bytes the store has of each; to be called beside the loop."""
        return {name: self._size(name) for name in fresh}

    def stored(self, sizes: dict[str, int], engine: QueryEngine) -> None:
        """A checkpoint has all of the streams that had ended when it began: free their buffers."""
        for name, size in sizes.items():
            if name not in engine.standing and name not in self.kept and engine.retired.get(name):
                self._add(name, engine.retired.ended_at(name), size)
                self.streams.unload(name)

    def forgotten(self, expired: dict[str, int]) -> None:
        """A checkpoint has deleted these."""
        for name in expired:
            self._remove(name)
            self.streams.drop(name)

    def _size(self, name: str) -> int:
        try:
            return self.streams.store.size(name)
        except StoreUnavailable:  # it counts as small; the other limits hold
            return 1

    def _add(self, name: str, ended_at: float, size: int) -> None:
        if size:
            self.kept[name] = Kept(ended_at, size)
            self.bytes += size

    def _remove(self, name: str) -> None:
        self.bytes -= self.kept.pop(name).bytes
        self.unwanted.discard(name)
