"""The next ids of streams whose queries are gone, so that a query created under an old name does not use an id twice.

Names come and go by the million where a query stands for a session or an order. The newest have a row each, written
when it changes: in the header of the checkpoints every one of them would be written every time. Of those before only
16 bytes are kept, a hash of the name and the next id, in `BUCKETS` rows that are written when thousands have been
added. Two names with one hash share the higher id: then the ids of a new stream do not begin at 0, which is the worst
that can happen. Rejected: forgetting the ids with the streams (a reader that drops by id what it has would drop what is
new), one number for all names (no stream would begin at 0 any more).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

RETIRED = "retired"
RETIRED_IDS = "retired ids"
NAMED_MAX = 8192
"""So many have a row each; then the older half goes into the buckets."""
BUCKETS = 256


class Ended:
    """One stream that nobody writes to."""

    __slots__ = ("ended_at", "epoch", "name", "next_id", "saved")

    def __init__(self, name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.next_id = 0
        self.ended_at = 0.0
        self.saved: Any = None

    @property
    def row_key(self) -> tuple[str, str]:
        """The key under which a store has this row."""
        return (RETIRED, self.name)

    @property
    def row(self) -> tuple[str, int, float]:
        return (RETIRED, self.next_id, self.ended_at)


class Bucket:
    """Next ids of streams by the hash of their names, both as arrays in the order of the hashes."""

    __slots__ = ("epoch", "hashes", "next_ids", "number", "saved")

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.epoch = epoch
        self.hashes = array("Q")
        self.next_ids = array("Q")
        self.saved: Any = None

    @property
    def row_key(self) -> tuple[str, int]:
        """The key under which a store has this row."""
        return (RETIRED_IDS, self.number)

    @property
    def row(self) -> tuple[str, bytes, bytes]:
        return (RETIRED, self.hashes.tobytes(), self.next_ids.tobytes())

    def get(self, hashed: int) -> int:
        place = bisect_left(self.hashes, hashed)
        return self.next_ids[place] if place < len(self.hashes) and self.hashes[place] == hashed else 0

    def put(self, hashed: int, next_id: int) -> None:
        place = bisect_left(self.hashes, hashed)
        if place < len(self.hashes) and self.hashes[place] == hashed:
            self.next_ids[place] = max(self.next_ids[place], next_id)
        else:
            self.hashes.insert(place, hashed)
            self.next_ids.insert(place, next_id)


class Retired:
    """The streams of an engine that nobody writes to."""

    def __init__(self, engine: QueryEngine) -> None:
        self.engine = engine
        self.by_name: dict[str, Ended] = {}
        """The newest, in the order in which they ended."""
        self.buckets: dict[int, Bucket] = {}
        self.fresh: dict[str, None] = {}
        """Those that have ended since somebody took them from here."""

    def rows(self) -> list[Ended | Bucket]:
        """Return what is stored of them."""
        return [*self.by_name.values(), *self.buckets.values()]

    def get(self, name: str) -> int:
        ended = self.by_name.get(name)
        if ended is not None:
            return ended.next_id
        return self._hashed(name) if self.buckets else 0

    def _hashed(self, name: str) -> int:
        hashed = hash_of(name)
        bucket = self.buckets.get(hashed % BUCKETS)
        return 0 if bucket is None else bucket.get(hashed)

    def ended_at(self, name: str) -> float:
        """Return when the stream *name* ended; 0 if that is long ago."""
        ended = self.by_name.get(name)
        return 0.0 if ended is None else ended.ended_at

    def put(self, name: str, next_id: int) -> None:
        """The query *name* is gone; its ids would go on at *next_id*."""
        ended = self.by_name.pop(name, None)
        if ended is None:
            ended = Ended(name, self.engine.epoch)
        self.by_name[name] = ended
        self.engine.touch(ended)
        ended.next_id, ended.ended_at = next_id, self.engine.clock
        self.fresh[name] = None
        if len(self.by_name) > NAMED_MAX:
            self._pack()

    def _pack(self) -> None:
        """Put the older half into the buckets."""
        packed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for name in list(islice(self.by_name, NAMED_MAX // 2)):
            ended = self.by_name.pop(name)
            self.engine.forget(ended)
            hashed = hash_of(name)
            packed[hashed % BUCKETS].append((hashed, ended.next_id))
        for number, entries in packed.items():
            bucket = self.buckets.get(number)
            if bucket is None:
                bucket = self.buckets[number] = Bucket(number, self.engine.epoch)
            self.engine.touch(bucket)
            for entry in entries:
                bucket.put(*entry)

    def pop(self, name: str) -> int:
        """A query *name* begins: return its first id."""
        self.fresh.pop(name, None)
        ended = self.by_name.pop(name, None)
        if ended is None:
            return self._hashed(name) if self.buckets else 0
        self.engine.forget(ended)
        return ended.next_id

    def take_fresh(self) -> dict[str, None]:
        """Return the names of those that have ended since the last time."""
        fresh, self.fresh = self.fresh, {}
        return fresh

    def load(self, rows: dict[Any, Any], buckets: dict[Any, Any]) -> None:
        """Put stored rows back."""
        for key, (_, next_id, ended_at) in sorted(rows.items(), key=lambda each: (each[1][2], each[0])):
            ended = self.by_name[key[1]] = Ended(key[1], self.engine.epoch)
            ended.next_id, ended.ended_at, ended.saved = next_id, ended_at, True
        for key, (_, hashes, next_ids) in buckets.items():
            bucket = self.buckets[key[1]] = Bucket(key[1], self.engine.epoch)
            bucket.hashes.frombytes(hashes)
            bucket.next_ids.frombytes(next_ids)
            bucket.saved = True


def hash_of(name: str) -> int:
    """Return 64 bits that depend on nothing but the name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
