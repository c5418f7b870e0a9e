"""Stored positions mean what they meant: an edit that makes other records of their numbers is refused.

Each kind of source, each of its parameters, behind a clean stop and behind a kill, also before the first checkpoint:
either the start is refused, and with the old definition back nothing is lost, or no record is lost or comes twice.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed, every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, GeneratorSource, ListSource, QueryEvaluator
from hosting.partitioned.sections import OnePartition
from hosting.repair.repair import redefined
from hosting.sources import HashRing
from hosting.sources.faults import FaultySource
from hosting.sources.kafka import KafkaSource
from hosting.sources.numbering import numbering_digests
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from hosting.sources.stored import StoredStreamSource
from reliable_rx.errors import NondeterminismDetected, ReliableRxError
from reliable_rx.reliable import Batch

COUNT = 48
READ = 8
OPTIONS: dict[str, Any] = {"background": False, "checkpoint_interval_s": 1e9, "batch_events_max": 2}
FACTOR = {letter: "x" for letter in "a"}  # noqa: C420 (what is written out is a constant)
Make = Callable[[Path, Mapping[str, Any]], Any]


def split(folder: Path, given: Mapping[str, Any]) -> FileSource:
    """Two files that go on in each other, read by a key of four."""
    rows = [{"n": n, "k": "abcd"[n % 4], "half": "lr"[n % 2]} for n in range(COUNT)]
    for name, part in (("1.jsonl", rows[: COUNT // 2]), ("2.jsonl", rows[COUNT // 2 :])):
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in part))
    options = {"paths": [folder / "1.jsonl", folder / "2.jsonl"], "partition_by": "k", **given}
    options["paths"] = [folder / path for path in options["paths"]]
    return FileSource(**{name: value for name, value in options.items() if value is not None})


def bad(folder: Path, given: Mapping[str, Any]) -> FileSource:
    """One file with records of the keys a and b, and some that a type refuses or that have another key."""
    path = folder / "bad.jsonl"
    rows = [{"n": n if n % 5 else f"{n}", "k": "abc"[n % 3] if n < 12 else "ab"[n % 2]} for n in range(COUNT)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options: dict[str, Any] = {"partition_by": "k", "partitions": ["a", "b"], "on_bad_record": "skip"}
    return FileSource(path, **{**options, **given})


def one(folder: Path, given: Mapping[str, Any]) -> FileSource:
    return split(folder, {"partition_by": None, **given})


def bucket(count: int) -> Callable[[Any], int]:
    return lambda row: row["n"] % count


def same(row: Any) -> Any:
    return row


def turned(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "k": row["k"].translate(str.maketrans("ab", "ba"))}


def by_k(row: dict[str, Any]) -> str:
    return str(row["k"])


def endless(folder: Path, given: Mapping[str, Any]) -> GeneratorSource:
    options: dict[str, Any] = {"function": lambda n, _: {"n": n}, "count": COUNT, **given}
    return GeneratorSource(**options)


EDITS: dict[str, tuple[Make, dict[str, Any], dict[str, Any]]] = {
    "key, function": (
        split, {"partition_by": lambda r: "xy"[r["k"] in "cd"]}, {"partition_by": lambda r: "xy"[r["k"] == "d"]},
    ),
    "key, column": (split, {}, {"partition_by": "half"}),
    "key, column to function": (split, {}, {"partition_by": lambda r: {"a": "b", "b": "a"}.get(r["k"], r["k"])}),
    "key, added": (split, {"partition_by": None}, {}),
    "key, taken away": (split, {}, {"partition_by": None}),
    "key, closure": (split, {"partition_by": bucket(2)}, {"partition_by": bucket(3)}),
    "key, ring": (
        split,
        {"partition_by": lambda r, ring=HashRing(2): ring.partition_of(r["k"])},
        {"partition_by": lambda r, ring=HashRing(3): ring.partition_of(r["k"])},
    ),
    "key, what parse gives": (split, {"partition_by": by_k, "parse": same}, {"partition_by": by_k, "parse": turned}),
    "key, types": (
        split, {"partition_by": by_k, "types": {"k": str}}, {"partition_by": by_k, "types": {"k": str.upper}},
    ),
    "key of a column, parse": (split, {"parse": same}, {"parse": turned}),
    "key, order added": (split, {}, {"sort_by": lambda r: -r["n"]}),
    "order": (one, {"sort_by": lambda r: r["n"]}, {"sort_by": lambda r: -r["n"]}),
    "order added": (one, {}, {"sort_by": lambda r: -r["n"]}),
    "order taken away": (one, {"sort_by": lambda r: -r["n"]}, {}),
    "order, parse": (one, {"sort_by": by_k, "parse": same}, {"sort_by": by_k, "parse": turned}),
    "parse": (one, {"parse": same}, {"parse": turned}),
    "columns": (one, {}, {"columns": ["n"]}),
    "key, files in another order": (split, {}, {"paths": ["2.jsonl", "1.jsonl"]}),
    "key, a file less": (split, {}, {"paths": ["2.jsonl"]}),
    "key, a file more behind": (split, {"paths": ["1.jsonl"]}, {}),
    "key, a file more before": (split, {"paths": ["2.jsonl"]}, {}),
    "key, order, a file more": (split, {"paths": ["1.jsonl"], "sort_by": by_k}, {"sort_by": by_k}),
    "files in another order": (one, {}, {"paths": ["2.jsonl", "1.jsonl"]}),
    "follow": (split, {}, {"follow": True}),
    "timestamp": (one, {}, {"timestamp": lambda r: r["n"]}),
    "bad, keys in another order": (bad, {}, {"partitions": ["b", "a"]}),
    "bad, a key more": (bad, {}, {"partitions": ["a", "b", "c"]}),
    "bad, a key less": (bad, {"partitions": ["a", "b", "c"]}, {}),
    "bad, keys found": (bad, {}, {"partitions": None}),
    "bad, what types refuse": (bad, {}, {"types": {"n": lambda n: n + 0}}),
    "bad, dead letters": (bad, {}, {"on_bad_record": "dead_letter"}),
    "bad, fail": (bad, {}, {"on_bad_record": "fail"}),
    "fail, then skip": (split, {}, {"on_bad_record": "skip"}),
    "fail, a key more": (split, {"partitions": [*"abcd"]}, {"partitions": [*"eabcd"]}),
    "generator, seed": (endless, {}, {"seed": 1}),
    "generator, count": (endless, {"count": 30}, {"count": COUNT}),
    "generator, rate": (endless, {}, {"rate_per_s": 1e9}),
    "list, timestamp": (
        lambda _, given: ListSource([{"n": n} for n in range(COUNT)], **given), {}, {"timestamp": lambda r: r["n"]},
    ),
    "faulty": (lambda f, g: FaultySource(split(f, g), ()), {}, {"partition_by": "half"}),
    "polled": (lambda f, g: PolledSource(split(f, g), Want(count_max=3)), {}, {"partition_by": "half"}),
    "shared": (lambda f, g: SharedSource(split(f, g)).named("q"), {}, {"partition_by": "half"}),
    "one partition": (
        lambda f, g: OnePartition(split(f, g), "x"),
        {"partition_by": lambda r: "x"}, {"partition_by": lambda r: "xy"[r["n"] % 2]},
    ),
}  # fmt: skip
IS_FINE = {
    "key of a column, parse", "parse", "columns", "key, a file more behind", "files in another order", "follow",
    "timestamp", "bad, what types refuse", "bad, dead letters", "fail, then skip", "fail, a key more",
    "generator, seed", "generator, count", "generator, rate", "list, timestamp",
}  # fmt: skip
"""Edits that are no hindrance behind a clean stop, since no record gets another number."""


class Runs:
    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.folder, self.store = make, folder, MemoryStore()

    def begin(self, given: Mapping[str, Any], *, source: str = "s", **options: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, **OPTIONS, **options)
        evaluator.source(source, self.make(self.folder, given))
        evaluator.create("q", rx.source(source).map(lambda row: int(row["n"])))
        return evaluator

    def read(self, given: Mapping[str, Any], end: str) -> None:
        evaluator = self.begin(given)
        evaluator.run(until=lambda: evaluator.events_in >= READ)
        if end == "stopped":
            evaluator.checkpoint()
            evaluator.close()
            return
        if end == "killed":
            evaluator.checkpoint()
        evaluator.run(until=lambda: evaluator.events_in >= READ + 4)
        evaluator.flush()
        evaluator.abandon()

    def finish(self, given: Mapping[str, Any], **how: Any) -> list[int]:
        """Run to the end of what there is, and return all that came."""
        with self.begin(given, **how) as evaluator:
            evaluator.start()
            while evaluator.step():
                pass
            assert not evaluator.query("q").error, evaluator.query("q").error
            evaluator.flush()
            return sorted(int(value) for part in evaluator.stream("q").read(0, 1000) for value in part.values)


def runs_of(edit: str, folder: Path) -> tuple[Runs, dict[str, Any], dict[str, Any], list[int]]:
    make, before, after = EDITS[edit]
    whole = [] if edit == "bad, fail" else Runs(make, folder).finish(after)
    return Runs(make, folder), before, after, whole


@pytest.mark.parametrize("edit, end", crossed(EDITS, ["stopped", "killed", "killed at once"], nth=5, nightly=1))
def test_an_edit_is_refused_or_no_record_is_lost_or_comes_twice(edit: str, end: str, tmp_path: Path) -> None:
    """A refusal names the source and leaves the store as it was; with the old definition back all comes once."""
    runs, before, after, whole = runs_of(edit, tmp_path)
    runs.read(before, end)
    edited = runs.begin(after)
    try:
        edited.start()
    except ReliableRxError as error:
        assert end != "stopped" or edit not in IS_FINE, error
        assert edit == "bad, fail" or ("source 's'" in error.message and "put " in error.message)
        edited.abandon()
        assert runs.finish(before) == Runs(runs.make, tmp_path).finish(before)
        return
    edited.abandon()
    assert edit in IS_FINE or edit == "bad, fail"
    if edit == "bad, fail":
        with pytest.raises(ReliableRxError, match=r"bad\.jsonl"):
            runs.finish(after)
        return
    came = runs.finish(after)
    assert len(set(came)) == len(came) and {*whole} <= {*came} and ("bad" in edit or came == whole)


REFUSED = [edit for edit in EDITS if edit not in IS_FINE | {"bad, fail"}]


@pytest.mark.parametrize("edit", every(5, REFUSED, commits=1))
def test_the_ways_that_a_refusal_names_are_ways(edit: str, tmp_path: Path) -> None:
    """Under another name all records come; without strictness it goes on, is told, and is no edit the next time."""
    runs, before, after, whole = runs_of(edit, tmp_path)
    runs.read(before, "stopped")
    refused = runs.begin(after)
    with pytest.raises(NondeterminismDetected, match=r"source 's' does not count as it did: its .*strict=False"):
        refused.start()
    refused.abandon()
    with runs.begin(after, strict=False) as evaluator:
        evaluator.start()
        assert any("does not count as it did" in each for each in evaluator.warnings)
        [found] = redefined(evaluator)
        assert found.subject == "source 's'" and "read on from the numbers" in found.remedy
        evaluator.abandon()
    with runs.begin(after) as evaluator:
        evaluator.start()
        assert not any("does not count" in each for each in evaluator.warnings)
    with runs.begin(after, source="other") as evaluator:
        evaluator.start()
        first = evaluator.stream("q").read(0, 1000)
        came = sum(len(part.values) for part in first)
        while evaluator.step():
            pass
        evaluator.flush()
        values = [value for part in evaluator.stream("q").read(0, 1000) for value in part.values][came:]
    assert sorted(values) == whole


def test_another_helper_and_a_table_that_a_key_names(tmp_path: Path) -> None:
    """Code that the function reaches is refused; data, which may be others at each start, are told with their names."""
    runs = Runs(split, tmp_path)

    def key(row: dict[str, Any]) -> str:
        return FACTOR.get(row["k"], "y")

    runs.read({"partition_by": key}, "stopped")
    FACTOR["b"] = "x"
    try:
        with runs.begin({"partition_by": key}) as evaluator:
            evaluator.start()
            assert any("partition_by" in each and "FACTOR" in each for each in evaluator.warnings)
    finally:
        del FACTOR["b"]


TEXT = """
COUNT, TABLE, OTHER, CACHE = 0, {"c": "x"}, "y", {}
PARTS: int = 2
CALLS = 0
def of_table(row):
    global CALLS
    CALLS += 1
    CACHE[row["n"]] = CALLS
    return TABLE.get(row["k"], "y")
TABLE = {"c": "x"}
SPLIT = {"c": "x"}
def by_number(row): return str(row["n"] % PARTS)
def by_split(row):
    global CALLS
    CALLS += 1
    CACHE[row["n"]] = CALLS
    return SPLIT.get(row["k"], "y")
"""


def module(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    space: dict[str, Any] = {"__name__": "split_of_a_user"}
    exec(compile(text, str(path), "exec"), space)
    return space


@pytest.mark.parametrize(
    "name, old, new", [("by_number", "= 2", "= 3"), ("by_split", 'SPLIT = {"c": "x"', 'SPLIT = {"d": "x"')]
)
def test_a_constant_of_the_file_counts_and_what_is_counted_does_not(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    """An edited table or number of partitions is refused; the same functions go on in a process that has used them."""
    runs = Runs(split, tmp_path)
    space = module(tmp_path / "split.py", TEXT)
    runs.read({"partition_by": space[name]}, "stopped")
    with runs.begin({"partition_by": space[name]}) as again:
        again.start()
        assert not again.warnings
    edited = runs.begin({"partition_by": module(tmp_path / "split.py", TEXT.replace(old, new))[name]})
    with pytest.raises(NondeterminismDetected, match=rf"its partition_by \(split_of_a_user\.{name}\)"):
        edited.start()
    edited.abandon()
    space = module(tmp_path / "split.py", TEXT)
    assert runs.finish({"partition_by": space[name]}) == list(range(COUNT))


def test_an_own_class_that_is_edited_is_told(tmp_path: Path) -> None:
    """It does not say what its ids depend on; one that does is refused by that."""

    class Feed:
        def partitions(self) -> list[str]:
            return ["0"]

        def open(self, partition: str, at: int, /) -> Any:
            return ListSource([{"n": n} for n in range(COUNT)]).open(partition, at)

    class Edited(Feed):
        pass

    class Counted(Feed):
        def __init__(self, by: str) -> None:
            self.by = by

        def numbering(self) -> Mapping[str, Any]:
            return {"by": self.by}

    runs = Runs(lambda _, given: given["kind"](*given.get("by", ())), tmp_path)
    runs.read({"kind": Feed}, "stopped")
    with runs.begin({"kind": Edited}) as evaluator:
        evaluator.start()
        assert any("class" in each and "Edited" in each for each in evaluator.warnings)
    runs = Runs(runs.make, tmp_path)
    runs.read({"kind": Counted, "by": ["rows"]}, "stopped")
    edited = runs.begin({"kind": Counted, "by": ["batches"]})
    with pytest.raises(NondeterminismDetected, match="its by is not what it was"):
        edited.start()
    edited.abandon()
    assert runs.finish({"kind": Counted, "by": ["rows"]}) == list(range(COUNT))


def test_whose_ids_a_source_counts_by_is_a_part_of_it() -> None:
    """A topic, and a stream."""
    for one, other in (
        (KafkaSource("t", bootstrap_servers="nowhere"), KafkaSource("u", bootstrap_servers="nowhere")),
        [StoredStreamSource(MemoryStore(), stream, subscriber="x") for stream in "ab"],
    ):
        assert numbering_digests(one) != numbering_digests(other)


def test_each_parameter_of_a_file_source_was_thought_of() -> None:
    """A new one is edited above, or is listed here."""
    edited = {name for _, before, after in EDITS.values() for name in (*before, *after)}
    assert inspect.signature(FileSource.__init__).parameters.keys() - edited <= {"self", "format"}


def test_a_file_that_is_compressed_means_the_same(tmp_path: Path) -> None:
    """And a source that nothing was read of may be edited."""
    runs = Runs(split, tmp_path)
    evaluator = runs.begin({})
    evaluator.checkpoint()
    evaluator.close()
    assert runs.finish({"partition_by": "half"}) == list(range(COUNT))
    assert Batch(0, ()).next == 0


@pytest.mark.parametrize("which, is_refused", [("1.jsonl", True), ("2.jsonl", False), ("3.jsonl", False)])
@pytest.mark.parametrize("when", ["between runs", "in a run"])
def test_only_the_last_of_followed_files_with_keys_may_grow(
    which: str, is_refused: bool, when: str, tmp_path: Path
) -> None:
    """What comes in another one would take the numbers of records behind: a start says so, and nothing comes twice."""
    runs, given = Runs(split, tmp_path), {"follow": True}
    split(tmp_path, {})
    runs.make = lambda _, given: FileSource(str(tmp_path / "*.jsonl"), partition_by="k", **given)
    with runs.begin(given) as evaluator:
        evaluator.run(until=lambda: evaluator.events_in >= COUNT)
        if when == "between runs":
            evaluator.checkpoint()
        with (tmp_path / which).open("a") as file:
            file.write('{"n": 99, "k": "a"}\n')
        while evaluator.step():
            pass
    if is_refused:
        with pytest.raises(NondeterminismDetected, match="its size of a file before the last one"):
            runs.finish(given)
    else:
        assert runs.finish(given) == [*range(COUNT), 99]


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_last_line_without_newline_is_a_record_where_another_file_follows(when: str, tmp_path: Path) -> None:
    """Of followed files with keys only the last may grow: what stands in the others is whole."""
    runs = Runs(lambda _, given: FileSource(str(tmp_path / "*.jsonl"), partition_by="k", **given), tmp_path)
    (tmp_path / "1.jsonl").write_text('{"n": 1, "k": "a"}\n{"n": 2, "k": "a"}')
    if when == "later":
        assert runs.finish({"follow": True}) == [1]
    (tmp_path / "2.jsonl").write_text('{"n": 3, "k": "a"}\n{"n": 4, "k": "a"}')
    assert runs.finish({"follow": True}) == [1, 2, 3]


def test_a_key_that_is_found_later_is_refused_where_its_records_were_left_out(tmp_path: Path) -> None:
    """They are counted in the first partition; with the keys declared that there were, all others come once."""
    path, runs = tmp_path / "rows.jsonl", Runs(lambda _, given: FileSource(path, **given), tmp_path)
    given = {"partition_by": "k", "follow": True, "on_bad_record": "skip"}

    def add(*rows: tuple[int, str]) -> None:
        with path.open("a") as file:
            file.writelines(f"{json.dumps({'n': n, 'k': k})}\n" for n, k in rows)

    add((0, "b"), (1, "b"))
    with runs.begin(given) as evaluator:
        evaluator.start()
        add((2, "c"), (3, "b"))
        evaluator.run(until=lambda: evaluator.events_in >= 3)
    add((4, "b"), (5, "b"))
    later = runs.begin(given)
    with pytest.raises(NondeterminismDetected, match="its partitions is not what it was"):
        later.start()
    later.abandon()
    assert runs.finish({**given, "partitions": ["b"]}) == [0, 1, 3, 4, 5]
