"""Turns that a journal has lost, as a repair counts them when it passes over what is behind a checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkpoint.format.codec import encode
from hosting.repair.lost import pass_over

CREATED = [("create", "q", b"", b"", (), "fail", None, 0.0, None)]


@pytest.mark.parametrize(
    ("groups", "last", "lost"),
    [
        ([], 10, []),
        ([], 11, [(11, 12)]),
        ([(11, 1)], 11, []),
        ([(11, 2), (13, 3)], 15, []),
        ([(12, 1)], 12, [(11, 12)]),
        ([(11, 1)], 12, [(12, 13)]),
        ([(11, 1), (14, 2)], 18, [(12, 14), (16, 19)]),
    ],
)
def test_turns_that_are_lost(groups: list[tuple[int, int]], last: int, lost: list[tuple[int, int]]) -> None:
    """Behind turn 10, of groups that are readable with gaps: each turn is read, or among those that are lost."""
    payload = encode((CREATED, {}))
    journal = SimpleNamespace(last_turn=last, readable=lambda after: [(*group, payload) for group in groups])
    suspended = SimpleNamespace(lost_turns=[], passed_over=None, quiet=[], declared={"new": None}, unmade={})
    evaluator: Any = SimpleNamespace(
        engine=SimpleNamespace(number=10, standing={}, suspended=suspended),
        store=SimpleNamespace(journal=journal, streams=list),
        streams={},
    )
    told = pass_over(evaluator, 10)
    assert suspended.lost_turns == lost
    assert suspended.passed_over == ((11, last + 1) if last > 10 else None)
    assert evaluator.engine.number == last
    assert suspended.quiet == (["new"] if lost else [])
    assert told == ["query 'q' was created or edited in turns that are passed over, and is not"] * len(groups)
