"""Bugs planted in sources, in what becomes of bad records, and in what a store says of its cells.

As in `test_planted_engine`, each must be found by a generic check, which passes without it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_bad_records as bad_records
import test_checkpoint_cells as cells
import test_reading_fails as reading
import test_sources_hostile as hostile_files
from lanes import at_each_commit
from planted_checks import Plants

import checkpoint.sqlite.database
import hosting.evaluator.evaluator
from checkpoint import MemoryStore
from hosting import FileSource
from hosting.edges.partition import Partition
from hosting.engine.turns import Rejects
from hosting.evaluator import group_commit as journaling
from hosting.sources import csv_records, lines, pushed, text_files
from hosting.sources.decoding import Decoder
from hosting.sources.lanes import Lane
from hosting.sources.text_files import JsonLinesFile, TextFile
from reliable_rx.reliable import Batch

# -- the generic checks


def tables(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Every odd file, in blocks of every size, from every position."""
    patch.setattr(lines, "RECORD_BYTES_MAX", hostile_files.LONG)
    for kind, table in (("csv", hostile_files.CSV), ("jsonl", hostile_files.JSON)):
        for name, (data, good) in table.items():
            if name == "numbers":
                continue
            path = folder / f"rows.{kind}"
            path.write_bytes(data)
            patch.setattr(lines, "BLOCK_BYTES", 1 << 16)

            def make(path: Path = path, kind: str = kind, **options: Any) -> FileSource:
                parse = (lambda row: f"{row['a']}{row['b']}") if kind == "csv" else None
                return FileSource(path, parse=parse, **options)

            hostile_files.check_file(make, good, patch)


def boundaries(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Recovered at every boundary, one file and several on event time."""
    path = folder / "one" / "runs.jsonl"
    path.parent.mkdir()
    data, bad = bad_records.FILES["runs.jsonl"]
    path.write_bytes(data)
    several = folder / "several"
    several.mkdir()
    for policy in hostile_files.POLICIES:
        patch.setattr(lines, "BLOCK_BYTES", 8)
        one: Any = lambda policy=policy: FileSource(path, on_bad_record=policy)  # noqa: E731
        bad_records.check_recovered(one, policy, {path.name: bad})
        made = bad_records.several_files(several, policy)
        bad_records.check_recovered(made, policy, {"a.jsonl": [0, 2, 3, 6], "b.jsonl": [0, 1, 4]})


def functions(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Whatever the functions of a source raise."""
    for name in ("StopIteration", "SystemExit", "Wordless"):
        for kind in ("jsonl", "csv"):
            bad_records.test_whatever_the_functions_of_a_source_raise(folder, name, kind, "parse")


def stores(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Any cell of a store as anything."""
    whole = folder / "whole"
    cells.make_whole(whole)
    for value in ("text", "large", "null"):
        (folder / value).mkdir()
        cells.test_any_cell_as_anything(whole, folder / value, value)


def disks(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Reading fails for a while; two evaluators on one store."""
    reading.test_a_run_waits_until_it_can_read(MemoryStore(), reading.Disk(patch), False)
    reading.test_two_evaluators_on_one_store(MemoryStore())


CHECKS: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "tables": tables,
    "boundaries": boundaries,
    "functions": functions,
    "stores": stores,
    "disks": disks,
}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


# -- the bugs


@planted("tables")
def a_bad_record_without_a_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lane, "reject", lambda self, value, error: None)


@planted("tables")
def a_byte_order_mark_as_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lines.Lines, "_pass_over_mark", lambda self: None)


@planted("tables")
def a_quote_that_swallows_what_follows(patch: pytest.MonkeyPatch) -> None:
    original = csv_records.cut_rows

    def swallowing(data: bytes) -> Iterator[Any]:
        for start, end, row in original(data):
            yield start, len(data) if isinstance(row, str) and row != csv_records.UNCLOSED else end, row
            if isinstance(row, str):
                return

    patch.setattr(text_files, "cut_rows", swallowing)


@planted("tables")
def blank_ends_counted_as_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TextFile, "_count", lambda self, data: data.count(b"\n") + (not data.endswith(b"\n")))


@planted("tables")
def what_nests_deeply_judged_by_the_stack_it_meets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JsonLinesFile, "_record", lambda self, line: json.loads(line))


@planted("boundaries")
def rejects_that_are_not_taken_again(patch: pytest.MonkeyPatch) -> None:
    entry_of = journaling.entry_of
    patch.setattr(
        journaling, "entry_of", lambda turn, code: ("tick", 0.0) if type(turn) is Rejects else entry_of(turn, code)
    )


@planted("boundaries")
def rejects_lost_in_a_checkpoint_before_they_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "safe_position", property(lambda self: self.position))


@planted("boundaries")
def rejects_of_two_batches_taken_as_one(patch: pytest.MonkeyPatch) -> None:
    take = Lane.take

    def greedy(self: Lane, count_max: int) -> Batch:
        batch = take(self, count_max)
        return Batch(batch.first, batch.values, skipped=batch.skipped, rejected=batch.rejected[:1])

    patch.setattr(Lane, "take", greedy)


@planted("functions")
def a_stop_iteration_that_ends_a_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Decoder, "_values", Decoder._converted)


@planted("stores")
def cells_taken_for_what_they_should_be(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint.sqlite.database, "is_of_kind", lambda column, cells: True)


@planted("disks")
def a_log_that_cannot_be_read_ends_the_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pushed, "LogUnavailable", OSError)


@planted("disks")
def a_store_for_all_who_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.evaluator.evaluator, "own", lambda evaluator: None)


# -- the tests


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while bad_records.HOSTS:
        bad_records.HOSTS.pop().evaluator.close()


@pytest.mark.parametrize("name", [at_each_commit(name) for name in CHECKS])
def test_passes_without_a_bug(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks that find the bugs are content without them."""
    CHECKS[name](tmp_path, monkeypatch)


@pytest.mark.leaves  # what a check leaves that has failed
@pytest.mark.parametrize("name", planted.names())
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_planted_bug_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generic check named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, tmp_path, monkeypatch)
    shutil.rmtree(tmp_path)
