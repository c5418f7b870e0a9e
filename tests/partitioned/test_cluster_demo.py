"""The long run of `benchmarks/cluster_demo.py`, shortened to a round, for both places where a group may live."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import find

DEMO = Path(__file__).resolve().parents[2] / "benchmarks" / "cluster_demo.py"
HELD_S = 600.0


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--postgres"]], ids=["folder", "postgres"])
def test_a_round_of_the_long_run(tmp_path: Path, where: list[str]) -> None:
    """S1, S4, S8, S19: a node killed, one stopped past its session, two joining and leaving; each flight comes once."""
    if where and find() is None:
        pytest.skip("PostgreSQL is not installed here (apt-get install postgresql)")
    command = [sys.executable, str(DEMO), "--rounds", "1", "--seconds", "40", "--folder", str(tmp_path / "run"), *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HELD_S)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "round 1\n" in said and "killed, another started: settled" in said
    assert re.search(r"moved \d+ partitions, \d+ at least had to; 0 times not within one", said), said
    assert "341,098 records: lost 0 · duplicated 0 · reordered 0 · corrupted 0" in said
