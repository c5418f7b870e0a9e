"""What a repair does about stored outputs that are lost: what stands for them has their ids, and the rest can be read.

A start reads no output that is stored, and a stream of which one is missing or damaged can be read by nobody, so
whoever asks for it hears of that long after. A repair looks at all of them. Rejected: giving up what lies before (it
is whole, and a sink may lack it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from checkpoint.format.codec import decode_data
from checkpoint.format.salvage import Unreadable
from checkpoint.store import StoreReader
from hosting.edges.stored_outputs import cut
from hosting.edges.streams import Streams
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.turns import Output
from reliable_rx.errors import CheckpointRefused

Span = tuple[int, int]
"""The first, and the one behind the last."""


class Emitters(Protocol):
    """Hosted queries and the next ids of their streams, as an engine has them."""

    @property
    def standing(self) -> Mapping[str, Standing]: ...
    def emitted(self, name: str, /) -> int: ...


@dataclass(frozen=True, slots=True)
class StoredOutputs:
    """The outputs in *store* of an evaluator that has started, with its *streams* and *queries*."""

    store: StoreReader
    streams: Streams
    queries: Emitters

    def lost(self, *, everywhere: bool = False) -> dict[str, list[Span]]:
        """Return which ids the store has lost of its streams, up to where its checkpoint is.

        What is behind that comes again from the journal. With *everywhere* it is looked at too.
        """
        found: dict[str, list[Span]] = {}
        for name in self.store.streams():
            stream = self.streams.get(name)
            if stream is None and not self.queries.emitted(name):
                continue  # there never was one: a row's name is damaged, and the ids are missing where they belong
            stored = self.queries.emitted(name) if stream is None else stream.stored
            lost = self._gaps(name, stored)
            if not everywhere:
                lost = [(first, min(behind, stored)) for first, behind in lost if first < stored]
            if lost:
                found[name] = lost
        return found

    def _gaps(self, name: str, stored: int) -> list[Span]:
        lost, expected = list[Span](), None
        for first, count, payload in self.store.kept_outputs(name):
            if expected is not None and first > expected:
                note(lost, expected, first)
            expected = first + count
            if payload is None:
                note(lost, first, expected)
        if expected is not None and expected < stored:
            note(lost, expected, stored)
        return lost

    def check(self) -> None:
        """*Raises* `CheckpointRefused` if outputs that are stored are missing or damaged."""
        for name, lost in self.lost(everywhere=True).items():
            what = f"ids {lost[0][0]:,} to {lost[0][1] - 1:,} of stream {name!r} are lost"
            raise CheckpointRefused(f"{what}; restore a copy of the store", what=what, where=name)

    def fill(self) -> None:
        """Put what stands for lost outputs in their places; the next checkpoint stores it."""
        for name, lost in self.lost().items():
            stream = self.streams.get(name)
            if stream is None:
                stream = self.streams.open(name, self.queries.emitted(name))
            filled = [self._stand_ins(name, *each) for each in lost]
            whole = self._whole(name, stream.stored)
            stream.mend(sorted([*whole, *filled], key=lambda each: each.first), lost[0][0])
            self.streams.changed[name] = None

    def _whole(self, name: str, stored: int) -> list[Output]:
        whole = list[Output]()
        for first, count, payload in self.store.kept_outputs(name):
            if payload is not None and first < stored:
                (values, ended, error), _ = decode_data(payload)
                whole.append(cut(Output(name, first, values, ended, error), min(first + count, stored)))
        return whole

    def _stand_ins(self, name: str, first: int, behind: int) -> Output:
        """Return what stands for lost ids; the end of a query that has ended is known."""
        hosted = self.queries.standing.get(name)
        ended = hosted is not None and hosted.status != RUNNING and behind == hosted.emitted
        values = [Unreadable(f"value of {name!r}", "the store has lost it")] * (behind - first - ended)
        return Output(name, first, values, ended, hosted.error if hosted is not None and ended else None)


def note(lost: list[Span], first: int, behind: int) -> None:
    """Add ids to those that are *lost*, in order."""
    if lost and lost[-1][1] >= first:
        first, _ = lost.pop()
    lost.append((first, behind))
