"""Real processes with hostile queries among healthy ones, really killed: the healthy ones must not notice."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from forked import Forked, script
from kill_harness import KILLED, POINTS, wait_for_store
from lanes import left_to_commits

from reliable_rx.testing import check_ledger

APP = Path(__file__).with_name("hostile_app.py")
SEEDS, KILLS = 12, 6
Found = dict[str, list[Any]]


def run(folder: Path, seed: int, *, faults: str = "", kill_after_s: float | None = None) -> tuple[int, Found]:
    """Run a process until it ends or is killed; return how, and how the hostile queries fared."""
    command = [str(APP), str(folder), str(seed)]
    with Forked(command, script, environment={"RELIABLE_RX_FAULTS": faults}) as process:
        if kill_after_s is not None:
            wait_for_store(process, folder)
            try:
                process.wait(timeout=kill_after_s)
            except TimeoutError:
                process.kill()
        said, complaint = process.communicate()
    assert process.returncode in (0, KILLED), complaint
    fared = [line.removeprefix("fared ") for line in said.splitlines() if line.startswith("fared ")]
    return process.returncode, json.loads(fared[-1]) if fared else {}


def healthy(folder: Path) -> Found:
    """Return what came out of the queries that are not hostile."""
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("*.jsonl"))
        if path.name != "lines.jsonl"
    }


def lived(folder: Path, seed: int) -> None:
    """Live once in peace and once with kills; hold that both come to the same."""
    peace, war = folder / "peace", folder / "war"
    peace.mkdir()
    war.mkdir()
    ended, expected = run(peace, seed)
    assert ended == 0
    draw = random.Random(seed)
    kills = run(war, seed, faults="journal.after_commit:kill@3")[0] == KILLED
    for number in range(KILLS):
        faults = f"{draw.choice(POINTS)}:kill@{number + 1}" if draw.random() < 0.6 else ""
        after_s = None if faults else draw.random() * 0.5
        kills += run(war, seed, faults=faults, kill_after_s=after_s)[0] == KILLED
    assert kills, "nobody was killed"
    ended, fared = run(war, seed)
    assert ended == 0
    found = healthy(war)
    for name, records in healthy(peace).items():
        assert len(records) > 100
        check_ledger([str(each) for each in records], [str(each) for each in found[name]]).check(name)
    assert fared == expected, "hostile queries fail and skip as they do in peace"


@left_to_commits
def test_healthy_queries_among_hostile_ones(tmp_path: Path) -> None:
    """What hostile queries do, and kills on top of it, is nothing that the others notice."""
    lived(tmp_path, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS))
def test_healthy_queries_among_many_hostile_ones(seed: int, tmp_path: Path) -> None:
    """The same for other draws, kills at named points and at any moment."""
    lived(tmp_path, seed)
