"""Partitions that the engine has not heard of yet, and the turns that tell of them.

Which partitions there are is a turn (`hosting.engine.turns.Appear`), so that a replay knows them however many there are
now. Those that come when their source has ended are not told of before a query begins that reads it: `late_partitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from hosting.edges.late_partitions import LatePartitions
from hosting.edges.partition import Partition
from hosting.edges.start_positions import Starts
from hosting.engine.lineage import Lineage
from hosting.engine.turns import Appear
from reliable_rx.reliable import Source


class Appearing:
    """The part of an intake by which partitions become known to the engine."""

    sources: dict[str, Source]
    partitions: dict[tuple[str, str], Partition]
    lineages: dict[str, Lineage]
    starts: Starts
    unknown: dict[tuple[str, str], None]
    """Partitions that the engine has not heard of yet, and is to hear of next."""
    late: LatePartitions
    absent: dict[tuple[str, str], int]
    look_again: bool
    _begin: Callable[..., None]
    _open_ready: Callable[[], None]

    def awaited(self, positions: Collection[tuple[str, str]]) -> set[str]:
        """Return the sources whose first partition may still appear behind *positions*: they have not ended."""
        return self.lineages.keys() - {source for source, _ in positions}

    def appearing(self) -> set[str]:
        """Return the sources whose first partitions are there, and of which no turn has told yet."""
        return self.starts.beginning & {source for source, _ in self.unknown}

    def begin(self, source: str, positions: Mapping[str, int]) -> None:
        """Know partitions of a source from now on, to be read from these positions on; it begins no more."""
        self._know(source, positions)
        self._open_ready()

    def _know(self, source: str, positions: Mapping[str, int]) -> None:
        self.starts.beginning.discard(source)
        for name, position in positions.items():
            key = (source, name)
            self.unknown.pop(key, None)
            partition = self.partitions.get(key)
            if partition is None:
                self.absent[key] = position
            elif partition.reader is None:
                self._begin(key, partition, position, ended=False)

    def appeared(self) -> Iterator[Appear]:
        """Give the turns that tell the engine of partitions it has not heard of; a source that begins may have none.

        Those that have come behind the end of their source wait to be let in.
        """
        self.late.sift(self.unknown)
        for source in dict.fromkeys([*(source for source, _ in self.unknown), *sorted(self.starts.beginning)]):
            turn = self._appearance(source)
            self._open_ready()
            yield turn
        self._open_ready()

    def let_in(self, source: str) -> Appear:
        """Return the turn that tells of what has waited for a query that reads *source*; it is opened behind that."""
        self.late.give_back(source, self.unknown)
        self.look_again = True
        return self._appearance(source)

    def _appearance(self, source: str) -> Appear:
        names = [name for each, name in self.unknown if each == source]
        positions = {name: self._start(source, name) for name in names}
        self._know(source, positions)
        return Appear(source, positions)

    def _start(self, source: str, partition: str) -> int:
        return self.starts.resolve(source, self.sources[source], partition, is_listed=source in self.lineages)
