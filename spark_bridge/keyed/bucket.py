"""A bucket: the queries of its keys, taken from one blob and put into one blob.

A batch comes in any order: Spark keeps none within a group, so events are sorted by sequence id (and, on event time,
wait until the watermark has passed them). Only keys to which something happens are run; the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from reliable_rx.interrupts import let_through
from spark_bridge.keyed import editing
from spark_bridge.keyed.blob import Content, opened, sealed
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.engine_runner import NAME, General
from spark_bridge.keyed.forms import flattened, revived
from spark_bridge.keyed.linear_runner import Step, Straight
from spark_bridge.keyed.query import KeyedQuery
from spark_bridge.keyed.seals import PUBLIC, Seals
from spark_bridge.keyed.unloadable import KeySpoilt, spoilt_in


@dataclass
class Arrivals:
    """The events of a batch as columns; *sources* may be left out where there is one, *times* off event time."""

    keys: list[Hashable]
    seqs: list[int]
    values: list[Any]
    sources: list[str] | None = None
    times: list[float] | None = None


class Bucket:
    """The keys of one bucket.

    >>> import reliable_rx as rx
    >>> query = KeyedQuery(rx.source("n").group_by(lambda n: n % 2).flat_map(lambda g: g.scan(lambda a, b: a + b)))
    >>> bucket = Bucket(query)
    >>> list(bucket.take(Arrivals([1, 0, 1], [12, 11, 10], [5, 4, 3]), time=0.0).rows())
    [(1, 0, 'next', 3), (1, 1, 'next', 8), (0, 0, 'next', 4)]
    >>> list(Bucket(query, bucket.blob()).take(Arrivals([1], [13], [1]), time=1.0).rows())
    [(1, 2, 'next', 9)]

    *placed* says what else must be as it was when the bucket was begun. An edited query goes on with what it can keep.
    *seals* has the key of the blob.

    *State*: one row per key that has been seen; a query that has ended is a number. *Raises* `CheckpointRefused` for a
    blob of another query or format, or one that is damaged.
    """

    def __init__(
        self,
        query: KeyedQuery,
        blob: bytes | None = None,
        *,
        placed: editing.Manner | None = None,
        seals: Seals = PUBLIC,
    ) -> None:
        self.query, self.seals = query, seals
        manner = {**query.manner, **(placed or {})}
        content, same, lost = (Content(), True, ()) if blob is None else opened(blob, query.identity, seals)
        editing.check_manner(content.manner, manner, where="bucket")
        self.content = content
        content.manner = manner
        self.rows, self.dues, self.waiting = content.rows, content.dues, content.waiting
        self.untold: dict[Hashable, KeySpoilt] = {}
        """Keys that have ended since their state cannot be read, and whose row is still to come."""
        for key, error in [*spoilt_in(content, lost)]:
            self.spoil(key, error)
        self.straight = None if query.chain is None else Straight(query.chain, query.key)
        edited = blob is not None and not (same and content.shape == self.shape)
        known = {} if edited else content.signatures
        self.general = General(query, known) if self.straight is None else None
        if edited:
            self.edit(content)
        content.shape = self.shape

    @property
    def shape(self) -> Any:
        return None if self.straight is None else self.straight.shape

    @property
    def clock(self) -> float:
        return self.content.clock

    @property
    def late(self) -> int:
        """How many events came behind the watermark and were left out."""
        return self.content.late

    def blob(self, out: Emitted | None = None) -> bytes:
        """Return the bucket as bytes; a key whose state cannot be stored ends in *out*.

        *Raises* `QueryRefused` for such a key if there is no *out*, and so for one whose state could not be read.
        """
        if out is not None:
            self.tell(out)
        for error in self.untold.values():
            raise error
        try:
            return sealed(self.content, self.query.identity, self.seals)
        except BaseException as error:  # pickling calls what the author of a state wrote
            let_through(error)
            unstorable = [] if self.straight is None else self.straight.unstorable(self.rows)
            if not unstorable:
                raise
        for key, refused in unstorable:
            if out is None:
                raise refused
            self.rows[key] = self.straight.give_up(key, self.rows[key], refused, out)  # type: ignore[union-attr]
        return sealed(self.content, self.query.identity, self.seals)

    def next_wake(self) -> float | None:
        """Return the time at which something will be due if no event comes."""
        first = min(self.dues.values(), default=inf)
        waits = min((entries[0][0] for entries in self.waiting.values()), default=inf)
        return None if first == waits == inf else min(first, waits)

    # -- a batch

    def take(self, arrivals: Arrivals, *, time: float, ended: bool = False) -> Emitted:
        """Take a batch: *time* is that of the batch, or on event time the watermark; *ended* if no other will come."""
        out = Emitted()
        self.tell(out)
        self.content.clock = max(self.clock, time)
        work = self.by_time(arrivals, ended=ended) if self.query.event_time else self.by_key(arrivals)
        idle = (key for key, due in self.dues.items() if due <= self.clock and key not in work)
        for key in [*idle] if not ended else [key for key in self.rows if key not in work]:
            work[key] = ()
        runner = self.general if self.straight is None else self.straight
        runner.first_id = self.content.first_id  # type: ignore[union-attr]
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
            self.wake(key, due)

    def wake(self, key: Hashable, due: float | None) -> None:
        if due is not None:
            self.dues[key] = due
        else:
            self.dues.pop(key, None)

    # -- keys that cannot be had again

    def spoil(self, key: Hashable, error: KeySpoilt) -> None:
        """End the query of *key*, of which the next batch tells."""
        self.rows[key] = -error.fields["emitted"] - 1
        self.waiting.pop(key, None)
        self.wake(key, None)
        self.untold[key] = error

    def tell(self, out: Emitted) -> None:
        """Add the row of each key that has ended since its state cannot be read."""
        for key, error in self.untold.items():
            out.end(key, error.fields["emitted"], error)
        self.untold.clear()

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
                self.content.late += 1
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

    # -- the query before

    def edit(self, content: Content) -> None:
        """Give the rows of the query before to this one."""
        shape, before = content.shape, content.signatures
        signatures = list(before.values()) if shape is None else [shape]
        editing.check_edit(signatures, self.query.signatures, inside=not self.query.per_key, where="bucket")
        general = self.general or General(self.query, {})
        general.before, content.signatures = before, general.signatures
        for key, row in content.rows.items():
            if type(row) is not int or (row >= 0 and shape is not None):
                self.query.key.key = key
                try:
                    content.rows[key] = self.edited(key, row, shape, general)
                except KeySpoilt as error:
                    self.spoil(key, error)
        general.before = {}

    def edited(self, key: Hashable, row: Any, shape: Any, general: General) -> Any:
        if self.straight is not None and shape is not None:
            return self.straight.refit(row, shape)
        engine = general.load(row) if shape is None else revived(general, key, row, shape, self.clock)
        if self.straight is not None:
            self.wake(key, None)
            return flattened(self.straight, engine.standing[NAME], key)
        self.wake(key, engine.timers.next_due())
        return general.saved(engine)


def in_order(seqs: Sequence[int]) -> list[int] | None:
    """Return the order of sequence ids; None if they are in it."""
    ordered = sorted(seqs)
    if ordered == list(seqs):
        return None
    return sorted(range(len(seqs)), key=seqs.__getitem__)
