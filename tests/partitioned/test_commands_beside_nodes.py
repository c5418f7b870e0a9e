"""What a command does to the queries of a group or store is told in full: asked, answered, and seen in `status`.

No node has to start for it, and a command that was killed in between is made up for by its next call.
"""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli, running, stop, write
from conditions import until
from cut_process import be_cut
from forked import Forked
from lanes import every, every_of

from hosting.cli.wording import FAILED

APP = """
import pathlib
from hosting import App, JsonLinesSink, ListSource


def check(order):
    if order == 2 and pathlib.Path("bad").exists():
        raise ConnectionError("the price list is not there")
    return order


app = App()
orders = app.source("orders", lambda: ListSource({"a": [1, 2, 3], "b": [1, 3]}, follow=pathlib.Path("follow").exists()))
base = app.query("base", orders.map(check))
over = app.query("over", base.map(abs))
app.query("above", over.map(abs))
app.query("caught", base.catch(orders))
app.query("other", orders.map(check))
for name in ("base", "over", "above", "caught", "other"):
    app.sink(name, lambda place, name=name: JsonLinesSink(f"{name}-{place.partition.name if place else 'all'}"))
"""
NODE = ("node", "app.py", "--store", "s", "--group", "g", "--gather", "0", "--session", "2", "--plain")
RUN = ("run", "app.py", "--store", "s", "--plain")
READERS = {"base": ["caught", "over"], "over": ["above"], "above": [], "other": []}
FAIL_WITH = {"base": {"over", "above"}, "over": {"above"}, "above": set[str](), "other": set[str]()}


def begin(folder: Path, command: tuple[str, ...]) -> None:
    """Have an app that follows take all that there is, and stop it in order."""
    write(folder, "app.py", APP)
    (folder / "follow").touch()
    files = [folder / f"above-{each}" for each in (["a", "b"] if command is NODE else ["all"])]
    rows = {"above-a": 3, "above-b": 2, "above-all": 5}
    with running(*command, cwd=folder) as process:
        until(lambda: all(each.exists() and each.read_text().count("\n") == rows[each.name] for each in files))
        stop(process)


def seen(folder: Path) -> tuple[Any, set[str]]:
    """Return what `status` has as failing, by partition, and which queries its text names as failed."""
    with running("status", "--store", "s", "--json", cwd=folder) as process:
        found = json.loads(process.communicate()[0])
    if "partitions" not in found:
        return process.returncode, {each["name"] for each in found["failed"]}
    failing = {each["partition"]: (each["status"] == "failing", each["error"]) for each in found["partitions"]}
    names = {name for name in READERS for _, error in failing.values() if f"query {name!r}" in error}
    return (process.returncode, {name: is_bad for name, (is_bad, _) in failing.items()}), names


@pytest.mark.parametrize("query", every(2, READERS))
@pytest.mark.parametrize("command", [RUN, NODE], ids=["store", "group"])
def test_a_disposal_names_who_it_ends_for_and_status_knows_who_has_failed(
    command: tuple[str, ...], query: str, tmp_path: Path
) -> None:
    """The question and the answer name the readers, and `status` knows; the app creates it anew, and they follow."""
    begin(tmp_path, command)
    dispose = ("dispose", "s", query, "--app", "app.py")
    asked = cli(*dispose, cwd=tmp_path, code=2).stderr
    told = cli(*dispose, "--yes", cwd=tmp_path).stdout
    for said in (asked, told):
        assert (f"those that read it: {', '.join(READERS[query])}" in said) == bool(READERS[query]), said
    assert all(name in told for name in FAIL_WITH[query]), told
    names = seen(tmp_path)[1]
    assert names <= FAIL_WITH[query] and bool(names) == bool(FAIL_WITH[query]), names
    with running(*command, cwd=tmp_path) as process:
        until(lambda: (tmp_path / f"{query}-{'a' if command is NODE else 'all'}").exists())
        until(lambda: not seen(tmp_path)[1], "they ran again")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert not seen(tmp_path)[1]


def after(folder: Path, *command: str, cut: int | None) -> tuple[bool, Any, list[list[str]]]:
    """Have a query fail, mend the world, do *command*, also cut; return whether it was, `status`, and the files."""
    folder.mkdir()
    write(folder, "app.py", APP)
    (folder / "bad").touch()
    cli(*NODE, "--until-ended", cwd=folder, code=FAILED)
    (folder / "bad").unlink()
    is_cut = False
    if cut is not None:
        with Forked([str(cut), *command], be_cut, cwd=folder) as process:
            process.communicate(timeout=60)
            is_cut = process.returncode == 9
    if cut is None or is_cut:
        with running(*command, cwd=folder) as process:
            said = "".join(process.communicate(timeout=60))
        assert process.returncode == 0 or (is_cut and "no partition has a query" in said), said
    first = seen(folder)
    with running(*NODE, "--until-ended", cwd=folder) as process:
        process.communicate(timeout=60)
    return is_cut, [first, seen(folder)], [each.read_text().splitlines() for each in sorted(folder.glob("*-[ab]"))]


@pytest.mark.parametrize(
    ("command", "query"), every_of(3, [(do, name) for do in ("dispose", "restart") for name in ("base", "other")])
)
def test_a_command_that_is_killed_is_made_up_for_by_its_next_call(command: str, query: str, tmp_path: Path) -> None:
    """Wherever it is killed: called again it leaves the group, its status and its sinks as if it had not been."""
    words = (command, "s", query, "--app", "app.py", "--yes")
    _, *expected = after(tmp_path / "whole", *words, cut=None)
    for cut in range(10):
        is_cut, *found = after(tmp_path / str(cut), *words, cut=cut)
        assert found == expected, cut
        if not is_cut:
            return
    raise AssertionError("it does not come to its end")


def test_one_query_after_the_other_is_run_again(tmp_path: Path) -> None:
    """In a partition that has ended the last of them leaves nothing that fails, no sink either."""
    write(tmp_path, "app.py", APP)
    (tmp_path / "bad").touch()
    cli(*NODE, "--until-ended", cwd=tmp_path, code=FAILED)
    (tmp_path / "bad").unlink()
    cli("restart", "s", "base", "--app", "app.py", cwd=tmp_path)
    assert seen(tmp_path) == ((FAILED, {"a": True, "b": False}), {"other"})
    cli("restart", "s", "other", "--app", "app.py", cwd=tmp_path)
    assert seen(tmp_path) == ((0, {"a": False, "b": False}), set())
    cli(*NODE, "--until-ended", cwd=tmp_path)


def test_a_declined_disposal_changes_no_partition(tmp_path: Path) -> None:
    """Whoever is asked for one partition is asked for all of them first: declined, all are what they were."""
    (tmp_path / "follow").touch()
    write(tmp_path, "app.py", APP)
    (tmp_path / "bad").touch()
    with running(*NODE, cwd=tmp_path) as process:
        until(lambda: (tmp_path / "other-a").exists() and (tmp_path / "other-a").read_text().count("\n") == 2)
        until(lambda: (tmp_path / "above-b").exists() and (tmp_path / "above-b").read_text().count("\n") == 2)
        stop(process)
    before = seen(tmp_path)
    assert before[1] == {"base"} or before[1] == {"other"}
    asked = cli("dispose", "s", "other", "--app", "app.py", cwd=tmp_path, code=2)
    assert "running in orders/b, with a state that a disposal drops" in asked.stderr
    assert "disposed of" not in asked.stdout
    assert seen(tmp_path) == before
    told = cli("dispose", "s", "other", "--app", "app.py", "--yes", cwd=tmp_path).stdout
    assert "disposed of in 2 partitions" in told


@pytest.mark.parametrize("command", ["restart", "dispose"])
def test_a_damaged_partition_keeps_no_other_from_its_command(command: str, tmp_path: Path) -> None:
    """It is named, by its exit code too; the others have it done."""
    begin(tmp_path, NODE)
    (store,) = (tmp_path / "s").glob("partitions/g/orders/a/*/checkpoint.sqlite")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE chunks SET blob = zeroblob(length(blob))")
    with running(command, "s", "other", "--app", "app.py", "--yes", cwd=tmp_path) as process:
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 1 and "orders/a: " in complaint and "not done in 1 partition" in complaint
    assert ("other has failed in no partition" if command == "restart" else "disposed of in 1 partition") in said
