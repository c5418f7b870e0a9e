"""Partitions that come when their source has ended for its queries, as tomorrow's file of a daily batch does.

Every event of them is read by a query, once, or is told to be unread and kept for one that begins.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.command import main
from hosting.edges.late_partitions import AFTER_THE_END
from hosting.engine.turns import Expect
from hosting.sources import FileSource
from reliable_rx.event_time import event_time
from reliable_rx.reliable import Batch, Listing, Reader

n, m = rx.source("n"), rx.source("m")
FIRST, LATE = [1, 2, 3], [40, 50]


def mended(value: int) -> int:
    return value


def strict(value: int) -> int:
    if value == 2:
        raise ValueError("two")
    return value


QUERIES: dict[str, Any] = {
    "completed": n.map(lambda value: value),
    "took one": n.take(1),
    "failed": n.map(strict),
    "running": n.merge(m),
    "nobody": None,
}
EDITED: dict[str, Any] = {
    "completed": n.map(mended),
    "took one": n.take(9),
    "failed": n.map(mended),
    "running": n.merge(m).map(mended),
    "nobody": n.map(mended),
}


class Own:
    """A source of one's own, whose list may be longer the next time."""

    def __init__(self, lists: Mapping[str, list[int]], parents: Mapping[str, tuple[str, ...]]) -> None:
        self.lists, self.parents = lists, parents

    def partitions(self) -> Sequence[str]:
        return tuple(self.lists)

    def listing(self) -> Sequence[Listing]:
        return [Listing(name, self.parents.get(name, ())) for name in self.lists]

    def open(self, partition: str, at: int, /) -> Reader:
        return ListSource(dict(self.lists)).open(partition, at)


class World:
    """A store, and one process after the other over a source to which a partition comes."""

    def __init__(self, folder: Path, kind: str, query: str, *, batch: int = 2, others: Mapping[str, Any] = {}) -> None:
        self.folder, self.kind, self.name, self.batch = folder, kind, query, batch
        self.store: Any = MemoryStore()
        self.lists: dict[str, list[int]] = {}
        self.queries = {**({"q": QUERIES[query]} if QUERIES[query] is not None else {}), **others}
        self.come("a", FIRST)
        self.evaluator = self.opened()

    def come(self, name: str, values: list[int]) -> None:
        self.lists[name] = values
        (self.folder / f"{name}.jsonl").write_text("".join(f"{value}\n" for value in values))

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, checkpoint_interval_s=1e9, batch_events_max=self.batch, idle_s=0.0
        )
        made: dict[str, Any] = {
            "files": lambda: FileSource(str(self.folder / "*.jsonl")),
            "lists": lambda: ListSource(dict(self.lists)),
            "timed": lambda: ListSource(dict(self.lists), timestamp=float),
            "own": lambda: Own(self.lists, {}),
            "split": lambda: Own(self.lists, {"late": ("a",)}),
        }
        evaluator.source("n", made[self.kind]())
        evaluator.source("m", ListSource([], follow=True))
        for name, query in self.queries.items():
            evaluator.create(name, query)
        evaluator.start()
        return evaluator

    def settle(self) -> None:
        while self.evaluator.step():
            pass
        self.evaluator.flush()

    def stop(self, how: str) -> None:
        if how == "clean":
            self.evaluator.__exit__(None, None, None)
        else:
            if how == "killed behind a checkpoint":
                self.evaluator.checkpoint()
            self.evaluator.flush()
            self.evaluator.abandon()
        self.store = self.store.reopen()

    def again(self, how: str) -> None:
        self.stop(how)
        self.evaluator = self.opened()

    def begin(self, action: str) -> None:
        """Have a query begin: by what a program calls, or by another declaration at the next start."""
        if action == "restart":
            self.evaluator.restart("q")
        elif action == "new":
            self.evaluator.create("new", EDITED["completed"])
        elif action == "edit":
            self.queries["q"] = EDITED[self.name]
            self.evaluator.create("q", self.queries["q"])
        elif action == "declared":
            self.queries |= {"q": EDITED[self.name], "new": EDITED["completed"]}
            self.again("clean")

    def values(self, name: str) -> list[int]:
        if name not in self.evaluator.queries():
            return []
        return [value for part in self.evaluator.stream(name).read(0, 99) for value in part.values]

    def told(self) -> list[str]:
        return [each.message for each in self.evaluator.statistics().incidents if each.kind == AFTER_THE_END]

    @property
    def is_unread(self) -> bool:
        name = "late.jsonl" if self.kind == "files" else "late"
        return ("n", name) not in self.evaluator.intake.positions()


WHENS = ("before the end", "behind the end", "clean", "killed", "killed behind a checkpoint")
ACTIONS = ("nothing", "restart", "new", "edit", "declared")


@pytest.mark.parametrize(
    "kind, query, when, action, batch",
    crossed(("files", "lists", "timed", "own", "split"), (*QUERIES,), WHENS, ACTIONS, (1, 2)),
)
def test_every_event_is_read_or_told_to_be_unread(
    kind: str, query: str, when: str, action: str, batch: int, tmp_path: Path
) -> None:
    """However the queries of a source have ended, and whenever a partition comes to it."""
    if action == "restart" and query == "nobody":
        return
    world = World(tmp_path, kind, query, batch=batch)
    if when != "before the end":
        world.settle()
    elif batch > 1:
        world.evaluator.step()
    world.come("late", LATE)
    if when == "behind the end" and kind in ("own", "split"):
        world.evaluator.intake.list_soon()
    elif when != "before the end" or kind not in ("own", "split"):
        world.again(when if when in WHENS[2:] else "killed")
    world.settle()
    if when == "before the end":
        if kind in ("own", "split") and batch > 1:  # the last look for who comes next was before the first events
            world.evaluator.intake.list_soon()
            world.settle()
            assert world.is_unread
            assert len(world.told()) == 1
            return
        assert not world.told(), "its end was yet to come"
        assert query in ("failed", "took one", "nobody") or world.values("q") == [*FIRST, *LATE]
        return
    assert world.is_unread
    assert not set(world.values("q")) & {*LATE}
    (message,) = world.told()
    assert "partition 'late" in message
    before = world.values("q")
    world.begin(action)
    world.settle()
    reads = {"nothing": [], "restart": ["q"], "new": ["new"], "edit": ["q"], "declared": ["q", "new"]}[action]
    if query == "running" and action in ("edit", "declared"):
        reads.clear()  # it goes on, and has been told of the end: what is declared beside it takes nothing from it
    for name in ("q", "new"):
        wanted = LATE if name in reads else []
        if (name, query, action) == ("q", "took one", "restart"):
            wanted = LATE[:1]
        assert world.values(name) == (before if name == "q" else []) + wanted
        if name in reads and (name, query) != ("q", "running"):
            assert world.evaluator.query(name).status == "completed"
    assert world.is_unread is not bool(reads)
    assert len(world.told()) == (not reads)
    world.again("clean")
    assert len(world.told()) == (not reads)


@pytest.mark.parametrize(
    "kind, action, how, cut, batch",
    crossed(("files", "own"), ACTIONS[1:], ("clean", "killed", "killed behind a checkpoint"), range(5), (1, 2)),
)
def test_a_kill_at_each_step_changes_nothing(
    kind: str, action: str, how: str, cut: int, batch: int, tmp_path: Path
) -> None:
    """The partitions appear in the turns that begin their query: behind a kill there are both or neither."""
    world = World(tmp_path, kind, "completed", batch=batch)
    world.settle()
    world.come("late", LATE)
    world.again(how)
    world.begin(action)
    for _ in range(cut):
        world.evaluator.step()
    world.again(how)
    world.settle()
    new = LATE if action in ("new", "declared") else []
    assert world.values("new") == new
    assert world.values("q") == [*FIRST, *(LATE if action != "new" else [])]
    assert not world.told()
    assert world.evaluator.query("q").emitted == len(world.values("q")) + (1 if action == "new" else 2)


def test_a_beginning_of_which_the_turns_are_lost_is_none(tmp_path: Path) -> None:
    """A kill before they were written leaves the partition as it was: unread, and told."""
    world = World(tmp_path, "files", "completed")
    world.settle()
    world.come("late", LATE)
    world.again("clean")
    world.evaluator.journal_worker.submit = lambda task: None  # type: ignore[method-assign]
    world.evaluator.turns.take(world.evaluator.intake.let_in("n"))
    world.evaluator.turns.close_group()
    world.evaluator.abandon()
    world.store = world.store.reopen()
    world.evaluator = world.opened()
    world.settle()
    assert world.is_unread
    assert len(world.told()) == 1


def raises(_: Any) -> Any:
    raise ValueError("it cannot begin")


FORMS: dict[str, tuple[Any, list[int] | None]] = {
    "shared": (n.publish(lambda each: each.merge(each)), [40, 40, 50, 50]),
    "by key": (n.where_key(lambda value: value, 50), [50]),
    "in a factory": (rx.defer(lambda _: n), LATE),
    "in a selector": (rx.of(1).flat_map(lambda _: n), LATE),
    "by a value": (rx.of("n").map(rx.source).switch_latest(), LATE),
    "behind one that has ended": (rx.empty().concat(n), LATE),
    "behind one that goes on": (m.concat(n), None),
    "at an event that does not come": (m.flat_map(lambda _: n), None),
    "by none that fails at once": (rx.defer(raises).merge(n), None),
    "beside another": (m.merge(n), LATE),
    "its letters alone": (rx.source("n.dead_letters"), None),
    "its letters, too": (n.merge(rx.source("n.dead_letters")), LATE),
    "as an end": (m.take_until(n), []),
}
"""Queries, and what they have of what is new in a source; None if they do not read it when they begin."""


@pytest.mark.parametrize("form, how", crossed((*FORMS,), ("at once", "undecided", "edited")))
def test_only_who_reads_a_source_lets_in_what_is_new(form: str, how: str, tmp_path: Path) -> None:
    """Whether a query reads it is known when it has been created, and behind a kill right then as well."""
    world = World(tmp_path, "files", "completed")
    world.settle()
    world.come("late", LATE)
    if how == "edited":
        world.queries["new"] = m.map(mended)
    world.again("clean")
    query, wanted = FORMS[form]
    world.queries["new"] = query
    if how == "undecided":
        evaluator = world.evaluator
        evaluator.turns.take(Expect("n", True))
        evaluator.turns.take(evaluator.engine.creation("new", query, time=evaluator.turns.now()))
        world.again("killed")
    else:
        world.evaluator.create("new", query)
    for _ in range(2):
        world.settle()
        assert world.values("new") == (wanted or [])
        assert world.is_unread is (wanted is None)
        assert len(world.told()) == (wanted is None)
        assert world.evaluator.query("q").status == "completed"
        world.again("killed")
    world.settle()
    world.evaluator.create("last", n.map(mended))
    world.settle()
    assert world.values("last") == (LATE if wanted is None else [])
    if how != "edited" and form == "behind one that goes on":
        assert world.evaluator.query("new").status == "running"


@pytest.mark.parametrize("order", [("q", "letters"), ("letters", "q")])
def test_letters_of_what_is_new_are_read_beside_it(order: tuple[str, str], tmp_path: Path) -> None:
    """Whoever reads them runs on behind the source, and ends where nothing of it is read."""
    letters: list[str] = []
    for day, bad in enumerate(("bad", "worse")):
        (tmp_path / f"{day}.jsonl").write_text(f"1\n{bad}\n")
        store = SqliteStore(tmp_path / "store")
        with closing(store), QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", FileSource(str(tmp_path / "*.jsonl"), on_bad_record="dead_letter"))
            evaluator.create("q", n.map(mended))
            evaluator.create("letters", rx.source("n.dead_letters").map(lambda each: str(each.value)))
            evaluator.start()
            for name in order if day else ():
                evaluator.restart(name)
            evaluator.run()
            letters = [value for part in evaluator.stream("letters").read(0, 9) for value in part.values]
            assert {evaluator.query(name).status for name in order} == {"completed"}
            assert len([value for part in evaluator.stream("q").read(0, 9) for value in part.values]) == day + 1
    assert letters == (["bad", "worse"] if order[0] == "q" else ["bad"])


def test_a_source_that_has_failed_keeps_what_comes_behind_its_error(tmp_path: Path) -> None:
    """Nothing is read of it any more, whoever begins: the message says by what it is."""

    class Breaking(Own):
        def open(self, partition: str, at: int, /) -> Reader:
            return Broken() if partition == "a" else super().open(partition, at)

    class Broken:
        def fetch(self, count_max: int, /) -> Batch:
            return Batch(0, [], error=ValueError("broken"))

        def acknowledge(self, n: int, /) -> None: ...

        def close(self) -> None: ...

    store, lists = MemoryStore(), {"a": FIRST}
    for _ in range(2):
        with QueryEvaluator(store, background=False, checkpoint_interval_s=1e9) as evaluator:
            evaluator.source("n", Breaking(lists, {}))
            evaluator.create("q", QUERIES["completed"])
            evaluator.run()
            lists["late"] = LATE
            told = [each.message for each in evaluator.statistics().incidents if each.kind == AFTER_THE_END]
        store = store.reopen()
    assert "it has ended with an error: declare it under another name" in told[0]


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_a_query_that_shares_a_clock_reads_what_has_come(how: str, tmp_path: Path) -> None:
    """The clock over two sources knows that one has ended; for a query that begins behind it, it has not."""
    clock, store, lists, beats = event_time(lambda value: float(value)), MemoryStore(), {"a": FIRST}, [4]

    def opened(store: MemoryStore, *queries: str) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: 0.0)
        evaluator.source("n", ListSource(dict(lists)))
        evaluator.source("m", ListSource(beats, follow=True))
        evaluator.create(queries[0], n.merge(m), clock=clock)
        evaluator.start()
        for each in queries[1:]:
            evaluator.create(each, n.merge(m), clock=clock)
        while evaluator.step():
            pass
        evaluator.flush()
        return evaluator

    evaluator = opened(store, "q")
    for names in (("q",), ("q", "new")):
        lists["late"] = LATE
        if how == "clean":
            evaluator.__exit__(None, None, None)
        else:
            evaluator.abandon()
        store = store.reopen()
        evaluator = opened(store, *names)
    beats.append(100)
    beats.append(200)
    while evaluator.step():
        pass
    evaluator.flush()
    seen = {each: [v for part in evaluator.stream(each).read(0, 99) for v in part.values] for each in ("q", "new")}
    assert seen["new"] == [*LATE, 100]
    assert seen["q"] == [*FIRST, 4, 100]


def test_new_keys_of_a_new_file_are_told(tmp_path: Path) -> None:
    """Files that are split by key are one: new keys wait, what the new file has of others is told of as growth."""
    for name, keys in (("1", "ab"), ("2", "bc")):
        (tmp_path / f"{name}.csv").write_text("k,v\n" + "".join(f"{key},{name}\n" for key in keys))
        told: dict[str, str] = {}
        store = SqliteStore(tmp_path / "store")
        with closing(store), QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", FileSource(str(tmp_path / "*.csv"), partition_by="k"))
            evaluator.create("q", n.map(lambda row: row["k"] + row["v"]))
            evaluator.run()
            told = {each.kind: each.message for each in evaluator.statistics().incidents}
    assert "partition 'c' has come" in told[AFTER_THE_END]
    assert "2.csv is there since it was read to its end" in told["growth"]
    assert "another file" not in told["growth"], "that is what was done"


APP = """
from hosting import App, FileSource, JsonLinesSink

app = App()
n = app.source("n", lambda: FileSource("in/*.jsonl"))
for name, query in (("values", n.map(lambda value: value)), ("sums", n.scan(lambda total, value: total + value, 0))):
    app.query(name, query)
    app.sink(name, JsonLinesSink(f"{name}.jsonl"))
"""


def test_the_remedy_that_is_named_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A batch each day, by the commands that the message names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "daily.py").write_text(APP)
    (tmp_path / "in").mkdir()
    for day in (1, 2):
        (tmp_path / "in" / f"day-{day}.jsonl").write_text(f"{day}\n{day}0\n")
        with caplog.at_level(logging.WARNING):
            assert main(["run", "daily:app"]) == 0
    assert "after the end 'n': partition 'day-2.jsonl' has come since" in caplog.text
    assert f"reliable-rx restart {tmp_path / 'daily.store'} values sums --app MODULE:APP" in caplog.text
    assert "run 'values', 'sums' again, all that are to have it, together, without state" in caplog.text
    assert main(["status", "--store", "daily.store"]) == 0
    assert "after the end 'n': partition 'day-2.jsonl'" in capsys.readouterr().out
    assert main(["restart", "daily.store", "values", "sums", "--app", "daily:app"]) == 0
    said = capsys.readouterr().out
    assert said.count("it runs again, without state") == 2
    assert "nothing is for those that have had its end" not in said
    assert main(["status", "--store", "daily.store"]) == 0
    assert "after the end" not in capsys.readouterr().out
    assert main(["run", "daily:app"]) == 0
    assert (tmp_path / "values.jsonl").read_text().splitlines() == [
        '{"id":0,"value":1}', '{"id":1,"value":10}', '{"id":2,"completed":true}',
        '{"id":3,"value":2}', '{"id":4,"value":20}', '{"id":5,"completed":true}',
    ]  # fmt: skip
    assert '{"id":4,"value":22}' in (tmp_path / "sums.jsonl").read_text()
    assert main(["status", "--store", "daily.store"]) == 0
    assert "nothing has failed" in capsys.readouterr().out
    assert main(["restart", "daily.store", "sums"]) == 0
    assert "what is new beside it is found with the sources of the app" in capsys.readouterr().out


OTHERS = {"other": n.map(lambda value: -value), "behind": rx.source("other").map(str)}
"""Queries that read what `q` reads, or the stream of one that does."""
BEGIN: dict[str, dict[str, Any]] = {
    "new": {"new": EDITED["completed"]},
    "edited": {"q": EDITED["completed"]},
    "both": {"q": EDITED["completed"], "new": EDITED["completed"]},
    "all": {"q": EDITED["completed"], "other": n.map(lambda value: -1 * value), "behind": rx.source("other").map(repr)},
}


@pytest.mark.parametrize(
    "begin, query, how, then",
    crossed((*BEGIN,), ("completed", "failed"), ("clean", "killed"), ("restarted", "no write", "one write", "killed")),
)
def test_what_a_start_begins_takes_nothing_from_those_that_have_ended(
    begin: str, query: str, how: str, then: str, tmp_path: Path
) -> None:
    """New or edited, it reads the new partition only where nobody misses it; a restart of all of them has it all."""
    world = World(tmp_path, "files", query, others=OTHERS)
    world.settle()
    before = {name: world.values(name) for name in world.queries}
    world.come("late", LATE)
    world.queries |= BEGIN[begin]
    world.again(how)
    for _ in range(2):
        world.settle()
        assert world.is_unread is (begin != "all")
        world.again(how)
    names = [*world.queries]
    if begin != "all":
        (message,) = world.told()
        assert all(repr(name) in message for name in names)
        assert message.index("'other'") < message.index("'behind'")
        assert world.values("new") == []
        submit, left = world.evaluator.journal_worker.submit, {"no write": 0, "one write": 1}.get(then, 99)

        def lose(task: Any) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                submit(task)

        world.evaluator.journal_worker.submit = lose  # type: ignore[method-assign]
        world.evaluator.restart(*reversed(names))
        if then != "restarted":
            world.again("killed")
        assert len(world.told()) == (then == "no write"), "all of them are restarted, or none"
        if then == "no write":
            world.evaluator.restart(*names)
    world.settle()
    late = {"q": LATE, "new": LATE, "other": [-value for value in LATE], "behind": [str(-value) for value in LATE]}
    assert {name: world.values(name) for name in names} == {name: before.get(name, []) + late[name] for name in names}
    assert not world.told()


@pytest.mark.parametrize("was", ("completed", "failed"))
@pytest.mark.parametrize("how", ("clean", "killed"))
def test_an_edited_query_that_would_read_nothing_waits_for_its_restart(was: str, how: str, tmp_path: Path) -> None:
    """No result of an empty day is written before: it and what reads it stay as they ended, whatever runs beside it."""
    world = World(tmp_path, "files", was, others={"other": OTHERS["other"], "running": n.merge(m).map(str)})
    world.queries |= {"sums": n.sum(), "behind": rx.source("sums").to_list()}
    world.again("clean")
    world.settle()
    before = world.evaluator.query("q").emitted
    world.come("late", LATE)
    world.queries |= {"q": n.map(mended).to_list(), "sums": n.map(mended).sum()}
    world.queries |= {"behind": rx.source("sums").map(mended).to_list(), "running": n.merge(m).map(repr)}
    for _ in range(2):
        world.again(how)
        world.settle()
        assert world.is_unread
        assert (world.values("sums"), world.values("behind")) == ([6], [[6]])
        assert world.evaluator.query("q").emitted == before
        assert world.evaluator.query("running").status == "running"
    world.evaluator.restart("q", "other", "sums", "behind")
    world.settle()
    assert (world.values("sums"), world.values("behind"), world.values("q")[-1]) == ([6, 90], [[6], [90]], LATE)
    assert not world.told()


def test_a_query_over_two_sources_ties_what_has_come_to_them() -> None:
    """Begun again it reads both: so each message names all who would miss the one or the other."""
    store, lists = MemoryStore(), {"a": FIRST}
    for day in (1, 2):
        with QueryEvaluator(store, background=False, checkpoint_interval_s=1e9) as evaluator:
            for name in ("n", "m"):
                evaluator.source(name, ListSource(dict(lists)))
            for name, query in (("first", n), ("both", n.merge(m)), ("last", m)):
                evaluator.create(name, query.map(lambda value: value))
            evaluator.start()
            told = [each.message for each in evaluator.statistics().incidents if each.kind == AFTER_THE_END]
            assert len(told) == 2 * (day == 2)
            assert all("evaluator.restart(" in each and each.count("'first'") == 2 for each in told)
            assert all("'both'" in each and "'last'" in each for each in told)
            if told:
                evaluator.restart("first", "both", "last")
            evaluator.run()
        store, lists = store.reopen(), {"a": FIRST, "late": LATE}


def test_readers_of_a_stream_are_named_by_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that reads another query is restarted with it: alone it has nothing to read, and without it stays ended."""
    monkeypatch.chdir(tmp_path)
    behind = 'from reliable_rx import source\napp.query("behind", source("values").map(str))\n'
    (tmp_path / "chained.py").write_text(APP + behind)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "day-1.jsonl").write_text("1\n")
    assert main(["run", "chained:app"]) == 0
    capsys.readouterr()
    assert main(["restart", "chained.store", "behind", "--app", "chained:app"]) == 0
    assert "since what it reads has: name it in one call with values" in capsys.readouterr().out
    (tmp_path / "in" / "day-2.jsonl").write_text("2\n")
    assert main(["restart", "chained.store", "values", "--app", "chained:app"]) == 0
    assert "those that read it and had completed stay so: behind" in capsys.readouterr().out


def test_a_clock_ends_though_another_query_was_asked_for_what_is_new() -> None:
    """A query that may read a source, and does not, leaves it ended for those that have been told."""
    store, lists = MemoryStore(), {"a": FIRST}
    clock = event_time(lambda value: float(value))
    for start in range(2):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: 0.0)
        evaluator.source("n", ListSource(dict(lists)))
        pushed = evaluator.push("m")
        evaluator.create("q", n.merge(m), clock=clock)
        if start:
            evaluator.create("other", rx.of(1).flat_map(lambda _: rx.never()))
        evaluator.start()
        while evaluator.step():
            pass
        if start:
            pushed.on_next(9)
            pushed.on_completed()
            while evaluator.step():
                pass
            evaluator.flush()
            assert evaluator.query("q").status == "completed"
            assert [v for part in evaluator.stream("q").read(0, 9) for v in part.values] == [*FIRST, 9]
            assert [each.kind for each in evaluator.statistics().incidents] == [AFTER_THE_END]
        evaluator.__exit__(None, None, None)
        store, lists = store.reopen(), {**lists, "late": LATE}
