"""The benchmarks run, check their own outputs, and print what they promise. How fast is not a matter for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lanes import left_to_commits
from postgres_server import PostgresServer

UNITS = ("ms", "vs_sqlite")
BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def run(script: str, *arguments: str, where: Path, timeout_s: float = 120) -> str:
    command = [sys.executable, BENCHMARKS / script, *arguments, "--dir", where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    assert list(where.iterdir()) == [], "a benchmark takes its stores away"
    return done.stdout


def lines(script: str, *arguments: str, where: Path, timeout_s: float = 120) -> dict[str, dict[str, Any]]:
    objects = [
        json.loads(line) for line in run(script, *arguments, "--json", where=where, timeout_s=timeout_s).splitlines()
    ]
    return {each.pop("name"): each for each in objects}


@pytest.mark.slow
@pytest.mark.commit
def test_throughput_prints_its_three_lines(tmp_path: Path) -> None:
    """`throughput.py --json` prints the promised names and keys, all positive; only Bytewax may be absent."""
    found = lines("throughput.py", "--events", "2000", "--rounds", "1", where=tmp_path)
    keys = {"events_per_s", "vs_reactivex", "vs_loop"}
    assert {name: set(figures) for name, figures in found.items()} == {
        "linear_batch_exactly_once": keys,
        "linear_single_at_least_once": keys,
        "group_by_1000_exactly_once": keys | {"vs_bytewax"},
    }
    assert all(figures[key] > 0 for figures in found.values() for key in keys)


@pytest.mark.slow
@pytest.mark.commit
def test_density_prints_its_line(tmp_path: Path) -> None:
    """`density.py --json` prints the promised keys for as many queries as it was told."""
    found = lines("density.py", "--count", "2000", "--turns", "50", "--series", "1", where=tmp_path)
    assert set(found) == {"standing_queries"}
    figures = found["standing_queries"]
    assert set(figures) == {"count", "bytes_each", "create_us_each", "route_us"}
    assert figures["count"] == 2000 and figures["create_us_each"] > 0 and figures["route_us"] > 0


@left_to_commits
def test_checkpoint_prints_its_line(tmp_path: Path) -> None:
    """`checkpoint.py --json` prints the promised keys, and a differential checkpoint is smaller than a full one."""
    found = lines("checkpoint.py", "--rows", "1000", "--repeats", "1", "--interval-s", "0.05", where=tmp_path)
    assert set(found) == {"checkpoint"}
    figures = found["checkpoint"]
    assert set(figures) == {"pause_ms", "differential_ratio", "full_s", "throughput_during_ratio", "recovery_s"}
    assert 0 < figures["differential_ratio"] < 1 and figures["recovery_s"] > 0


@pytest.mark.slow
def test_postgres_prints_its_line(tmp_path: Path, postgres: PostgresServer) -> None:
    """`postgres.py --json` prints a time and a ratio to SQLite for each kind of commit, and times of taking over."""
    arguments = ["--dsn", postgres.new_database(), "--rounds", "1", "--many", "2"]
    figures = lines("postgres.py", *arguments, where=tmp_path)["postgres"]
    compared = {f"{what}_{unit}" for what in ("journal", "push", "checkpoint", "positions") for unit in UNITS}
    assert set(figures) == compared | {"take_over_ms", "stopped_take_over_ms"}
    assert all(value > 0 for value in figures.values())


@pytest.mark.slow
@pytest.mark.spark
def test_spark_prints_its_three_lines(tmp_path: Path) -> None:
    """`spark.py --json` prints ratios to pyarrow, `collect()` and Parquet, and how long one event takes."""
    pytest.importorskip("pyspark")
    few = ["--rows", "2000", "--batches", "1", "--rounds", "1", "--events", "2"]
    found = lines("spark.py", *few, where=tmp_path, timeout_s=600)
    peers = {"vs_pyarrow", "vs_pyarrow_quick", "vs_collect"}
    assert {name: set(figures) for name, figures in found.items()} == {
        "spark_out": {"rows_per_s", "tuples_rows_per_s", "tuples_vs_pyarrow", "tuples_vs_collect"} | peers,
        "spark_in": {"rows_per_s", "vs_parquet", "without_positions_vs_parquet"},
        "spark_latency": {"median_ms", "p99_ms", "batch_median_ms", "batch_p99_ms", "noop_batch_median_ms", "vs_batch"},
    }
    assert all(value > 0 for figures in found.values() for value in figures.values())


@pytest.mark.slow
@pytest.mark.commit
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("throughput.py", ["--only", "batch", "--events", "1000", "--rounds", "1"]),
        ("density.py", ["--count", "1000", "--turns", "10", "--series", "1"]),
        ("checkpoint.py", ["--rows", "1000", "--repeats", "1", "--interval-s", "0.05"]),
    ],
)
def test_without_json_each_bar_is_judged(tmp_path: Path, script: str, arguments: list[str]) -> None:
    """Without `--json` a table says of each bar whether it is met."""
    judged = [line for line in run(script, *arguments, where=tmp_path).splitlines() if "≤" in line or "≥" in line]
    assert judged and all(line.endswith("met") or "MISSED" in line for line in judged)
