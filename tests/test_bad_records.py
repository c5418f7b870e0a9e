"""Records that a source cannot read, in an evaluator: left out, made dead letters of, or the end of the run."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed, every, every_of

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import App, FileSource, GeneratorSource, JsonLinesSink, QueryEvaluator
from hosting.partitioned.sections import OnePartition
from hosting.sources import lines
from hosting.sources.decoding import shown
from hosting.sources.faults import FaultySource
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from reliable_rx import operators as ops
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.reliable import DeadLetter
from reliable_rx.testing import check_ledger, hostile
from reliable_rx.testing.steps import add

FILES: dict[str, tuple[bytes, list[int]]] = {
    "good.jsonl": (b"1\n2\n3\n4\n5\n", []),
    "first.jsonl": (b"{\n2\n3\n", [0]),
    "last.jsonl": (b"1\n2\n\xff\n", [2]),
    "runs.jsonl": (b"1\n{\n{\n{\n5\n6\n{\n{\n9\n10\n", [1, 2, 3, 6, 7]),
    "only.jsonl": (b"{\n{\n{\n", [0, 1, 2]),
    "empty.jsonl": (b"", []),
    "types.jsonl": (b'1\n"two"\n3\n[4]\n5\n', [1, 3]),
    "rows.csv": (b"n\n1\n2,2\n3\n\"4\n5\nsix\n7\n", [1, 3, 5]),
}  # fmt: skip


def number(value: Any) -> int:
    return int(value["n"]) if isinstance(value, dict) else value + 0


HOSTS: list[Host] = []


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 8)
    yield
    while HOSTS:
        HOSTS.pop().evaluator.close()


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """A file, and which of its records are none."""
    data, bad = FILES[request.param]
    path = tmp_path / request.param
    path.write_bytes(data)
    return path, bad


class Host:
    """One store, one evaluator after the other."""

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        query: Callable[[Any], Any] = lambda rows: rows.pipe(ops.scan(add, 0)),
        **options: Any,
    ) -> None:
        self.make, self.query, self.options = make, query, {"batch_events_max": 2, **options}
        self.store = MemoryStore()
        self.evaluator = self.new()
        HOSTS.append(self)

    def new(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, **self.options)
        evaluator.source("rows", self.make())
        evaluator.create("sum", self.query(rx.source("rows")))
        return evaluator

    def crash(self) -> None:
        self.evaluator.intake.close()
        self.store = self.store.reopen()
        self.evaluator = self.new()

    def take(self, count: int) -> bool:
        """Take turns one by one and make them durable; return whether there are no more."""
        self.evaluator.start()
        taken = 0
        for _ in range(100):
            turn = self.evaluator._next_turn() if taken < count else None
            if turn is not None:
                self.evaluator.turns.take(turn)
                taken += 1
        self.evaluator.flush()
        return taken < count

    def seen(self, name: str) -> list[Any]:
        return [value for part in self.evaluator.stream(name).read(0, 1000) for value in part.values]


WRAPPED: dict[str, Callable[[FileSource], Any]] = {
    "plain": lambda source: source,
    "polled": lambda source: PolledSource(source, Want(count_min=3, count_max=5, wait_s=0.0)),
    "faulty": lambda source: FaultySource(source, []),
    "shared": lambda source: SharedSource(source, events_max=2),
    "named": lambda source: SharedSource(source, events_max=2).named("me"),
    "one partition": lambda source: OnePartition(source, source.partitions()[0]),
}


def outcome(host: Host) -> tuple[list[Any], list[DeadLetter]]:
    return host.seen("sum"), host.seen("rows.dead_letters")


def check_recovered(make: Callable[[], Any], policy: str, bad: dict[str, list[int]]) -> None:
    """Hold it to the same sums and letters wherever it crashes; of several partitions the letters in any order."""
    calm = Host(make)
    calm.evaluator.run()
    sums, letters = outcome(calm)
    found = {name: [each.position for each in letters if each.partition == name] for name in bad}
    assert found == (bad if policy == "dead_letter" else {name: [] for name in bad})
    read = sum(each for (source, _), each in calm.evaluator.statistics().positions.items() if source == "rows")
    assert read == len(sums) + sum(map(len, bad.values()))
    assert all(letter.source == "rows" and letter.partition in letter.error for letter in letters)
    for steps in range(1, 40):
        for checkpointed in (False, True):
            host = Host(make)
            is_over = host.take(steps)
            before = outcome(host)
            if checkpointed:
                host.evaluator.checkpoint()
            host.crash()
            host.evaluator.start()
            assert outcome(host)[0][: len(before[0])] == before[0]
            host.evaluator.run()
            for expected, seen in zip((sums, letters), outcome(host), strict=True):
                in_order = (lambda each: each) if len(bad) == 1 else by_place
                check_ledger(in_order(expected), in_order(seen)).check(f"crashed after {steps} turns")
            assert host.evaluator.intake.bad_records.counts["rows"] == sum(map(len, bad.values())), steps
        if is_over:
            break
    assert is_over


def by_place(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda each: (each.partition, each.position) if isinstance(each, DeadLetter) else each)


@pytest.mark.parametrize("policy, wrapped, timed", crossed(["skip", "dead_letter"], WRAPPED, [False, True], nth=3))
def test_recovered_at_every_boundary(file: tuple[Path, list[int]], policy: Any, wrapped: str, timed: bool) -> None:
    """Good records are taken once, in order, and bad ones become the same dead letters, wherever it crashes."""
    path, bad = file

    def make() -> Any:
        timestamp = float if timed else None
        return WRAPPED[wrapped](FileSource(path, parse=number, on_bad_record=policy, timestamp=timestamp))

    check_recovered(make, policy, {path.name: bad})


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_several_files_on_event_time(tmp_path: Path, policy: Any) -> None:
    """Bad records of one partition wait for those of another, and none is lost in a checkpoint between them."""
    check_recovered(several_files(tmp_path, policy), policy, {"a.jsonl": [0, 2, 3, 6], "b.jsonl": [0, 1, 4]})


def several_files(folder: Path, policy: Any) -> Callable[[], FileSource]:
    (folder / "a.jsonl").write_bytes(b"{\n1\n{\n{\n4\n9\n{\n")
    (folder / "b.jsonl").write_bytes(b"{\n{\n2\n3\n{\n8\n")
    return lambda: FileSource(str(folder / "*.jsonl"), on_bad_record=policy, timestamp=float)


def test_what_fails_can_be_read_past(tmp_path: Path) -> None:
    """Under `fail` nothing is lost: the error says where and what to do, and with another policy it goes on there."""
    path = tmp_path / "rows.csv"
    path.write_bytes(b"n\n1\n2\nx\n4\n")
    policy = ["fail"]

    def make() -> FileSource:
        return FileSource(path, types={"n": int}, parse=number, on_bad_record=policy[0])  # type: ignore[arg-type]

    host = Host(make)
    with pytest.raises(SourceFailed, match=r"line 4 \(byte 6\): column 'n' holds 'x'.*on_bad_record='skip'") as caught:
        host.evaluator.run()
    assert (caught.value.partition, caught.value.position) == ("rows.csv", 2)
    assert host.seen("sum") == [1, 3]
    incident, ended = host.evaluator.statistics().incidents
    assert (ended.kind, ended.subject) == ("loop", "run")
    assert (incident.kind, incident.level) == ("source", "error") and "line 4 (byte 6)" in incident.message
    policy[0] = "dead_letter"
    host.crash()
    host.evaluator.run()
    assert host.seen("sum") == [1, 3, 7]
    assert [letter.value for letter in host.seen("rows.dead_letters")] == [{"n": "x"}]


def test_what_came_before_a_bad_record_is_written_in_the_run_that_it_ends(tmp_path: Path) -> None:
    """What is durable is in the sinks, also that of other sources."""
    (tmp_path / "bad.csv").write_text("n\n1\n2\nx\n")
    (tmp_path / "good.csv").write_text("n\n3\n4\n")
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store) as evaluator:
        for name in ("good", "bad"):
            evaluator.source(name, FileSource(tmp_path / f"{name}.csv", types={"n": int}))
            evaluator.create(f"of {name}", rx.source(name).map(lambda row: row["n"]))
            evaluator.sink(f"of {name}", JsonLinesSink(tmp_path / f"{name}.jsonl"))
        with pytest.raises(SourceFailed):
            evaluator.run()
        written = {name: (tmp_path / f"{name}.jsonl").read_text().count('"value"') for name in ("good", "bad")}
        assert written == {"good": 2, "bad": 2}


@pytest.mark.parametrize("change", [("skip", "dead_letter"), ("dead_letter", "skip")])
def test_the_policy_changes_behind_a_crash(tmp_path: Path, change: tuple[str, str]) -> None:
    """What was journalled under one policy is replayed as it was; what comes behind is under the other."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n{\n3\n")
    policy = [change[0]]
    host = Host(lambda: FileSource(path, follow=True, on_bad_record=policy[0]))  # type: ignore[arg-type]
    while host.evaluator.step():
        pass
    before = outcome(host)
    assert before[0] == [1, 4]
    with path.open("ab") as more:
        more.write(b"{\n5\n")
    policy[0] = change[1]
    host.crash()
    while host.evaluator.step():
        pass
    positions = [letter.position for letter in host.seen("rows.dead_letters")]
    assert positions == ([1] if change[0] == "dead_letter" else [3])
    assert host.seen("sum") == [1, 4, 9]


def test_they_are_told(tmp_path: Path) -> None:
    """One open incident per source says how many, what becomes of them, and which was the last."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n" + b"{\n" * 3000 + b"3\n")
    host = Host(lambda: FileSource(path, on_bad_record="skip"))
    host.evaluator.run()
    (incident,) = host.evaluator.statistics().incidents
    assert (incident.kind, incident.subject, incident.level) == ("bad records", "rows", "warning")
    assert "3,000 records could not be read so far; they are left out" in incident.message
    assert "position 3,000: rows.jsonl, byte 6,000: not a line of JSON" in incident.message
    assert host.seen("sum") == [1, 4]


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_their_number_survives(tmp_path: Path, policy: Any, stops: bool) -> None:
    """Each start tells how many there were in all runs, behind a stop and behind a kill, each counted once."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n{\n2\n")
    host = Host(lambda: FileSource(path, on_bad_record=policy, follow=True))
    for run in range(3):
        told = [each.message.partition(" could")[0] for each in host.evaluator.statistics().incidents]
        assert told == ([f"{run * 2 - 1} record{'s' if run > 1 else ''}"] if run else [])
        while host.evaluator.step():
            pass
        if stops:
            host.evaluator.close()
        with path.open("ab") as more:
            more.write(b"{\n5\n{\n6\n")
        host.crash()
        host.evaluator.start()


def test_no_such_policy(tmp_path: Path) -> None:
    """A policy that there is not is refused when the source is made."""
    path = tmp_path / "rows.jsonl"
    path.touch()
    with pytest.raises(ValueError, match="on_bad_record must be one of fail, skip, dead_letter, got 'ignore'"):
        FileSource(path, on_bad_record="ignore")  # type: ignore[arg-type]


def test_a_failing_source_ends_in_words(file: tuple[Path, list[int]]) -> None:
    """Under `fail` a run ends whole or with one of our errors."""
    path, bad = file
    host = Host(lambda: FileSource(path, parse=number))
    try:
        host.evaluator.run()
    except ReliableRxError as error:
        assert bad and isinstance(error, SourceFailed) and error.position == bad[0]
    else:
        assert not bad


class Gone:
    """A class that a later version of an app no longer has."""


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_pushed_values_whose_class_is_gone(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are bad records of their input: the values around them are taken, and they become dead letters as bytes."""
    store = MemoryStore()
    first = QueryEvaluator(store, background=False)
    first.push("rows").push([1, Gone(), Gone(), 4])
    first.close()
    monkeypatch.delattr(f"{__name__}.Gone")
    for _ in range(2):
        store = store.reopen()
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        pushed = evaluator.push("rows", on_bad_record=policy)
        evaluator.create("sum", rx.source("rows").pipe(ops.scan(add, 0)))
        assert pushed.bounds("0") == (0, 4)
        if policy == "fail":
            with pytest.raises(SourceFailed, match="id 1 pushed into 'rows' cannot be loaded: AttributeError"):
                evaluator.run(until=lambda: False)
        else:
            while evaluator.step():
                pass
        found = [value for part in evaluator.stream("sum").read(0, 9) for value in part.values]
        letters = [each for part in evaluator.stream("rows.dead_letters").read(0, 9) for each in part.values]
        assert found == ([1] if policy == "fail" else [1, 5])
        assert [each.position for each in letters] == ([1, 2] if policy == "dead_letter" else [])
        assert all(b"Gone" in bytes.fromhex(each.value) for each in letters)
        evaluator.close()


READABLE = {"all": True}


def readable(value: Any) -> Any:
    if value == 13 and not READABLE["all"]:
        raise LookupError("the decoder of 13 is gone")
    return value


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("kind", ["pushed", "file", "time"])
def test_a_record_that_cannot_be_read_again_is_named(
    kind: str, policy: Any, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a kill, to leave out what a turn had taken is refused with the id, the reason, and what is to be done."""

    def opened(policy: Any) -> QueryEvaluator:
        made = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=at_once)
        if kind == "pushed":
            pushed = made.push("rows", on_bad_record=policy)
            if not pushed.end:
                pushed.push([1, Gone(), 3])
        else:
            read: Any = {"timestamp": readable} if kind == "time" else {"parse": lambda line: readable(float(line))}
            made.source("rows", FileSource(tmp_path / "rows.jsonl", on_bad_record=policy, **read))
        made.create("count", rx.source("rows").pipe(ops.count()))
        return made

    (tmp_path / "rows.jsonl").write_text("1.0\n13.0\n3.0\n")
    store, why = MemoryStore(), "the decoder of 13 is gone" if kind != "pushed" else "attribute 'Gone'"
    first = opened("fail")
    while first.step():
        pass
    first.flush()
    first.abandon()
    store = store.reopen()
    with monkeypatch.context() as patch:
        patch.setitem(READABLE, "all", False)
        patch.delattr(f"{__name__}.Gone")
        with pytest.raises(PositionUnavailable, match=rf"id 1, which was read then, .*{why}.*; let it read as it did"):
            opened(policy).start()
    store = store.reopen()
    with opened("fail") as evaluator:
        evaluator.start()
        assert evaluator.recovery is not None and evaluator.recovery.replayed_events == 3


def test_a_sink_takes_the_dead_letters_of_a_source(tmp_path: Path) -> None:
    """An app sends them to a sink like those of a query."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n\xff\n3\n")
    app = App()
    app.source("rows", FileSource(path, on_bad_record="dead_letter"))
    app.query("sum", rx.source("rows").pipe(ops.scan(add, 0)))
    app.sink("rows.dead_letters", JsonLinesSink(tmp_path / "bad.jsonl"))
    with pytest.raises(KeyError, match=r"no query is called 'rows\.late'|no query is called"):
        app.sink("rows.late", JsonLinesSink(tmp_path / "late.jsonl"))
    with app.evaluator(MemoryStore()) as evaluator:
        evaluator.run()
    (letter,) = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines() if "rows" in line]
    told = letter.get("value", letter)
    assert (told["position"], told["value"]) == (1, "\\xff")


def time_of(value: Any) -> float:
    return {"nan": float("nan"), "none": None, "text": "late"}.get(value, value)  # type: ignore[return-value]


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_events_whose_time_cannot_be_read(tmp_path: Path, policy: Any) -> None:
    """They are bad records of their source too, at every boundary, and never end a run in a raw error."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'1\n"nan"\n"none"\n2\n3\n{\n"text"\n4\n"nan"\n')

    def make() -> FileSource:
        return FileSource(path, timestamp=time_of, on_bad_record=policy)

    host = Host(make)
    if policy == "fail":
        with pytest.raises(SourceFailed, match="the time of id 1 cannot be read: nan is no time"):
            host.evaluator.run()
        assert host.seen("sum") == [1]
        return
    for steps in range(12):
        host = Host(make)
        host.take(steps)
        if steps % 2:
            host.evaluator.checkpoint()
        host.crash()
        host.evaluator.run()
        assert host.seen("sum") == [1, 3, 6, 10]
        bad = [1, 2, 5, 6, 8] if policy == "dead_letter" else []
        assert [letter.position for letter in host.seen("rows.dead_letters")] == bad


def growth(host: Host) -> list[str]:
    return [each.message for each in host.evaluator.statistics().incidents if each.kind == "growth"]


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_file_that_has_grown_behind_its_end(tmp_path: Path, checkpointed: bool, wrapped: str) -> None:
    """What is appended to a file that is not followed is told of at the next start, whatever the store knows of it."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n2\n")
    host = Host(lambda: WRAPPED[wrapped](FileSource(path)))
    host.evaluator.run()
    if checkpointed:
        host.evaluator.checkpoint()
    host.crash()
    host.evaluator.run()
    assert (host.seen("sum"), growth(host)) == ([1, 3], [])
    with path.open("ab") as more:
        more.write(b"3\n{\n")
    host.crash()
    host.evaluator.run()
    assert host.seen("sum") == [1, 3]
    (message,) = growth(host)
    assert ("has grown from 4 to 8 bytes" if checkpointed else "has more records than when") in message
    assert "a source of another name (with follow=True" in message


@pytest.mark.parametrize("cleanly", [False, True])
def test_a_file_that_has_grown_is_read_under_another_name(tmp_path: Path, *, cleanly: bool) -> None:
    """The remedy that the warning names: the query begins afresh on the same store, and reads all of the file."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n2\n")
    host = Host(lambda: FileSource(path))
    host.evaluator.run()
    if cleanly:
        host.evaluator.checkpoint()
    with path.open("ab") as more:
        more.write(b"3\n")
    for _ in range(2):
        host.crash()
        evaluator = QueryEvaluator(host.store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("again", FileSource(path))
        if not cleanly:
            evaluator.source("rows", host.make())
        evaluator.create("sum", host.query(rx.source("again")))
        evaluator.run(until=lambda: evaluator.events_in >= 3 or evaluator.finished)
        stream = evaluator.stream("sum")
        parts = list(stream.read(0, 100))
        assert [value for part in parts for value in part.values] == [1, 3, 1, 3, 6]
        assert not [
            each for each in evaluator.statistics().incidents if each.kind == "growth" and each.subject == "again"
        ]
        evaluator.close()


def test_a_file_that_grows_beside_other_inputs(tmp_path: Path) -> None:
    """It is found out at a checkpoint too, and a file that is followed or gone is nobody's concern."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"1\n")
    host = Host(lambda: FileSource(str(tmp_path / "[ac].jsonl")))
    host.evaluator.source("followed", FileSource(tmp_path / "b.jsonl", follow=True))
    while host.evaluator.step():
        pass
    host.evaluator.checkpoint()
    assert growth(host) == []
    (tmp_path / "a.jsonl").unlink()
    for name in ("b", "c"):
        with (tmp_path / f"{name}.jsonl").open("ab") as more:
            more.write(b"2\n")
    while host.evaluator.step():
        pass
    host.evaluator.checkpoint()
    (message,) = growth(host)
    assert "c.jsonl has grown from 2 to 4 bytes" in message


def test_keyed_and_sorted_files_that_have_grown(tmp_path: Path) -> None:
    """However a file is divided or ordered, it is one file that grows."""
    path = tmp_path / "rows.jsonl"
    for options in ({"partition_by": lambda n: n % 2}, {"sort_by": lambda n: -n}):
        path.write_bytes(b"1\n2\n")
        host = Host(lambda options=options: FileSource(path, **options))  # type: ignore[misc]
        host.evaluator.run()
        host.evaluator.checkpoint()
        with path.open("ab") as more:
            more.write(b"3\n")
        host.crash()
        host.evaluator.run()
        assert "has grown from 4 to 6 bytes" in growth(host)[0]


ERRORS = {each.name: each for each in hostile.ERRORS}
PLACES = ("types", "parse", "key", "timestamp")


@pytest.mark.parametrize("place, kind, name", every_of(27, product(PLACES, ["jsonl", "csv"], ERRORS), commits=9))
def test_whatever_the_functions_of_a_source_raise(tmp_path: Path, name: str, kind: str, place: str) -> None:
    """It spoils the records on which it is raised, in our words; they are the same after a crash."""
    path = tmp_path / f"rows.{kind}"
    is_csv = kind == "csv"
    path.write_bytes(b"n\n" * is_csv + b"".join((b"%d\n" if is_csv else b'{"n": %d}\n') % n for n in range(10)))
    hostile_one = hostile.Raises(name)

    def raises(text: Any) -> Any:
        return hostile_one(int(text))

    policy: list[Any] = ["fail"]

    def make() -> FileSource:
        places: dict[str, dict[str, Any]] = {
            "types": {"types": {"n": raises}},
            "parse": {"parse": lambda row: (raises(row["n"]), row)[1]},
            "key": {"partition_by": lambda row: "01"[raises(row["n"]) % 2], "partitions": ["0", "1"]},
            "timestamp": {"timestamp": lambda row: float(raises(row["n"]))},
        }
        return FileSource(path, on_bad_record=policy[0], **places[place])

    host = Host(make, query=lambda rows: rows.map(lambda row: int(row["n"])))
    with pytest.raises(SourceFailed, match=r"rows.*mend.*on_bad_record='skip'") as caught:
        host.evaluator.run()
    assert caught.value.position == (2 if place == "key" else 4)
    policy[0] = "dead_letter"
    for _ in range(2):
        host.crash()
        host.evaluator.run()
        assert sorted(host.seen("sum")) == [0, 1, 2, 3, 5, 6, 7, 8]
        letters = host.seen("rows.dead_letters")
        assert [int(each.value["n"]) for each in letters] == [4, 9]
        assert all(len(each.error) < 3000 for each in letters)


@pytest.mark.parametrize("name", every(3, ERRORS, commits=1))
def test_whatever_a_generator_or_an_order_raises(tmp_path: Path, name: str) -> None:
    """It is a failure of the source that names the record, with what comes before it delivered."""
    reader = GeneratorSource(lambda i, _: hostile.Raises(name)(i), count=9).open("0", 0)
    assert reader.fetch(100).values == [0, 1, 2, 3]
    for _ in range(2):
        with pytest.raises(SourceFailed, match="failed at record 4") as caught:
            reader.fetch(100)
        assert (caught.value.partition, caught.value.position) == ("0", 4)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n4\n")
    with pytest.raises(SourceFailed, match="sort_by failed"):
        FileSource(path, sort_by=hostile.Raises(name)).open(path.name, 0).fetch(1)


def test_an_interrupt_is_not_a_bad_record(tmp_path: Path) -> None:
    """Ctrl-C while a function reads a record goes through, whatever the policy."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n")
    for place in ("parse", "partition_by", "timestamp", "sort_by"):
        options: dict[str, Any] = {place: InterruptedOnce()}
        if place == "partition_by":
            options["partitions"] = ["a"]
        host = Host(lambda options=options: FileSource(path, on_bad_record="skip", **options))  # type: ignore[misc]
        with pytest.raises(KeyboardInterrupt):
            host.evaluator.run()
    with pytest.raises(KeyboardInterrupt):
        shown(InterruptedOnce())


class InterruptedOnce:
    """A function, and an object that is shown, at whose first call somebody presses Ctrl-C."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: Any = None) -> str:
        self.calls += 1
        if self.calls == 1:
            signal.raise_signal(signal.SIGINT)
        return "a"

    __repr__ = __call__
