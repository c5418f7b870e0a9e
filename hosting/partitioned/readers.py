"""Who else reads a group's streams, and how far they have come: the writer's side of `GroupStreamSource`.

A stream is kept for those who were declared to the group that writes it, from its first event on, whether they have
ever come or not. How far a reader has come stands in the offset store of its own group: it commits there behind its
checkpoints, and what it has committed it will never ask for again. The writer's agents read that now and then, and let
their streams forget. A reader that lags by more than a stream may hold stops the turns of the writer, as a slow sink
does; what is unknown (an offset store that cannot be read) is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkpoint.offsets.store import OffsetStore
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.reports.log import LOG
from reliable_rx.errors import OffsetsLoading, OffsetsMoved, StoreUnavailable
from reliable_rx.names import check_name, query_of


@dataclass(frozen=True, slots=True)
class FarReader:
    """The group *group* reads the stream *stream* as *source*, which is how its offsets name it.

    That is the source's name in its app, with the section before it if the section has several sources
    (`hosting.partitioned.keys.key_of`). *Raises* `ValueError` for what is no name.
    """

    group: str
    source: str
    stream: str

    def __post_init__(self) -> None:
        check_name("group", self.group)
        check_name("stream", self.stream)
        check_name("holder", self.holder)

    @property
    def holder(self) -> str:
        """The name under which the stream is held."""
        return f"group {self.group}/{self.source}"


class Readers:
    """The far readers of a group's streams; *offsets* is where they commit. Methods may be called from any thread."""

    def __init__(self, offsets: OffsetStore, readers: Sequence[FarReader]) -> None:
        self._offsets = offsets
        self._readers = tuple(readers)

    def hold(self, evaluator: QueryEvaluator) -> None:
        """Keep all that *evaluator* will emit; to be called before it starts, or a replay could forget something."""
        for each in self._readers:
            if _writes(evaluator, each.stream):
                evaluator.stream(each.stream).hold(each.holder, 0)

    def tell(self, evaluator: QueryEvaluator, partition: str) -> None:
        """Let the running *evaluator* of *partition* forget what the readers have committed."""
        for each in self._readers:
            if _writes(evaluator, each.stream):
                position = self._committed(each, partition)
                if position is None:
                    position = _first(evaluator, each.stream)
                evaluator.stream(each.stream).acknowledge(each.holder, position - 1)
                evaluator.wake()

    def _committed(self, reader: FarReader, partition: str) -> int | None:
        key = (reader.source, partition)
        try:
            found = self._offsets.fetch(reader.group, [key])
        except (OffsetsLoading, OffsetsMoved, StoreUnavailable) as error:
            LOG.warning("streams are kept for group %s, whose offsets cannot be read now: %s", reader.group, error)
            return None
        return found[key].position if key in found else None


def _writes(evaluator: QueryEvaluator, stream: str) -> bool:
    query = query_of(stream)
    return query in evaluator.queries() or (query != stream and query in evaluator.intake.sources)


def _first(evaluator: QueryEvaluator, stream: str) -> int:
    """Return the oldest id that a reader can find who was declared only now."""
    bounds = evaluator.store.bounds(stream)
    return 0 if bounds is None else bounds[0]
