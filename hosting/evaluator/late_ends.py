"""Ends of streams in a replay that differs from the first run: held back, and put behind the ids of both runs.

A query that does not repeat itself may end sooner than it did. Whoever has read the first run would read on behind that
end, and the ids that were used then would stand behind it. So such an end is taken out of what its group has emitted,
what is missing gets its ids (`hosting.evaluator.unloaded`), and the end is put there when the replay is over or the
query begins anew. Rejected: a second end behind the first, at which a reader from the beginning has stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Create, Dispose, Output, Turn
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.edges.streams import Streams
    from hosting.engine.engine import QueryEngine


class LateEnds:
    """Ends that are held back, by stream."""

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine, self._streams = engine, streams
        self.errors: dict[str, Exception | None] = {}
        """With what the streams end whose ends are held back."""

    def hold_back(self, emitted: list[Output], names: Collection[str]) -> None:
        """Take the ends that the streams *names* have come to out of what a group has *emitted*."""
        newest = {out.name: place for place, out in enumerate(emitted)}
        for name in names:
            out = emitted[newest[name]] if name in newest else None
            if out is not None and out.ended and not self._runs(name):
                emitted[newest[name]] = out._replace(ended=False, error=None)
                self.errors[name] = out.error
                self._engine.continue_ids(name, out.next - 1)

    def put_before(self, turn: Turn) -> None:
        """Put the ends of the query that begins anew with *turn*, or goes with it."""
        if self.errors and isinstance(turn, (Create, Dispose)):
            self._put(name for name in list(self.errors) if query_of(name) == turn.name)

    def put(self) -> None:
        """Put all of them where their streams are by now."""
        self._put(list(self.errors))

    def _put(self, names: Iterable[str]) -> None:
        for name in names:
            end = Output(name, self._engine.emitted(name), (), True, self.errors.pop(name))
            self._streams.append([end])
            self._engine.continue_ids(name, end.next)

    def _runs(self, name: str) -> bool:
        standing = self._engine.standing.get(query_of(name))
        return standing is not None and standing.status == RUNNING
