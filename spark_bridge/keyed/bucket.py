"""A bucket: the queries of its keys, taken from one blob and put into one blob.

A batch comes in any order: Spark keeps none within a group, so events are sorted by sequence id (and, on event time,
wait until the watermark has passed them). Only keys to which something happens are run; the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from checkpoint.codec import decode, encode
from reliable_rx.errors import CheckpointRefused
from reliable_rx.rows import Signature
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.general import General
from spark_bridge.keyed.query import KeyedQuery
from spark_bridge.keyed.straight import Step, Straight

MAGIC, VERSION = b"RRXK", 1
DIGEST_BYTES = 16
HEAD_BYTES = len(MAGIC) + 2 + 2 * DIGEST_BYTES
Waiting = tuple[float, int, str, Any]
"""An event whose time has not come: its time, its sequence id, its source, its value."""


@dataclass
class Arrivals:
    """The events of a batch as columns; *sources* may be left out where there is one, *times* off event time."""

    keys: Sequence[Hashable]
    seqs: Sequence[int]
    values: Sequence[Any]
    sources: Sequence[str] | None = None
    times: Sequence[float] | None = None


class Bucket:
    """The keys of one bucket.

    >>> import reliable_rx as rx
    >>> query = KeyedQuery(rx.source("n").group_by(lambda n: n % 2).flat_map(lambda g: g.scan(lambda a, b: a + b)))
    >>> bucket = Bucket(query)
    >>> list(bucket.take(Arrivals([1, 0, 1], [12, 11, 10], [5, 4, 3]), time=0.0).rows())
    [(1, 0, 'next', 3), (1, 1, 'next', 8), (0, 0, 'next', 4)]
    >>> list(Bucket(query, bucket.blob()).take(Arrivals([1], [13], [1]), time=1.0).rows())
    [(1, 2, 'next', 9)]

    *State*: one row per key that has been seen; a query that has ended is a number. *Raises* `CheckpointRefused` for a
    blob of another query or format, or one that is damaged.
    """

    def __init__(self, query: KeyedQuery, blob: bytes | None = None) -> None:
        self.query = query
        self.clock = -inf
        self.rows: dict[Hashable, Any] = {}
        self.dues: dict[Hashable, float] = {}
        self.waiting: dict[Hashable, list[Waiting]] = {}
        self.late = 0
        self.signatures: dict[int, Signature] = {}
        if blob is not None:
            content = opened(blob, query.identity)
            self.clock, self.rows, self.dues, self.waiting, self.late, self.signatures = content
        chain = query.chain
        self.straight = None if chain is None else Straight(chain, query.key)
        self.general = General(query, self.signatures) if chain is None else None
        if self.straight is not None and self.signatures.setdefault(0, self.straight.shape) != self.straight.shape:
            raise CheckpointRefused(
                "the operators of this version keep other state than those that wrote the bucket: end with the version "
                "that wrote it and begin anew from an evaluator's savepoint",
                what="operator state",
                where="bucket",
            )

    def blob(self) -> bytes:
        """Return the bucket as bytes: a format version, the query it is of, a checksum, and the rows."""
        content = encode((self.clock, self.rows, self.dues, self.waiting, self.late, self.signatures))
        return head(self.query.identity, content) + content

    def next_wake(self) -> float | None:
        """Return the time at which something will be due if no event comes."""
        first = min(self.dues.values(), default=inf)
        waits = min((entries[0][0] for entries in self.waiting.values()), default=inf)
        return None if first == waits == inf else min(first, waits)

    def take(self, arrivals: Arrivals, *, time: float, ended: bool = False) -> Emitted:
        """Take a batch: *time* is that of the batch, or on event time the watermark; *ended* if no other will come."""
        out = Emitted()
        self.clock = max(self.clock, time)
        work = self.by_time(arrivals, ended=ended) if self.query.event_time else self.by_key(arrivals)
        idle = (key for key, due in self.dues.items() if due <= self.clock and key not in work)
        for key in [*idle] if not ended else [key for key in self.rows if key not in work]:
            work[key] = ()
        run = self.run_straight if self.straight is not None else self.run_general
        run(work, out, ended=ended)
        return out

    def run_straight(self, work: dict[Hashable, Sequence[Step]], out: Emitted, *, ended: bool) -> None:
        rows, run = self.rows, self.straight.run  # type: ignore[union-attr]
        for key, steps in work.items():
            rows[key] = run(key, rows.get(key), steps, out, ended=ended)

    def run_general(self, work: dict[Hashable, Sequence[Step]], out: Emitted, *, ended: bool) -> None:
        rows, run, until = self.rows, self.general.run, self.clock  # type: ignore[union-attr]
        for key, steps in work.items():
            rows[key], due = run(key, rows.get(key), steps, out, until=until, ended=ended)
            if due is not None:
                self.dues[key] = due
            else:
                self.dues.pop(key, None)

    # -- what is there to be done

    def by_key(self, arrivals: Arrivals) -> dict[Hashable, Sequence[Step]]:
        """Return the events of each key in the order of their sequence ids, all at the time of the batch."""
        order = in_order(arrivals.seqs)
        found: dict[Hashable, list[Any]] = {}
        entries = (
            arrivals.values if arrivals.sources is None else list(zip(arrivals.sources, arrivals.values, strict=True))
        )
        keys = arrivals.keys
        pairs = zip(keys, entries, strict=True) if order is None else ((keys[n], entries[n]) for n in order)
        for key, entry in pairs:
            if key in found:
                found[key].append(entry)
            else:
                found[key] = [entry]
        clock = self.clock
        if arrivals.sources is None:
            (source,) = self.query.sources
            return {key: ((clock, source, values),) for key, values in found.items()}
        return {
            key: [(clock, source, [value for _, value in run]) for source, run in groupby(entries, key=itemgetter(0))]
            for key, entries in found.items()
        }

    def by_time(self, arrivals: Arrivals, *, ended: bool) -> dict[Hashable, Sequence[Step]]:
        """Let events wait until the watermark has passed them, and return those it has, in the order of their time."""
        times = arrivals.times or ()
        sources = arrivals.sources or [self.query.sources[0]] * len(arrivals.keys)
        fresh: dict[Hashable, None] = {}
        for key, time, seq, source, value in zip(
            arrivals.keys, times, arrivals.seqs, sources, arrivals.values, strict=True
        ):
            if time < self.clock:
                self.late += 1
                continue
            self.waiting.setdefault(key, []).append((time, seq, source, value))
            fresh[key] = None
        for key in fresh:
            self.waiting[key].sort(key=itemgetter(0, 2, 1))
        work: dict[Hashable, Sequence[Step]] = {}
        until = inf if ended else self.clock
        for key in [key for key, entries in self.waiting.items() if entries[0][0] < until]:
            entries = self.waiting.pop(key)
            ready = [entry for entry in entries if entry[0] < until]
            if len(ready) < len(entries):
                self.waiting[key] = entries[len(ready) :]
            work[key] = [(time, source, (value,)) for time, _, source, value in ready]
        return work


def in_order(seqs: Sequence[int]) -> list[int] | None:
    """Return the order of sequence ids; None if they are in it."""
    ordered = sorted(seqs)
    if ordered == list(seqs):
        return None
    return sorted(range(len(seqs)), key=seqs.__getitem__)


def head(identity: str, content: bytes) -> bytes:
    return MAGIC + VERSION.to_bytes(2, "big") + short(identity.encode()) + short(content)


def short(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def opened(blob: bytes, identity: str) -> Any:
    """Return the content of a blob. *Raises* `CheckpointRefused` before anything of it is read."""
    blob = bytes(blob)
    content = blob[HEAD_BYTES:]
    if blob[: len(MAGIC)] != MAGIC or len(blob) < HEAD_BYTES:
        raise CheckpointRefused("the state of a bucket does not begin as one does", what="format", where="bucket")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 2], "big")
    if version != VERSION:
        raise CheckpointRefused(f"the bucket has format {version}, not {VERSION}", what="version", where="bucket")
    of, checksum = (
        blob[HEAD_BYTES - 2 * DIGEST_BYTES : HEAD_BYTES - DIGEST_BYTES],
        blob[HEAD_BYTES - DIGEST_BYTES : HEAD_BYTES],
    )
    if of != short(identity.encode()):
        raise CheckpointRefused(
            "the checkpoint has the state of another query: give the edited query a checkpoint of its own, or give it "
            "the state of the old one through a savepoint",
            what="query",
            where="bucket",
        )
    if checksum != short(content):
        raise CheckpointRefused("the state of a bucket is damaged", what="checksum", where="bucket")
    return decode(content)
