"""Each fault is seen in four places: the log, `statistics()`, `status`, and the exit code; and so is that it is over.

The table is of faults that are injected into a real `reliable-rx run`. A fault that is only survived is not enough:
whoever runs an app must be told of it while it lasts, by name, and find it in `status` when nothing runs any more.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli, kill, running, status_of, stop, write
from conditions import until
from forked import Forked
from lanes import at_each_commit, left_to_commits

from checkpoint import SqliteStore
from hosting.cli.store_status import look
from hosting.cli.wording import FAILED
from hosting.reports.status_file import read_status

PRELUDE = """
import asyncio, errno, json, os, pathlib, time
import reliable_rx as rx
from hosting import App, CallbackSink, GeneratorSource, JsonLinesSink, ListSource
from hosting.sources.faults import Error, FaultySource, Stall
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import ARMED
from reliable_rx.testing.faults import disk_full


def healed():
    return pathlib.Path("healed").exists()


def until_healed(action):
    return lambda: None if healed() else action()


def number(i, random):
    time.sleep(0.001)
    return i


def bad(n):
    if n == 7:
        raise ValueError("seven cannot be had")
    return n


app = App(checkpoint_interval_s=0.1, batch_events_max=1, **OPTIONS)
n = app.source("n", GeneratorSource(number))


@app.feed
def watch(evaluator):
    while True:
        told = [[each.kind, each.subject, each.level] for each in evaluator.statistics().incidents]
        pathlib.Path("new").write_text(json.dumps(told))
        os.replace("new", "seen.json")
        time.sleep(0.02)


"""


@dataclass(frozen=True)
class Fault:
    """What is injected, and the incident that it must be seen as; *heals* if it ends when it is told to."""

    name: str
    kind: str
    subject: str
    level: str
    code: str
    heals: bool = False
    options: str = "{}"


FAULTS = [
    Fault("a query raises", "query", "q", "error", 'app.query("q", n.map(bad))'),
    Fault("a query skips", "skipped", "q", "warning", 'app.query("q", n.map(bad), policy="skip")'),
    Fault(
        "late events", "late", "q", "warning",
        """
app.query("q", n.map(lambda i: i), clock=rx.event_time(lambda i: -i))
""",
    ),
    Fault(
        "the disk of the journal is full", "journal", "store", "error",
        """
app.query("q", n)
ARMED["journal.before_commit"] = until_healed(disk_full())
""",
        heals=True,
    ),
    Fault(
        "a full disk refuses what is pushed", "pushed", "p", "error",
        """
pushed = app.push("p")
app.query("q", rx.source("p"))


@app.feed
def push(evaluator):
    for i in range(10**6):
        try:
            pushed.on_next(i)
        except StoreUnavailable:
            assert pushed.end < 10**6
        if i == 5:
            ARMED["log.before_commit"] = until_healed(disk_full())
        time.sleep(0.01)
""",
        heals=True,
    ),
    Fault(
        "the disk of checkpoints is full", "checkpoint", "store", "error",
        """
app.query("q", n)
ARMED["checkpoint.before_commit"] = until_healed(disk_full())
""",
        heals=True,
    ),
    Fault(
        "a sink raises", "sink", "q, sink 0", "warning",
        """
class Sink(CallbackSink):
    def write(self, first, values):
        if not healed():
            raise OSError(errno.EIO, "the cable is out")
        super().write(first, values)


app.query("q", n)
app.sink("q", lambda: Sink(lambda n, value: None))
""",
        heals=True,
    ),
    Fault(
        "a sink refuses a value", "sink", "q, sink 0", "error",
        """
app.query("q", n.map(lambda i: i if i < 7 else object()))
app.sink("q", lambda: JsonLinesSink("q.jsonl"))
""",
    ),
    Fault(
        "a sink skips what it refuses", "sink skips", "q, sink 0", "warning",
        """
app.query("q", n.map(lambda i: i if i < 7 else object()))
app.sink("q", lambda: JsonLinesSink("q.jsonl"), on_error="skip")
""",
    ),
    Fault(
        "a record is bad", "bad records", "s", "warning",
        """
from hosting import FileSource

pathlib.Path("s.jsonl").write_text('1\\n{\\n3\\n')
app.query("q", app.source("s", lambda: FileSource("s.jsonl", on_bad_record="skip")))
""",
    ),
    Fault(
        "a reader holds a full stream", "stall", "q", "warning",
        """
@app.feed
def reader(evaluator):
    while "q" not in evaluator.queries():
        time.sleep(0.01)
    class Slow:
        def on_next(self, n, value):
            pass

        def on_completed(self, n):
            pass

        on_error = on_next

    held = evaluator.stream("q").subscribe(Slow(), name="slow")
    held.start(0)
    while not healed():
        time.sleep(0.01)
    held.dispose()


app.query("q", n)
""",
        heals=True,
        options="{'buffer_events_max': 50}",
    ),
    Fault(
        "the disk is slow", "stall", "journal", "warning",
        """
import hosting.reports.lasting
hosting.reports.lasting.JOURNAL_S = 0.3


def wait():
    while not healed():
        time.sleep(0.01)


app.query("q", n)
ARMED["journal.before_commit"] = wait
""",
        heals=True,
    ),
    Fault(
        "a function does not return", "stall", "loop", "warning",
        """
import hosting.reports.hang_watch
hosting.reports.hang_watch.HANG_S = 0.3


def endless(i):
    while i == 7 and not healed():
        time.sleep(0.01)
    return i


app.query("q", n.map(endless))
""",
        heals=True,
    ),
    Fault(
        "a source ends with an error", "source", "s", "error",
        """
app.source("s", FaultySource(ListSource([1, 2, 3]), [Error(at=2)]))
app.query("q", rx.source("s"))
""",
    ),
    Fault(
        "calls fail", "call", "q", "warning",
        """
async def ask(i):
    await asyncio.sleep(0.001)
    if not healed():
        raise ConnectionError("nobody answers")
    return i


app.query("q", n.map_async(ask).retry())
""",
        heals=True,
    ),
    Fault(
        "a clock waits for another input", "watermark", "q", "warning",
        """
import hosting.reports.held_back
hosting.reports.held_back.HELD_S, hosting.reports.held_back.STILL_S = 0.3, 0.2


class Silent(ListSource):
    def open(self, partition, at):
        inner = super().open(partition, at)
        fetch = inner.fetch
        inner.fetch = lambda count: fetch(count) if healed() else fetch(0)
        return inner


app.source("s", Silent([1e9] * 3))
app.query("q", n.merge(rx.source("s")), clock=rx.event_time(float, idle_s=1000))
""",
        heals=True,
    ),
]  # fmt: skip


ENDINGS = [
    Fault(
        "a source cannot be read", "source 's'", "the shelf is empty", "error",
        """
from reliable_rx.errors import SourceFailed


class Broken(ListSource):
    def open(self, partition, at):
        inner = super().open(partition, at)
        inner.fetch = lambda count: self.fail()
        return inner

    def fail(self):
        if pathlib.Path("seen.json").exists():
            raise SourceFailed("the shelf is empty", source="s", partition="0", position=0)


app.source("s", Broken([1]))
app.query("q", rx.source("s"))
""",
    ),
    Fault(
        "a feed fails", "feed 'app'", "the shelf is empty", "error",
        """
@app.feed
def feed(evaluator):
    raise ValueError("the shelf is empty")


app.query("q", n)
""",
    ),
    Fault(
        "a companion dies", "companion 'app'", "the shelf is empty", "error",
        """
class Companion:
    @property
    def ended(self):
        raise ValueError("the shelf is empty")

    def figures(self):
        return ()

    def stop(self):
        pass


app.companion(Companion)
app.query("q", n)
""",
    ),
]  # fmt: skip


@left_to_commits
@pytest.mark.parametrize("fault", ENDINGS, ids=lambda fault: fault.name)
def test_what_ends_a_run_is_seen_afterwards(fault: Fault, tmp_path: Path) -> None:
    """The log has a line, the exit code is 1, and `status` says what ended the last process until the next start."""
    write(tmp_path, "app.py", f"OPTIONS = {fault.options}\n{PRELUDE}\n{fault.code}")
    complaint = cli("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path, code=1).stderr
    lines = [line for line in complaint.splitlines() if fault.kind in line and fault.subject in line]
    assert lines and " ERROR " in lines[0], complaint
    told = cli("status", "--store", "s", cwd=tmp_path, code=FAILED).stdout
    assert "the last process ended" in told and fault.subject in told
    write(tmp_path, "app.py", f"OPTIONS = {{}}\n{PRELUDE}\napp.query('q', n)\n")
    with running("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path) as process:
        until(lambda: "pid" in (read_status(tmp_path / "s") or {}), "it runs")
        until(lambda: "ended" not in (read_status(tmp_path / "s") or {"ended": ""}), "it runs again")
        stop(process)
    told = cli("status", "--store", "s", cwd=tmp_path).stdout
    assert "the last one stopped in order" in told and "nothing has failed" in told


@left_to_commits
def test_a_recovery_that_fell_back_is_seen(tmp_path: Path) -> None:
    """A start from an older checkpoint is a warning in all places, and no failure."""
    options = "{'strict': False}"
    write(tmp_path, "app.py", f"OPTIONS = {options}\n{PRELUDE}\napp.query('q', n.scan(lambda a, b: a + b, 0))\n")
    fault = Fault("", "recovery", "warning 1", "warning", "")
    for damaged in (False, True):
        if damaged:
            with sqlite3.connect(tmp_path / "s" / "checkpoint.sqlite") as database:
                newest = "(SELECT max(generation) FROM chunks)"
                database.execute(f"UPDATE chunks SET blob = zeroblob(length(blob)) WHERE generation = {newest}")
            database.close()
        with running("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path) as process:
            if damaged:
                until(lambda: named(seen(tmp_path, process), fault), "the statistics name it")
                until(lambda: named(status(tmp_path), fault), "the status file names it")
                assert "warning 1" in cli("status", "--store", "s", cwd=tmp_path).stdout
            else:
                until(lambda: generations(tmp_path) > 2, "there is something to fall back to")
            complaint = stop(process)
        assert process.returncode == 0
        assert ("WARNING recovery 'warning 1': " in complaint) is damaged


def test_a_store_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    """Neither a place that is no store nor one that is owned makes a run look well."""
    write(tmp_path, "app.py", f"OPTIONS = {{}}\n{PRELUDE}\napp.query('q', n)\n")
    (tmp_path / "s").write_text("a file where the folder should be")
    assert "reliable-rx: " in cli("run", "app.py:app", "--store", "s", cwd=tmp_path, code=1).stderr


def generations(folder: Path) -> int:
    if not (folder / "s" / "checkpoint.sqlite").exists():
        return 0
    with SqliteStore.read_only(folder / "s") as store:
        return len(store.generations())


@pytest.mark.parametrize("fault", [FAULTS[0], *map(at_each_commit, FAULTS[1:])], ids=lambda fault: fault.name)
def test_a_fault_is_seen_everywhere(fault: Fault, tmp_path: Path) -> None:
    """While it lasts the log, the statistics and `status` name it; the exit code tells of an error; then it is well."""
    write(tmp_path, "app.py", f"OPTIONS = {fault.options}\n{PRELUDE}\n{fault.code}")
    is_error = fault.level == "error"
    with running("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path) as process:
        until(lambda: named(seen(tmp_path, process), fault), "the statistics name it")
        until(lambda: named(status(tmp_path), fault), "the status file names it")
        told = cli("status", "--store", "s", cwd=tmp_path, code=FAILED if is_error else 0).stdout
        assert fault.subject in told
        assert fault.kind != "watermark" or "waiting: q waits for s/0, which has given no event yet" in told
        if fault.heals:
            (tmp_path / "healed").touch()
            until(lambda: not named(seen(tmp_path, process), fault), "the statistics say that it is over")
            until(lambda: not named(status(tmp_path), fault), "the status says so too")
        complaint = stop(process)
    line = rf"^[-\d]+ [:,\d]+ {fault.level.upper()} {fault.kind} '{re.escape(fault.subject)}': "
    assert re.search(line, complaint, re.MULTILINE), complaint
    assert process.returncode == (FAILED if is_error and not fault.heals else 0), complaint
    well = f"INFO {fault.kind} '{fault.subject}' is well again"
    assert (well in complaint) is fault.heals, complaint
    found = status_of(tmp_path, process.returncode)
    assert found["state"] == "stopped" and named_in(found, fault) is not fault.heals, found
    assert sinks_of(found) == sinks_of(stored_only(tmp_path)), "a checkpoint knows what the status file does"


@pytest.mark.parametrize("fault", [*map(at_each_commit, FAULTS)], ids=lambda fault: fault.name)
def test_a_fault_is_seen_after_a_kill(fault: Fault, tmp_path: Path) -> None:
    """`status` says that nothing was stopped in order, and what was open when the process last said so."""
    write(tmp_path, "app.py", f"OPTIONS = {fault.options}\n{PRELUDE}\n{fault.code}")
    with running("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path) as process:
        until(lambda: named(status(tmp_path), fault), "the status file names it")
        kill(process)
    code = FAILED if fault.level == "error" else 0
    found = status_of(tmp_path, code)
    assert found["state"] == "killed" and named_in(found, fault), found
    told = cli("status", "--store", "s", cwd=tmp_path, code=code).stdout
    assert "was not stopped in order" in told and fault.subject in told and "nothing has failed" not in told


def stored_only(folder: Path) -> Any:
    """Return what `status` says of a store of which only the checkpoint is left."""
    (folder / "s" / "status.json").unlink()
    return asdict(look(folder / "s"))


def sinks_of(found: Any) -> Any:
    """Return what is wrong for good: what only waits may have ended with the last checkpoint."""
    durable = ("sink", "sink skips", "skipped", "late", "bad records", "source")
    wrong = {(each["kind"], each["subject"], each["message"]) for each in found["incidents"] if each["kind"] in durable}
    return wrong, [(each["name"], each["error"]) for each in found["failed"]]


def named_in(found: Any, fault: Fault) -> bool:
    """Whether *found* names the fault; a query's is in the list of those that have failed."""
    failed = [["query", each["name"], "error"] for each in found["failed"]]
    return named([*failed, *([each["kind"], each["subject"], each["level"]] for each in found["incidents"])], fault)


def seen(folder: Path, process: Forked) -> Any:
    """Return the incidents of `statistics()` as the app last wrote them down."""
    assert process.returncode is None, process.communicate()
    file = folder / "seen.json"
    return json.loads(file.read_text()) if file.exists() else []


def status(folder: Path) -> list[Any]:
    found = read_status(folder / "s") or {}
    return [
        [each["kind"], each["subject"], each["level"]] if isinstance(each, dict) else each
        for each in found.get("incidents", ())
    ]


def named(incidents: list[Any], fault: Fault) -> bool:
    return [fault.kind, fault.subject, fault.level] in incidents
