"""Real processes, really killed: every output exactly once, in every file, table and stream."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kill_harness import KILLED, POINTS, Life, Records

KILLS_PER_POINT = 10
RANDOM_LIVES, KILLS_PER_LIFE = 10, 10


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """What comes out when nobody is killed."""
    life = Life(tmp_path_factory.mktemp("uninterrupted"))
    assert life.run() == 0
    records = life.records()
    assert all(len(each) > 5 for each in records.values()), {name: len(each) for name, each in records.items()}
    return records


FAST = ("journal.after_commit", "checkpoint.mid_commit", "checkpoint.before_acknowledge", "sink.after_flush")


def test_killed_at_four_points_in_a_row(uninterrupted: Records, tmp_path: Path) -> None:
    """A process killed after the journal, in a checkpoint, before it acknowledges and behind a sink's flush goes on."""
    life = Life(tmp_path)
    for number, point in enumerate(FAST):
        assert life.run(faults=f"{point}:kill@{number + 1}") == KILLED, point
    life.check(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point_again_and_again(point: str, uninterrupted: Records, tmp_path: Path) -> None:
    """Ten kills at one point of the code, one after the other, each a little later."""
    life = Life(tmp_path)
    for number in range(1, KILLS_PER_POINT + 1):
        life.run(faults=f"{point}:kill@{number}")
    assert life.kills >= 3
    life.check(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RANDOM_LIVES))
def test_killed_at_any_moment(seed: int, uninterrupted: Records, tmp_path: Path) -> None:
    """Ten kills at random moments, then in peace to the end."""
    draw, life = random.Random(seed), Life(tmp_path)
    for _ in range(KILLS_PER_LIFE):
        life.run(kill_after_s=draw.random() * 0.6)
    life.check(uninterrupted)
