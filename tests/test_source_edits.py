"""An edit of what a source's events come from: fine behind a stop, refused where turns would be read again with it.

Each kind of source, each function that it takes, and each way in which a run may have ended: cleanly, by a kill with
turns behind the checkpoint, by a kill with none.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lanes import crossed, left_to_commits

import reliable_rx as rx
import spark_bridge
from checkpoint import MemoryStore
from hosting import FileSource, GeneratorSource, ListSource, QueryEvaluator
from hosting.partitioned.sections import OnePartition
from hosting.repair.repair import redefined
from hosting.sources.definition import definition_of
from hosting.sources.faults import FaultySource
from hosting.sources.fingerprint import fingerprint_of, part_of
from hosting.sources.kafka import KafkaSource
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from reliable_rx.errors import NondeterminismDetected, SourceFailed
from reliable_rx.reliable import Batch

ROWS = [{"v": n, "s": str(n), "k": "a"} for n in range(12)]
OPTIONS: dict[str, Any] = {"background": False, "checkpoint_interval_s": 1e9, "batch_events_max": 2}
Make = Callable[[Path, Mapping[str, Any]], Any]
"""Makes a source of twelve events from what is to be edited, by the name of its parameter."""


def files(folder: Path, given: Mapping[str, Any]) -> FileSource:
    if "types" in given:
        return FileSource(written(folder / "rows.csv", "v\n" + "".join(f"{row['v']}\n" for row in ROWS)), **given)
    path = written(folder / "rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in ROWS))
    options: dict[str, Any] = {"timestamp": lambda _: 0.0} if "sort_by" in given else {}
    return FileSource(path, **options, **given)


def scaled(by: int, row: dict[str, Any]) -> int:
    return by * int(row["v"])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def spark_log(folder: Path, given: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    from spark_bridge.micro_batch_log import append

    log = folder / "log"
    if not log.exists():
        append(str(log), [pa.RecordBatch.from_pylist(ROWS)], batch=0)
    return spark_bridge.MicroBatchSource(log, **given)


class Feed:
    """A source of a user's own."""

    def __init__(self, timestamp: Callable[[Any], float] | None = None) -> None:
        self.timestamp = timestamp

    def partitions(self) -> list[str]:
        return ["0"]

    def open(self, partition: str, at: int, /) -> Any:
        return SimpleNamespace(fetch=partial(self.fetch, [at]), acknowledge=print, close=lambda: None)

    def fetch(self, at: list[int], count_max: int) -> Batch:
        values = [self.read(n) for n in range(at[0], min(len(ROWS), at[0] + count_max))]
        first, at[0] = at[0], at[0] + len(values)
        return Batch(first, values, ended=at[0] == len(ROWS))

    def read(self, n: int) -> Any:
        return n


class EditedFeed(Feed):
    def read(self, n: int) -> Any:
        return n * 10


def in_list(_: Path, given: Mapping[str, Any]) -> ListSource:
    return ListSource(list(range(12)), **given)


def shared_stream(_: Path, given: Mapping[str, Any]) -> Any:
    return SharedSource(ListSource(list(range(12))), **given).stream("a", name="q")


CASES: dict[str, tuple[Make, str, Any, Any]] = {
    "file, parse": (files, "parse", lambda row: row["v"], lambda row: row["v"] * 10),
    "file, parse of a partial": (files, "parse", partial(scaled, 1), partial(scaled, 10)),
    "file, types": (files, "types", {"v": int}, {"v": float}),
    "file, columns": (files, "columns", ["v"], ["s"]),
    "file, partition_by": (files, "partition_by", lambda row: row["k"], lambda row: row["k"] * 1),
    "file, partition_by a column": (files, "partition_by", "k", "s"),
    "file, sort_by": (files, "sort_by", lambda row: row["v"], lambda row: -row["v"]),
    "file, timestamp": (files, "timestamp", lambda row: row["v"], lambda row: row["v"] + 1),
    "list, timestamp": (in_list, "timestamp", lambda n: n, lambda n: n + 1),
    "generator, function": (
        lambda _, given: GeneratorSource(**given, count=12), "function", lambda n, _: n, lambda n, _: n * 10,
    ),
    "generator, function of a partition": (
        lambda _, given: GeneratorSource(**given, count=12, partitions=["0"]),
        "function", {"0": lambda n, _: n}, {"0": lambda n, _: n * 10},
    ),
    "generator, timestamp": (
        lambda _, given: GeneratorSource(lambda n, _: n, count=12, **given), "timestamp", lambda n: n, lambda n: n + 1,
    ),
    "spark log, timestamp": (spark_log, "timestamp", lambda row: row["v"], lambda row: row["v"] + 1),
    "spark log, values": (spark_log, "values", "dict", "tuple"),
    "own, timestamp": (lambda _, given: Feed(**given), "timestamp", lambda n: n, lambda n: n + 1),
    "own, class": (lambda _, given: given["class"](), "class", Feed, EditedFeed),
    "faulty": (
        lambda _, given: FaultySource(files(_, given), ()),
        "parse", lambda row: row["v"], lambda row: row["v"] * 10,
    ),
    "polled": (
        lambda _, given: PolledSource(files(_, given), Want(count_max=3)),
        "parse", lambda row: row["v"], lambda row: row["v"] * 10,
    ),
    "shared": (
        lambda _, given: SharedSource(files(_, given)).named("q"),
        "parse", lambda row: row["v"], lambda row: row["v"] * 10,
    ),
    "shared, stream_of": (shared_stream, "stream_of", lambda n: "a", lambda n: "ab"[n - n]),
    "one partition": (
        lambda _, given: OnePartition(files(_, given), "rows.jsonl"),
        "parse", lambda row: row["v"], lambda row: row["v"] * 10,
    ),
}  # fmt: skip
NOT_READ_WITH = {
    ("GeneratorSource", "clock"), ("PolledSource", "bytes_of"), ("PolledSource", "clock"),
    ("SharedSource", "bytes_of"), ("SharedSource", "apart"), ("GeneratorSource", "rate_per_s"),
}  # fmt: skip
"""Functions that decide when, or how much at once, and nothing that a replay has to repeat."""
COVERED: tuple[tuple[Any, set[str]], ...] = (
    (FileSource, {"parse", "types", "partition_by", "sort_by", "timestamp"}),
    (ListSource, {"timestamp"}),
    (GeneratorSource, {"function", "timestamp"}),
    (KafkaSource, {"decode", "timestamp"}),  # below, and with brokers in tests/kafka
    (PolledSource, set()),
    (FaultySource, set()),
    (SharedSource, {"stream_of"}),
    (spark_bridge.MicroBatchSource, {"timestamp"}),
)


class Runs:
    """The runs of one app on one store."""

    def __init__(self, make: Callable[[Any], Any], **options: Any) -> None:
        self.make, self.options = make, {**OPTIONS, **options}
        self.store = MemoryStore()

    def begin(self, value: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, **self.options)
        evaluator.source("n", self.make(value))
        evaluator.create("q", rx.source("n").map(repr))
        evaluator.create("sum", rx.source("n").scan(lambda count, _: count + 1, 0))
        return evaluator

    def until(self, value: Any, events: int, end: str) -> int:
        """Run with *value* as what is edited until there were *events* events, and *end* then; return how many."""
        evaluator = self.begin(value)
        evaluator.run(until=lambda: evaluator.statistics().events_in >= events)
        evaluator.flush()
        if end != "killed":
            evaluator.checkpoint()
        (evaluator.close if end == "stopped" else evaluator.abandon)()
        return evaluator.events_in

    def outputs(self, value: Any) -> tuple[list[str], list[int]]:
        """Run with *value* to the end, and return what came out in all runs."""
        with self.begin(value) as evaluator:
            evaluator.run(until=lambda: evaluator.query("sum").emitted >= 12)
            assert not evaluator.query("q").error and not evaluator.query("sum").error, evaluator.query("q").error
            q, count = (
                [value for part in evaluator.stream(name).read(0, 100) for value in part.values]
                for name in ("q", "sum")
            )
        return q, count


def runs_of(case: str, tmp_path: Path, **options: Any) -> tuple[Runs, str, Any, Any]:
    make, name, before, after = CASES[case]
    return Runs(lambda value: make(tmp_path, {name: value}), **options), name, before, after


@pytest.mark.parametrize("case", CASES)
def test_an_edit_behind_a_kill_is_refused_and_named_and_nothing_is_lost(case: str, tmp_path: Path) -> None:
    """The error names source and function; with the old code back all outputs are those of a run without a kill."""
    runs, name, before, after = runs_of(case, tmp_path)
    unbroken = runs_of(case, tmp_path)[0].outputs(before)
    assert len(unbroken[0]) == 12 and unbroken[1] == [*range(1, 13)]
    runs.until(before, 4, "killed")
    for _ in range(2):
        edited = runs.begin(after)
        with pytest.raises(NondeterminismDetected, match=f"source 'n'.* its {name}") as refused:
            edited.start()
        edited.abandon()
        assert refused.value.fields["source"] == "n" and re.search("put (the old|it back)", refused.value.message)
    assert runs.outputs(before) == unbroken


@pytest.mark.parametrize("case, end", crossed(CASES, ["stopped", "killed behind a checkpoint"], nightly=1))
def test_an_edit_where_no_turn_is_read_again_needs_nothing(case: str, end: str, tmp_path: Path) -> None:
    """What comes then is what the edited source gives, from the position on that was reached."""
    runs, name, before, after = runs_of(case, tmp_path)
    at = runs.until(before, 4, end)
    if name in ("partition_by", "sort_by"):  # its number is of another event: tests/test_source_numbering.py
        edited = runs.begin(after)
        with pytest.raises(NondeterminismDetected, match="does not count as it did"):
            edited.start()
        edited.abandon()
        return
    if name in ("timestamp", "columns"):  # what it is an event of has changed
        with runs.begin(after) as evaluator:
            evaluator.run(until=lambda: evaluator.statistics().events_in >= 2)
            assert evaluator.query("q").status != "failed"
        return
    old, new = (runs_of(case, tmp_path)[0].outputs(each)[0] for each in (before, after))
    assert runs.outputs(after) == ([*old[:at], *new[at:]], [*range(1, 13)])


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_what_counts_is_what_has_read_the_turns(end: str, tmp_path: Path) -> None:
    """An edit behind a stop, and a kill: the edited code goes on, and the one before it does not."""
    runs, _, before, after = runs_of("file, parse", tmp_path)
    runs.until(before, 4, "stopped")
    runs.until(after, 2, "killed")
    first = runs.begin(before)
    with pytest.raises(NondeterminismDetected, match="parse"):
        first.start()
    first.abandon()
    runs.until(after, 2, end)
    assert runs.outputs(after)[0] == [*map(repr, range(4)), *map(repr, range(40, 120, 10))]


def test_an_edit_of_a_source_of_which_no_turn_is_left_is_no_hindrance(tmp_path: Path) -> None:
    """Turns of another source are read again as ever."""
    runs, _, before, after = runs_of("file, parse", tmp_path)
    numbers = list[int]()

    def begin(value: Any) -> QueryEvaluator:
        evaluator = runs.begin(value)
        evaluator.source("other", ListSource(numbers, follow=True))
        evaluator.create("others", rx.source("other"))
        return evaluator

    evaluator = begin(before)
    evaluator.run(until=lambda: evaluator.events_in >= 12)
    evaluator.checkpoint()
    numbers += [1, 2]
    evaluator.run(until=lambda: evaluator.statistics().events_in >= 14)
    evaluator.flush()
    evaluator.abandon()
    with begin(after) as evaluator:
        evaluator.start()
        assert evaluator.query("others").emitted == 2 and evaluator.query("q").error == ""


def test_without_strictness_and_in_a_repair_it_goes_on_and_is_named(tmp_path: Path) -> None:
    """Turns are read with what is there; a repair names the source."""
    runs, _, before, after = runs_of("file, parse", tmp_path, strict=False)
    runs.until(before, 4, "killed")
    with runs.begin(after) as evaluator:
        evaluator.start()
        assert any("its parse" in each for each in evaluator.warnings)
        [found] = redefined(evaluator)
        assert found.subject == "source 'n'" and "parse" in found.wrong and "read again" in found.remedy
    with runs.begin(after) as evaluator:
        evaluator.start()
        assert not redefined(evaluator) and not any("parse" in each for each in evaluator.warnings)


TEXT = """
import functools, time
FACTOR, TABLE, CACHE, COUNT = $, {'a': $}, {}, 0
STARTED = time.time_ns()
def helper(r): return r['v'] * $
class Parser:
    rate = $
    def __init__(self): self.started, self.count, self.cache, self.by = time.time_ns(), 0, {}, $
    def parse(self, r):
        self.count += 1
        return self.cache.setdefault(r['v'], r['v'] * self.by)
    def __call__(self, r): return r['v'] * self.rate
@functools.lru_cache
def kept(v): return v * $
def counted(r):
    global COUNT
    COUNT += 1
    CACHE[r['v']] = COUNT
    return r['v'] * FACTOR
PARSERS = {
    'function': helper, 'lambda of a helper': lambda r: helper(r), 'constant': counted,
    'table': lambda r: r['v'] * TABLE['a'], 'method': Parser().parse, 'object': Parser(),
    'partial': functools.partial(lambda by, r: r['v'] * by, $), 'cached': lambda r: kept(r['v']),
    'closure': (lambda by: lambda r: r['v'] * by)($), 'object by name': lambda r: OBJECT.parse(r),
}
OBJECT = Parser()
"""


def parsers(factor: int) -> dict[str, Any]:
    """Load a module as another process would."""
    module = ModuleType("parsers_of_a_user")
    sys.modules[module.__name__] = module
    exec(compile(TEXT.replace("$", str(factor)), "<parsers>", "exec"), vars(module))
    found: dict[str, Any] = vars(module)["PARSERS"]
    return found


@pytest.mark.parametrize("kind", list(parsers(1)))
def test_what_a_function_reaches_counts_and_what_it_changes_does_not(kind: str, tmp_path: Path) -> None:
    """Helpers, constants, tables and objects are a part of it; caches, counters and the time of a start are not."""
    runs = Runs(lambda parse: files(tmp_path, {"parse": parse}))
    runs.until(parsers(1)[kind], 4, "killed")
    edited = runs.begin(parsers(2)[kind])
    with pytest.raises(NondeterminismDetected, match="parse"):
        edited.start()
    edited.abandon()
    runs.until(parsers(1)[kind], 4, "killed")
    assert runs.outputs(parsers(1)[kind])[0] == [repr(n) for n in range(12)]


def test_each_function_that_a_source_takes_is_a_part_of_it() -> None:
    """A new parameter that is a function is in the definition, or is listed as one that decides nothing."""
    for kind, parts in COVERED:
        hints = {name: str(each.annotation) for name, each in inspect.signature(kind.__init__).parameters.items()}
        taken = {name for name, hint in hints.items() if "Callable" in hint or "Function" in hint}
        assert taken - parts == {name for of, name in NOT_READ_WITH if of == kind.__name__ and name in taken}, kind
    kafka = KafkaSource("t", bootstrap_servers="nowhere", decode=str, timestamp=float)
    assert {"decode", "timestamp"} <= definition_of(kafka).keys()


def test_what_cannot_be_hashed_is_not_compared() -> None:
    """A definition that raises, or holds what no hash takes, is no reason not to start."""

    class Bad:
        def definition(self) -> Any:
            raise SystemExit(1)

    assert not fingerprint_of(Bad())[0].parts  # type: ignore[arg-type]


def test_a_hash_that_is_kept_is_made_anew_when_a_name_means_something_else() -> None:
    """A helper that was defined anew, a table that was changed in place, and the same function."""
    parse = parsers(1)
    space = parse["function"].__globals__
    for kind, change in (
        ("lambda of a helper", lambda: space.update(helper=lambda r: 0)),
        ("constant", lambda: space.update(FACTOR=3)),
        ("table", lambda: space["TABLE"].update(a=5)),
        ("object by name", lambda: setattr(space["OBJECT"], "by", 7)),
    ):
        before = part_of(parse[kind]).digests
        assert part_of(parse[kind]).digests == before
        change()
        assert part_of(parse[kind]).digests != before, kind


def test_a_repair_says_of_each_query_that_its_source_is_read_in_another_way(tmp_path: Path) -> None:
    """No clock and no random number is blamed where it is known which function differs."""
    runs, _, before, after = runs_of("file, parse", tmp_path, strict=False)
    runs.until(before, 4, "killed")
    with runs.begin(after) as evaluator:
        evaluator.start()
        [error] = evaluator.engine.suspended.differing.values()
        assert "source 'n' is read with another function" in str(error) and "clock" not in str(error)
        assert evaluator.query("q").status == "running"


READS_STREAMS = {"StreamSource", "StoredStreamSource", "GroupStreamSource", "PushedStream"}
"""Sources that are given no function."""


@left_to_commits
def test_each_source_of_the_library_says_what_it_is() -> None:
    """A new one that wraps a source, or is given a function, has a definition, or is listed."""
    root, found = Path(__file__).parent.parent, set[str]()
    for path in (*(root / "hosting").rglob("*.py"), *(root / "spark_bridge").rglob("*.py")):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef):
                methods = {item.name for item in each.body if isinstance(item, ast.FunctionDef)}
                if {"partitions", "open"} <= methods:
                    text = ast.unparse(each)
                    found |= {each.name} if "definition" not in text and "hand_on(" not in text else set()
    assert found <= READS_STREAMS, found - READS_STREAMS


@pytest.mark.parametrize("steps", [False, True], ids=["run", "step"])
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_function_that_raises_at_a_record_can_be_mended(killed: bool, steps: bool, tmp_path: Path) -> None:
    """A run that a record ends keeps all that was read before it, so the function is mended as behind a clean stop."""
    path = written(tmp_path / "rows.csv", "v\n1\n2\n3\nx\n5\n")
    store = MemoryStore()

    def run(parse: Callable[[dict[str, str]], int]) -> list[Any]:
        evaluator = QueryEvaluator(store, **OPTIONS)
        evaluator.source("n", FileSource(path, parse=parse))
        evaluator.create("sum", rx.source("n").scan(lambda total, n: total + n, 0))
        try:
            while steps and evaluator.step():
                pass
            evaluator.run()
        finally:
            evaluator.abandon() if killed else evaluator.close()
        return [value for part in evaluator.stream("sum").read(0, 100) for value in part.values]

    with pytest.raises(SourceFailed, match="invalid literal"):
        run(lambda row: int(row["v"]))
    store = store.reopen()
    assert run(lambda row: int(row["v"]) if row["v"].isdigit() else 4) == [1, 3, 6, 10, 15]
