"""What a store promises, and the records that go in and out of it.

One store holds everything one evaluator must not lose: checkpoints by generation, the replay buffers of its streams,
its journal, the logs of pushed inputs, and the positions of durable subscribers. A checkpoint and the outputs that
belong to it are one transaction; the journal and the logs are others, because they are written by other threads at
other times and must not wait. Rejected: one interface per part (a generation and its outputs must commit together), a
key-value store (no transaction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

from checkpoint.format.envelope import KeyRing
from checkpoint.sealed_log.journal import Journal
from checkpoint.sealed_log.log import Log

Kind = Literal["full", "differential"]
Segment = tuple[int, int, bytes]
"""Outputs ``first_id .. first_id + count - 1`` of one stream, encoded."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State as of *turn*. A differential builds on the generation that was committed (or recovered) before it."""

    generation: int
    kind: Kind
    turn: int
    meta: bytes
    chunks: Sequence[bytes]
    rows: int


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What is known of a stored generation without reading its state. *committed_at* is Unix time in seconds.

    *meta* is that of its `Checkpoint`.
    """

    generation: int
    kind: Kind
    turn: int
    meta: bytes = field(repr=False)
    rows: int
    bytes: int
    committed_at: float


@dataclass(frozen=True, slots=True)
class Recovered:
    """The newest generation that could be read whole.

    *chunks* are those of the last full checkpoint, then those of each differential after it, in order: later rows
    replace earlier ones. *fallbacks* has one sentence for every newer generation that had to be given up.
    """

    generation: int
    turn: int
    meta: bytes
    chunks: Sequence[bytes]
    fallbacks: tuple[str, ...] = ()


class StoreReader(Protocol):
    """The part of a store that changes nothing, also for a process that does not own it."""

    @property
    def owner(self) -> str:
        """The random id the store got when it was first opened."""
        ...

    @property
    def keys(self) -> KeyRing: ...
    @property
    def journal(self) -> Journal: ...

    def recover(self, *, strict: bool = False) -> Recovered | None:
        """Return the newest generation whose whole chain verifies, or None if nothing was ever committed.

        *Raises* `CheckpointRefused` if generations exist and none can be read, or with *strict* if the newest cannot.
        """
        ...

    def generations(self) -> list[GenerationInfo]:
        """List the stored generations whose manifests can be read, oldest first."""
        ...

    def streams(self) -> list[str]:
        """Name the streams that have stored outputs, sorted."""
        ...

    def bounds(self, stream: str) -> tuple[int, int] | None:
        """Return the first stored id of *stream* and the one behind the last, or None if nothing is stored."""
        ...

    def size(self, stream: str) -> int:
        """Return how many bytes are stored of *stream*."""
        ...

    def outputs(self, stream: str, start: int) -> Iterator[Segment]:
        """Give the segments of *stream* from the one that holds id *start* on (or the first one left).

        The count may be less than the payload holds: ids that a later segment repeats belong to the later one.
        *Raises* `CheckpointRefused` for a segment that is damaged or missing, `PositionUnavailable` if it was trimmed
        meanwhile.
        """
        ...

    def kept_outputs(self, stream: str) -> Iterator[tuple[int, int, bytes | None]]:
        """Give all segments of *stream*, each by itself, also behind a gap; None for the payload of a damaged one."""
        ...

    def acknowledged(self, stream: str) -> dict[str, int]:
        """Return what each durable subscriber of *stream* has acknowledged last, -1 for nothing yet."""

    def subscribed(self) -> list[str]:
        """Name the streams that have durable subscribers, sorted."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Store(StoreReader, Protocol):
    """A store that one process owns. Journal, logs, commits and reads may each be used from a thread of their own."""

    def commit(
        self,
        checkpoint: Checkpoint,
        *,
        outputs: Mapping[str, Sequence[Segment]] = {},
        kept_from: Mapping[str, int] = {},
    ) -> GenerationInfo:
        """Write a generation, the outputs that go with it, and forget what is no longer needed, in one transaction.

        *outputs* are appended; stored segments of the stream that begin at or after a new segment's first id are
        replaced. *kept_from* forgets the segments wholly below that id. Generations that the last K (``retain``) need
        stay.

        *Raises* `StoreUnavailable` if the disk fails, and then nothing has changed: commit the same generation again
        later.
        """
        ...

    def check_owned(self) -> None:
        """Return if a write would be this owner's and found again; called now and then by one who has none to do.

        *Raises* `StoreUnavailable` if the store cannot be reached, `StoreOwned` or `LeaseLost` if it is another's.
        """
        ...

    def begin_anew(self) -> None:
        """Count no stored generation, none of which can be read: the next one replaces them. For a repair."""

    def log(self, name: str) -> Log:
        """Return the durable log of that name, empty when new."""
        ...

    def acknowledge(self, stream: str, subscriber: str, n: int) -> None:
        """Note durably that *subscriber* has *n* and all before; it never goes back. *Raises* `StoreUnavailable`."""

    def release(self, stream: str, subscriber: str) -> None:
        """Forget a durable subscriber, and with it its hold on *stream*. *Raises* `StoreUnavailable`."""
