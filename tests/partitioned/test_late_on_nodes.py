"""Partitions that come when the partition of scope ``all`` was read to its end, as tomorrow's file does on nodes.

Every event of them is read, once, by what is run again, or is told to be unread: by each node, and by `status`.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli
from conditions import until
from lanes import crossed
from node_world import GROUP, Logs, World, row, status_in

import reliable_rx as rx
from hosting import App, FileSource, JsonLinesSink
from hosting.cli import mend_group
from hosting.cli.wording import BadUsage
from hosting.edges.late_partitions import AFTER_THE_END
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.partitioned import latecomers
from hosting.partitioned.node import Node
from reliable_rx.errors import StoreUnavailable

FIRST, LATE = [1, 2], [10, 20, 30]
END = "the end"
GIVES: dict[str, Callable[[list[int]], list[Any]]] = {
    "sums": lambda values: [sum(values[: n + 1]) for n in range(len(values))],
    "same": list,
}


class Days:
    """A group over partitions to which more come, with queries of scope ``all`` and one of each partition."""

    def __init__(self, folder: Path, kind: str, queries: Any = None, **options: Any) -> None:
        self.folder, self.kind, self.logs = folder, kind, Logs(())
        self.queries = queries or (lambda n: {"sums": n.scan(lambda a, b: a + b, 0), "same": n})
        self.world = World(folder / "g", self.declare, app=options)
        self.come("a", FIRST)

    def declare(self, app: App, world: World) -> None:
        made = (lambda: FileSource(f"{self.folder}/*.jsonl")) if self.kind == "files" else lambda: self.logs
        n = app.source("n", made)
        app.query("count", n.count())
        for name, query in self.queries(n).items():
            app.query(name, query, scope="all")
            app.sink(name, lambda place, name=name: JsonLinesSink(self.folder / f"{name}.out"))

    def come(self, name: str, values: list[int], *, end: bool = True) -> None:
        (self.folder / f"{name}.jsonl").write_text("".join(f"{value}\n" for value in values))
        self.logs.list_also(name)
        self.logs.add(name, *values, end=end)

    def run(self, *, ends: str = "stopped") -> list[str]:
        """Run a node until all has ended; return what it has told of what comes behind an end."""
        with self.world.node(ends=ends) as node:
            until(node._all_ended, "all is read")
            until(lambda: self.folder.joinpath("sums.out").exists())
            return self.told(node)

    def told(self, node: Node) -> list[str]:
        return [each.message for each in node.incidents.open() if each.kind == AFTER_THE_END]

    def written(self, name: str) -> list[Any]:
        rows = [json.loads(line) for line in (self.folder / f"{name}.out").read_text().splitlines()]
        assert [row["id"] for row in rows] == list(range(len(rows)))
        return [row.get("value", END) for row in rows]

    def restart(self, *queries: str, patch: pytest.MonkeyPatch, cut: str = "", yes: bool = False) -> int:
        """Run the command; *cut* off before its checkpoint, or before the group knows."""

        def fail(*arguments: Any, **options: Any) -> None:
            raise StoreUnavailable("cut off here", where="test")

        app = App(**self.world.options)
        self.declare(app, self.world)
        with patch.context() as patched:
            patched.setattr(mend_group, "load_app", lambda where: app)
            if cut == "turns":
                patched.setattr(QueryEvaluator, "checkpoint", fail)
            elif cut:
                patched.setattr(mend_group, "tell", fail)
            return mend_group.restart(str(self.world.folder), queries, group=GROUP, app="app", yes=yes)

    def is_told_by_status(self) -> bool:
        return "after the end 'n': partition 'late" in row(self.world.folder, "all").error


@pytest.mark.parametrize(
    "kind, ends, again, cut",
    crossed(
        ("files", "lists"),
        ("stopped", "killed"),
        ((), ("sums",), ("sums", "same"), ("same sums",)),
        ("", "turns", "group"),
    ),
)
def test_every_event_is_read_or_told_to_be_unread(
    kind: str, ends: str, again: tuple[str, ...], cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """However a node ends, and wherever the command is cut off, which is called again then."""
    days = Days(tmp_path, kind)
    assert not days.run(ends=ends)
    days.come("late", LATE)
    for _ in range(2):
        (message,) = days.run(ends=ends)
        assert "partition 'late" in message and f"reliable-rx restart {days.world.folder} sums same" in message
        assert days.is_told_by_status() and not status_in(days.world.folder).is_failing
    for number, named in enumerate(again):
        queries = named.split()
        if cut:
            assert days.restart(*queries, patch=monkeypatch, cut=cut) == 1
        if cut and not number:
            assert days.run(ends=ends) and days.is_told_by_status(), "no node opens it, so it is unread"
            assert days.written("sums") == [*GIVES["sums"](FIRST), END]
        capsys.readouterr()
        assert days.restart(*queries, patch=monkeypatch) == 0
        said = capsys.readouterr().out
        for each in queries:
            assert f"{each} was restarted in 1 partition" in said or (cut and "there is nothing" not in said)
        assert ("not restarted before the next start: same" in said) == (named == "sums" and not cut)
        assert not days.is_told_by_status()
    if again:
        assert not days.run(ends=ends)
    for name, gives in GIVES.items():
        assert days.written(name) == [
            *gives(FIRST),
            END,
            *([*gives(LATE), END] if name in " ".join(again).split() else []),
        ]
    assert days.is_told_by_status() == (not again)


def test_it_is_told_while_a_node_runs(tmp_path: Path) -> None:
    """At once by the log, and by `status` from another process; and it is over where it is not listed any more."""
    days = Days(tmp_path, "lists")
    with days.world.node(period_s=0.05) as node:
        until(node._all_ended)
        assert not days.told(node)
        days.come("late", LATE)
        until(lambda: days.told(node))
        until(days.is_told_by_status)
        days.logs.listed.remove("late")
        until(lambda: not days.told(node) and not days.is_told_by_status())


def test_what_comes_is_read_once_though_its_node_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of it, before the first checkpoint behind the restart of its queries."""
    days = Days(tmp_path, "lists", checkpoint_interval_s=1e9)
    days.run()
    days.come("late", LATE[:2], end=False)
    with days.world.node() as node:
        until(lambda: days.told(node))
    assert days.restart("sums", patch=monkeypatch) == days.restart("same", patch=monkeypatch) == 0
    with days.world.node(ends="killed"):
        until(lambda: len(days.written("sums")) == len(days.written("same")) == 5)
    days.logs.add("late", *LATE[2:], end=True)
    days.run(ends="killed")
    for name, gives in GIVES.items():
        assert days.written(name) == [*gives(FIRST), END, *gives(LATE), END]


def test_queries_that_read_others_are_run_again_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that only reads what has ended gets nothing, which is said; what runs on is asked about."""
    running = {"beats": lambda n: n.merge(rx.never())}
    days = Days(tmp_path, "files", lambda n: {"sums": n.scan(lambda a, b: a + b, 0), "twice": rx.source("sums")}
                | {name: query(n) for name, query in running.items()})  # fmt: skip
    days.run()
    days.come("late", LATE)
    (message,) = days.run()
    assert f"restart {days.world.folder} sums twice beats" in message
    assert days.restart("twice", patch=monkeypatch) == 0
    assert "nothing that has come" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(BadUsage, match="'beats' is running, with a state that a restart drops"):
        days.restart("beats", patch=monkeypatch)
    assert days.is_told_by_status(), "nothing was changed"
    assert days.restart("twice", "beats", "sums", patch=monkeypatch, yes=True) == 0, "in any order"
    days.run()
    for each in ("sums", "twice"):
        assert days.written(each) == [*GIVES["sums"](FIRST), END, *GIVES["sums"](LATE), END]
    assert [value for value in days.written("beats") if value != END] == [*FIRST, *LATE]


def test_a_query_that_is_new_to_what_has_ended_begins_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node creates it in a partition that it does not open; the message names it, and the call is true."""
    days = Days(tmp_path, "files", lambda n: {"sums": n.scan(lambda a, b: a + b, 0)})
    days.run()
    days.come("late", LATE)
    days.queries = lambda n: {"sums": n.scan(lambda a, b: a + b, 0), "new": n.map(lambda value: value)}
    (message,) = days.run()
    assert f"restart {days.world.folder} sums new" in message and not (tmp_path / "new.out").exists()
    assert days.restart("sums", patch=monkeypatch) == days.restart("new", patch=monkeypatch) == 0
    days.run()
    assert days.written("new") == [*LATE, END]
    assert days.written("sums") == [*GIVES["sums"](FIRST), END, *GIVES["sums"](LATE), END]


@pytest.mark.parametrize("how", ["raises", "hangs", "store"])
def test_what_cannot_be_known_is_told(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that cannot be asked, or a store that cannot be read, is no reason to say that nothing has come."""
    days, waits = Days(tmp_path, "lists"), threading.Event()
    days.run()

    def odd(source: Any) -> Any:
        if how == "hangs":
            waits.wait()
        raise OSError("no such host") if how == "raises" else StoreUnavailable("it is not there", where="test")

    name = "look" if how == "store" else "listing_of"
    whole = (latecomers.Latecomers, "_read") if how == "store" else (latecomers, name)
    monkeypatch.setattr(*whole, odd)
    monkeypatch.setattr("hosting.partitioned.node.PATIENCE_S", 0.5)
    with days.world.node(period_s=0.05) as node:
        (message,) = until(lambda: days.told(node))
        assert {"raises": "no such host", "hangs": "has not answered", "store": "is not there"}[how] in message
        until(lambda: "is not known" in row(days.world.folder, "all").error)
        monkeypatch.undo()
        waits.set()
        until(lambda: not row(days.world.folder, "all").error)


def test_what_has_failed_there_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed query is said first, as an error; run again, it reads what has come, and the other stays told."""

    def strict(total: int, value: int) -> int:
        if value == 2 and not (tmp_path / "mended").exists():
            raise ValueError("two")
        return total + value

    days = Days(tmp_path, "files", lambda n: {"sums": n.scan(strict, 0), "same": n})
    days.run()
    days.come("late", LATE)
    days.run()
    assert status_in(days.world.folder).is_failing and "query 'sums'" in row(days.world.folder, "all").error
    (tmp_path / "mended").touch()
    assert days.restart("sums", patch=monkeypatch) == days.restart("same", patch=monkeypatch) == 0
    assert not days.run() and not row(days.world.folder, "all").error
    assert [each for each in days.written("sums") if each != END] == [1, *GIVES["sums"](LATE)]
    assert days.written("same") == [*FIRST, END, *LATE, END]


def test_beside_a_source_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another source of scope ``all`` goes on, the partition is open, and its evaluator tells."""
    beats = Logs(("x",))

    def declare(app: App, world: World) -> None:
        app.query("rest", app.source("beats", beats), scope="all")
        Days.declare(days, app, world)

    days = Days(tmp_path, "files")
    days.world = World(tmp_path / "g", declare)

    def there(*names: str) -> bool:
        return all((tmp_path / f"{each}.out").exists() and len(days.written(each)) > 2 for each in names)

    with days.world.node():
        until(lambda: there("sums", "same"))
    days.come("late", LATE)
    with days.world.node() as node:
        until(days.is_told_by_status)
        assert not days.told(node), "it is said once"
    app = App(**days.world.options)
    declare(app, days.world)
    monkeypatch.setattr(mend_group, "load_app", lambda where: app)
    assert mend_group.restart(str(days.world.folder), ["same", "sums"], group=GROUP, app="app", yes=False) == 0
    with days.world.node():
        until(lambda: len(days.written("sums")) + len(days.written("same")) == 14)
        until(lambda: not row(days.world.folder, "all").error)
    for name, gives in GIVES.items():
        assert days.written(name) == [*gives(FIRST), END, *gives(LATE), END]


APP = """
from hosting import App, FileSource, JsonLinesSink

app = App()
sales = app.source("sales", lambda: FileSource("sales-*.jsonl"))
app.query("per_file", sales.count())
app.query("grand", sales.scan(lambda a, b: a + b, 0), scope="all")
app.sink("grand", lambda place: JsonLinesSink("grand.out"))
"""
NODE = ("node", "branch.py", "--gather", "0", "--until-ended", "--plain", "--store")


@pytest.mark.parametrize("where", ["here", "database"])
def test_the_remedy_that_is_named_works(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A file a day, by the commands that the log of a node names, and `status` beside."""
    where = where if where == "here" else request.getfixturevalue("postgres").new_database()
    (tmp_path / "branch.py").write_text(APP)
    total: list[Any] = []
    for day in (1, 2, 3):
        (tmp_path / f"sales-{day}.jsonl").write_text(f"{day}\n{day}0\n")
        log = cli(*NODE, where, cwd=tmp_path).stderr
        total += [day, day * 11, END] if day == 1 else []
        if day > 1:
            (command,) = set(re.findall("WARNING after the end 'sales': [^`]*`(reliable-rx restart [^`]*)`", log))
            shown = json.loads(cli("status", "--store", where, "--json", cwd=tmp_path).stdout)["partitions"]
            assert [each["error"] != "" for each in shown] == [True] + [False] * day
            said = cli(*shlex.split(command.replace("MODULE:APP", "branch.py"))[1:], cwd=tmp_path).stdout
            assert "it had completed; it runs again from id" in said
            assert "after the end" not in cli(*NODE, where, cwd=tmp_path).stderr
            total += [day, day * 11, END]
        rows = [json.loads(line) for line in (tmp_path / "grand.out").read_text().splitlines()]
        assert [row.get("value", END) for row in rows] == total
        assert "after the end" not in cli("status", "--store", where, cwd=tmp_path).stdout
    (tmp_path / "sales-4.jsonl").write_text("4\n")
    cli("offsets", "reset", "--store", where, "--app", "branch.py", "--to", "earliest", "--yes", cwd=tmp_path)
    log = cli(*NODE, where, cwd=tmp_path).stderr
    assert "restart" not in log or log.count("--app") == 1
    shown = cli("status", "--store", where, cwd=tmp_path).stdout
    assert "after the end" not in shown, "it was read from the position that was set"
    said = cli("restart", where, "grand", "--app", "branch.py", cwd=tmp_path).stdout
    assert "has failed in no partition, and of what it reads there is nothing that has come" in said
