"""The streams of another group's section as a source: each partition's evaluator has stored its own, and is read live.

A stream of a section is spread as the section is: partition *p* of this source is what the evaluator of partition *p*
has put into its store, with the ids it gave and its terminal notification. Who splits, merges or waits upstream does so
here. What can be seen is what the writer's checkpoints hold, so it comes as late as they are taken.

**Hand-overs.** A partition's store moves from epoch to epoch, and an owner that was superseded may still write into the
old one what nobody must see. So the newest epoch is asked before and after each read, and what was read counts only if
it was the same: whoever takes over marks the old store first and copies it then, hence whatever was there before the
mark is in the copy. Otherwise it is discarded, and read again from the newer store, where the same ids hold the same.

**Keeping.** The writer must not forget what the reader still needs, and the reader cannot write into a store it does
not own. It need not: its group commits, behind each of its checkpoints and fenced by its own leases, up to where it has
come, and the writer's agents read that (`hosting.partitioned.readers`). So `acknowledge` does nothing here. Rejected: a
table of acknowledgements beside the stores (a reader that was superseded, and does not know it, would acknowledge what
its successor still has to read; the offset store refuses it), and asking the writer's process (it may be anywhere).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from checkpoint.store import StoreReader
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.words import Epoch, Partition, Shard
from hosting.sources.polling import PATIENCE_S, Patience
from hosting.sources.stored import is_ended, read_stored
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, SourceFailed, StoreUnavailable
from reliable_rx.names import check_name
from reliable_rx.reliable import Batch, Listing

T = TypeVar("T")
TRIES_MAX = 5


class GroupStreamSource:
    """Read the stream *name* of every partition in *shards* out of *stores*.

    *shards* gives the partitions of the section that writes it, as `hosting.partitioned.sections.Section.shards` does;
    it must list a partition until its stream has been read. A store that cannot be opened for *patience_s* is an error;
    until then it is being taken over. The nodes of the group that writes are told of the one that reads with a
    `hosting.partitioned.readers.FarReader`, or nothing is kept for it. Methods may be called from any thread.

    *Raises* `PositionUnavailable` where events were forgotten that had not been read, `StoreUnavailable`; `ValueError`
    for a *name* that is none.
    """

    def __init__(
        self,
        stores: PartitionStores,
        shards: Callable[[], Sequence[Shard]],
        name: str,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.stores = stores
        self.name = check_name("stream", name)
        self.patience_s = patience_s
        self._shards = shards

    def __repr__(self) -> str:
        return f"GroupStreamSource({self.name!r})"

    def numbering(self) -> Mapping[str, Any]:
        """Return whose ids it counts by."""
        return {"stream": self.name}

    def partitions(self) -> Sequence[str]:
        return [shard.partition.name for shard in self._shards()]

    def listing(self) -> Sequence[Listing]:
        """List what the section upstream lists."""
        return [_listing(shard) for shard in self._shards()]

    def open(self, partition: str, at: int, /) -> GroupStreamReader:
        return GroupStreamReader(self, self._upstream(partition), at)

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return the first id that the newest store holds, and the one behind the last value."""
        with closing(self.open(partition, 0)) as reader:
            return reader.bounds()

    def _upstream(self, partition: str) -> Partition:
        found = next((shard.partition for shard in self._shards() if shard.partition.name == partition), None)
        if found is None:
            message = f"the section that writes {self.name!r} has no partition {partition!r}"
            raise SourceFailed(message, source=self.name, partition=partition)
        return found


class GroupStreamReader:
    """Reads what the evaluators of one partition store, whichever node they are on."""

    sequenced_end = True

    def __init__(self, source: GroupStreamSource, partition: Partition, at: int) -> None:
        self._source = source
        self._partition = partition
        self._position = at
        self._over: Batch | None = None
        self._epoch = Epoch(0)
        self._store: StoreReader | None = None
        self._patience = Patience(source.patience_s)

    def fetch(self, count_max: int, /) -> Batch:
        if self._over is not None:
            return self._over
        batch = self._verified(lambda store: self._read(store, count_max)) or Batch(self._position, ())
        self._position = batch.next
        if batch.ended:
            self._over = Batch(batch.next, (), ended=True, error=batch.error)
        return batch

    def bounds(self) -> tuple[int, int]:
        """Return the first id there is, and the one behind the last value."""
        return self._verified(self._bounds) or (0, 0)

    def acknowledge(self, n: int, /) -> None:
        """Do nothing: the writer reads in the offsets of our group how far we have come."""

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _verified(self, read: Callable[[StoreReader], T]) -> T | None:
        """Return what *read* finds in the newest store, if it was that all the while; None if there is none."""
        newest = self._source.stores.newest
        for _ in range(TRIES_MAX):
            epoch = newest(self._partition)
            if not epoch:
                return None
            found, error = self._attempt(read, epoch)
            if newest(self._partition) != epoch:
                self.close()
            elif error is None:
                return found
            else:
                self._bear(error)
                return None
        return None

    def _attempt(self, read: Callable[[StoreReader], T], epoch: Epoch) -> tuple[T | None, Exception | None]:
        if epoch != self._epoch:
            self.close()
        try:
            if self._store is None:
                self._store, self._epoch = self._source.stores.look(self._partition), epoch
            found = None if self._store is None else read(self._store)
        except (StoreUnavailable, CheckpointRefused, PositionUnavailable) as error:
            self.close()
            return None, error
        self._patience.over()
        return found, None

    def _bear(self, error: Exception) -> None:
        """Raise *error*, unless the store is only being taken over."""
        if not isinstance(error, StoreUnavailable):
            raise error
        self._patience.bear(error)

    def _read(self, store: StoreReader, count_max: int) -> Batch:
        position, name = self._position, self._source.name
        bounds = store.bounds(name)
        if bounds is None:
            return Batch(position, ())
        first, end = bounds
        if not first <= position <= end:
            message = (
                f"the store of {self._partition} holds ids {first:,} to {end:,} of stream {name!r}, not {position:,}: "
                f"the group that writes it keeps what a reader needs only if it is declared to it (FarReader)"
            )
            raise PositionUnavailable(message, wanted=position, first=first, end=end)
        return read_stored(store, name, position, min(end, position + count_max))

    def _bounds(self, store: StoreReader) -> tuple[int, int]:
        first, end = store.bounds(self._source.name) or (0, 0)
        return first, end - is_ended(store, self._source.name, end)


def _listing(shard: Shard) -> Listing:
    parents = tuple(parent.name for parent in shard.parents)
    return Listing(shard.partition.name, parents, base=shard.base, room=shard.room, weight=shard.weight)
