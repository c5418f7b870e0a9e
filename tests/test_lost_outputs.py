"""Stored outputs that a store has lost, found without an evaluator: a reader with rows as the test wants them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hosting.repair.lost_outputs import Span, StoredOutputs

Rows = list[tuple[int, int, bytes | None]]
WHOLE = b"whole"


class Reader:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def streams(self) -> list[str]:
        return ["q"]

    def kept_outputs(self, name: str) -> Iterator[tuple[int, int, bytes | None]]:
        return iter(self.rows)


@pytest.mark.parametrize(
    ("rows", "lost", "everywhere"),
    [
        ([(0, 5, WHOLE), (5, 5, WHOLE)], [], []),
        ([(0, 5, WHOLE), (7, 3, WHOLE)], [(5, 7)], [(5, 7)]),
        ([(0, 5, None), (5, 5, None)], [(0, 10)], [(0, 10)]),
        ([(3, 4, WHOLE)], [(7, 10)], [(7, 10)]),
        ([(0, 10, WHOLE), (10, 2, None)], [], [(10, 12)]),
        ([(0, 8, WHOLE), (8, 4, None)], [(8, 10)], [(8, 12)]),
        ([(0, 10, WHOLE), (11, 2, WHOLE)], [], [(10, 11)]),
        ([], [], []),
    ],
)
def test_lost_ids(rows: Rows, lost: list[Span], everywhere: list[Span]) -> None:
    """Of ten ids that the checkpoint has; what is behind it comes again, and is named only if all is asked for."""
    queries: Any = SimpleNamespace(standing={}, emitted=lambda name: 10)
    streams: Any = {"q": SimpleNamespace(stored=10)}
    no_streams: Any = {}
    for known in (streams, no_streams):
        reader: Any = Reader(rows)
        outputs = StoredOutputs(reader, known, queries)
        assert outputs.lost() == ({"q": lost} if lost else {})
        assert outputs.lost(everywhere=True) == ({"q": everywhere} if everywhere else {})
