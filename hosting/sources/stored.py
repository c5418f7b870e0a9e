"""A stream that an evaluator has left in its store, as the source of another evaluator, in another process, later.

A store has one owner at a time, so the two run one after the other: the writer stops (or dies), the reader opens the
writer's store, takes what is there, and acknowledges in it what its own checkpoints cover. The writer keeps for it what
it has not acknowledged. What is visible is what the writer's checkpoints hold; the rest of a killed writer's outputs
come, under the same ids, when it has run again. Evaluators in one process use `hosting.edges.egress.StreamSource`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoint.store import Store, StoreReader
from hosting.admission.constructor_types import checks_kinds
from hosting.edges.egress import joined
from hosting.edges.replay_buffer import part
from hosting.edges.stored_outputs import stored_segments
from hosting.engine.turns import Output
from hosting.sources.pushed import LogUnavailable
from reliable_rx.errors import PositionUnavailable, StoreUnavailable
from reliable_rx.names import check_name
from reliable_rx.reliable import Batch


class StoredStreamSource:
    """Read the stream *name* of the evaluator that left *store*, as *subscriber*, who is remembered there.

    The store stays open for as long as its opener keeps it. The stream does not end for a reader who has taken all,
    unless its terminal notification is there: run ``until=source.is_drained``.
    """

    @checks_kinds()
    def __init__(self, store: Store, name: str, *, subscriber: str) -> None:
        self.store = store
        self.name = check_name("stream", name)
        self.subscriber = check_name("subscriber", subscriber)
        self.readers: list[StoredStreamReader] = []

    def numbering(self) -> Mapping[str, Any]:
        """Return whose ids it counts by."""
        return {"stream": self.name}

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, at: int, /) -> StoredStreamReader:
        first, end = self.store.bounds(self.name) or (0, 0)
        if not first <= at <= end:
            raise PositionUnavailable(
                f"the store holds ids {first:,} to {end:,} of stream {self.name!r}, not {at:,}: a subscriber is kept "
                f"for from its first visit on; visit, or call store.acknowledge(stream, subscriber, -1), "
                f"before more is written than is retained",
                wanted=at,
                first=first,
                end=end,
            )
        self.store.acknowledge(self.name, self.subscriber, at - 1)
        reader = StoredStreamReader(self, at, end)
        self.readers.append(reader)
        return reader

    def is_drained(self) -> bool:
        """Whether everything that the store holds of the stream has been read."""
        return all(reader.position >= reader.end for reader in self.readers)


class StoredStreamReader:
    """Reads the stored segments of one stream."""

    sequenced_end = True

    def __init__(self, source: StoredStreamSource, at: int, end: int) -> None:
        self.source = source
        self.position = at
        self.end = end

    def fetch(self, count_max: int, /) -> Batch:
        if self.position >= self.end:
            return Batch(self.position, ())
        end = min(self.end, self.position + count_max)
        try:
            batch = read_stored(self.source.store, self.source.name, self.position, end)
        except StoreUnavailable as error:
            raise LogUnavailable(error.message, **error.fields) from error
        self.position = batch.next + batch.ended
        return batch

    def acknowledge(self, n: int, /) -> None:
        self.source.store.acknowledge(self.source.name, self.source.subscriber, n)

    def close(self) -> None:
        """The store belongs to whoever opened it."""


def read_stored(store: StoreReader, name: str, start: int, end: int) -> Batch:
    """Return what *store* holds of the stream *name* from id *start* on and below *end*."""
    found: list[Output] = []
    for segment in stored_segments(store, name, start):
        if segment.first >= end:
            break
        piece = part(segment, max(start, segment.first), end)
        if piece is not None:
            found.append(piece)
    return joined(start, iter(found))


def is_ended(store: StoreReader, name: str, end: int) -> bool:
    """Whether the last id that *store* holds, the one before *end*, is a terminal notification."""
    return end > 0 and any(segment.ended for segment in stored_segments(store, name, end - 1))
