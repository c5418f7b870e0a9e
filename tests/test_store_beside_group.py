"""A folder is that of a store or of a group, and so is a name in a database: none is made over the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import cli
from postgres_server import PostgresServer

from checkpoint import PostgresStore, SqliteStore
from hosting.partitioned.opening import open_group
from reliable_rx.errors import StoreOwned

APP = """
from hosting import App, JsonLinesSink, ListSource
app = App()
n = app.source("n", ListSource([1, 2, 3]))
app.query("base", n.map(lambda x: x))
app.sink("base", lambda place: JsonLinesSink(f"{'run' if place is None else 'node'}.jsonl"))
"""
RUN = ("run", "m", "--plain", "--store")
NODE = ("node", "m", "--plain", "--gather", "0", "--until-ended", "--store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an app."""
    (tmp_path / "m.py").write_text(APP)
    return tmp_path


def content(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def test_no_group_is_made_where_a_store_is(folder: Path) -> None:
    """By a node and by a program, while a program has the store open and when none has: nothing is written."""
    cli(*RUN, "s", cwd=folder)
    before = content(folder / "s")
    refused = cli(*NODE, "s", cwd=folder, code=2).stderr
    assert "s is the folder of a store" in refused and "a folder of its own, or use `reliable-rx run`" in refused
    with pytest.raises(StoreOwned, match="is the folder of a store"):
        open_group(folder / "s", "m")
    assert content(folder / "s") == before
    with SqliteStore(folder / "s"):
        cli(*NODE, "s", cwd=folder, code=2)
    cli(*RUN, "s", cwd=folder)
    assert not (folder / "node.jsonl").exists()


def test_no_store_is_made_where_a_group_is(folder: Path) -> None:
    """By `run` and by a program: nothing is written, and the group goes on."""
    cli(*NODE, "g", cwd=folder)
    before = content(folder / "g")
    assert "g is shared by a group of nodes: give a folder of its own" in cli(*RUN, "g", cwd=folder, code=2).stderr
    with pytest.raises(StoreOwned, match="is shared by a group of nodes: give the store a folder of its own"):
        SqliteStore(folder / "g")
    assert content(folder / "g") == before
    cli(*NODE, "g", cwd=folder)


def test_no_name_in_a_database_is_given_twice(folder: Path, postgres: PostgresServer) -> None:
    """A group under the name of a store is refused, and a store under that of a group; other names are free."""
    dsn = postgres.new_database()
    cli(*RUN, dsn, "--name", "one", cwd=folder)
    assert "'one' is a store in that database" in cli(*NODE, dsn, "--group", "one", cwd=folder, code=2).stderr
    with pytest.raises(StoreOwned, match="another name"):
        open_group(dsn, "one")
    cli(*NODE, dsn, "--group", "two", cwd=folder)
    cli(*RUN, dsn, "--name", "one", cwd=folder)
    refused = cli(*RUN, dsn, "--name", "two", cwd=folder, code=2).stderr
    assert "'two' is a group of nodes in that database: give the store another --name" in refused


def test_a_database_that_holds_both_under_one_name_serves_both(folder: Path, postgres: PostgresServer) -> None:
    """An older release made them: each goes on, and a command that could mean both asks which."""
    dsn = postgres.new_database()
    cli(*NODE, dsn, cwd=folder)
    PostgresStore(dsn, "m").close()
    (folder / "run.jsonl").unlink(missing_ok=True)
    cli(*RUN, dsn, cwd=folder)
    cli(*NODE, dsn, cwd=folder)
    assert "say which with --group: m, or with --name" in cli("status", "--store", dsn, cwd=folder, code=2).stderr


@pytest.fixture
def both(folder: Path) -> Path:
    """A folder that holds both, as an older release made it."""
    cli(*RUN, "both", cwd=folder)
    cli(*NODE, "g", cwd=folder)
    for each in (folder / "g").iterdir():
        each.rename(folder / "both" / each.name)
    (folder / "g").rmdir()
    return folder


REFUSED = (
    (*RUN, "both"),
    (*NODE, "both"),
    ("restart", "both", "base", "--yes", "--app", "m"),
    ("dispose", "both", "base", "--yes", "--app", "m"),
    ("holders", "both"),
    ("release", "both", "base", "me"),
)
TOLD = (
    ("status", "--store", "both"),
    ("status", "--store", "both", "--group", "m"),
    ("offsets", "show", "--store", "both"),
    ("inspect", "both"),
    ("tail", "both", "base"),
    ("store", "repair", "both", "--app", "m", "--yes"),
    ("holders", "both", "--group", "m"),
)


def test_a_folder_that_holds_both_says_so_and_is_parted(both: Path) -> None:
    """Each command names the way apart, `status` shows both, and what is done so has both go on."""
    before = content(both / "both")
    for line in REFUSED:
        assert "both holds a store and a group of nodes" in cli(*line, cwd=both, code=2).stderr, line
    assert content(both / "both") == before
    for line in TOLD:
        assert "both holds a store and a group of nodes" in cli(*line, cwd=both).stderr, line
    seen = cli("status", "--store", "both", cwd=both).stdout
    assert "store both: no process runs on it" in seen and "group m: 0 members, 1 partition" in seen
    (both / "own").mkdir()
    moved = [*(both / "both").glob("registry.sqlite*"), both / "both" / "offsets", both / "both" / "partitions"]
    for each in moved:
        each.rename(both / "own" / each.name)
    (both / "m.py").write_text(APP.replace("[1, 2, 3]", "[1, 2, 3, 4]"))
    cli(*RUN, "both", cwd=both)
    cli(*NODE, "own", cwd=both)
    assert "holds" not in cli("status", "--store", "both", cwd=both).stderr
    assert (both / "run.jsonl").read_text().count('"value"') == 3, "the source has ended"
