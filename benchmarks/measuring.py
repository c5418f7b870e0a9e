"""What the benchmarks share: interleaved rounds, medians, a store on a real disk, and one way to print.

A shared machine drifts by more than the differences we look for, so sides are never run one after the other: each
round runs all of them, in turning order, and a ratio is the median of the rounds' ratios. Wall time, because waiting
for a disk counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkpoint import SqliteStore

Times = dict[str, list[float]]


@dataclass(frozen=True)
class Bar:
    """What a figure must reach: at least, or with *most* at most."""

    key: str
    bound: float
    most: bool = False

    def verdict(self, value: float | None) -> str:
        if value is None:
            return "not measured"
        met = value <= self.bound if self.most else value >= self.bound
        return (
            "met" if met else f"MISSED by a factor of {max(value, self.bound) / max(min(value, self.bound), 1e-9):.2f}"
        )

    def __str__(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.bound:g}"


@dataclass(frozen=True)
class Result:
    """One line of a benchmark: its promised keys, their bars, and what a reader should know besides."""

    name: str
    figures: Mapping[str, float | None]
    bars: Sequence[Bar] = ()
    note: str = ""


def arguments(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line instead of a table")
    parser.add_argument(
        "--dir", help="where to put the store (a real disk, not a RAM disk); default: the temporary directory"
    )
    return parser


def interleaved(sides: Mapping[str, Callable[[], float]], *, rounds: int, budget_s: float) -> Times:
    """Run all *sides* in each round, in turning order; stop early rather than pass *budget_s*."""
    times: Times = {name: [] for name in sides}
    names = list(sides)
    began = time.perf_counter()
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            times[name].append(sides[name]())
        spent = time.perf_counter() - began
        if spent * (number + 2) / (number + 1) > budget_s:
            break
    return times


def times_as_fast(times: Times, side: str, other: str) -> float | None:
    """How many times as fast *side* is as *other*: the median of the rounds' ratios."""
    if not times.get(other):
        return None
    return statistics.median(b / a for a, b in zip(times[side], times[other], strict=True))


@contextmanager
def store_directory(where: str | None) -> Iterator[Path]:
    """Give a fresh directory on disk and remove it."""
    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        yield Path(directory) / "store"


@contextmanager
def sqlite_store(where: str | None) -> Iterator[SqliteStore]:
    """Give a fresh SQLite store on disk and remove it."""
    with store_directory(where) as path:
        store = SqliteStore(path)
        try:
            yield store
        finally:
            store.close()


def report(results: Sequence[Result], *, as_json: bool) -> None:
    """Print *results*."""
    for result in results:
        if as_json:
            figures = {key: None if value is None else float(f"{value:.4g}") for key, value in result.figures.items()}
            print(json.dumps({"name": result.name, **figures}), flush=True)
        else:
            print(table(result), flush=True)


def table(result: Result) -> str:
    """Return a result as a small table."""
    bars = {bar.key: bar for bar in result.bars}
    lines = [result.name + (f"  ({result.note})" if result.note else "")]
    for key, value in result.figures.items():
        bar = bars.get(key)
        judged = "" if bar is None else f"{bar!s:>10}  {bar.verdict(value)}"
        shown = "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        lines.append(f"  {key:<26}{shown:>12}{judged}")
    return "\n".join(lines)
