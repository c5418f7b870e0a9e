"""Every command that names a store does the same to one in a folder and to one in a database."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli_process import cli, write
from lanes import every
from postgres_server import PostgresServer

import reliable_rx as rx
from checkpoint import PostgresStore, SqliteStore
from checkpoint.format.codec import decode_data
from checkpoint.postgres.copy import COPY
from checkpoint.store import Store, StoreReader
from hosting import App, ListSource
from hosting.cli.command import main, parser
from hosting.cli.inspect_store import tops
from hosting.engine.records import read_records
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from reliable_rx.runtime.rows import Loader
from reliable_rx.testing.steps import add

APP = f"{__name__}:app"
NAME = "shop"
app: App = App()


class Leaving:
    """A class that goes."""


def failing(n: int) -> float:
    return 10 / (n - 3)


def leaving(n: int) -> Any:
    return Leaving()


def declared(count: int) -> App:
    """Declare the app with a query that fails, one with a state, and one that keeps objects of a class."""
    global app
    app = App(checkpoint_interval_s=1e9)
    app.source("n", ListSource(list(range(1, count + 1)), follow=True))
    app.query("bad", rx.source("n").map(failing))
    app.query("sum", rx.source("n").pipe(ops.scan(add, 0)))
    app.query("kept", rx.source("n").pipe(ops.map(leaving), ops.buffer_with_count(99)))
    return app


@dataclass
class Place:
    """A store as commands find it, and as a program opens it; *called* is what tells it from the other one."""

    where: str | Path
    called: list[str]

    def own(self) -> Store:
        return PostgresStore(self.where, NAME) if isinstance(self.where, str) else SqliteStore(self.where)

    def look(self) -> StoreReader:
        if isinstance(self.where, str):
            return PostgresStore.read_only(self.where, NAME)
        return SqliteStore.read_only(self.where)

    def neutral(self, text: str) -> str:
        """Return *text* without the store's name, times, sizes and gaps."""
        for name in self.called:
            text = text.replace(name, "STORE")
        text = re.sub(r"[\d.,]+ (ms|s|k?B|MB)\b|\d+ min \d+ s|[\d-]{10} [\d:]{8}Z", "#", text)
        return re.sub(r" +", " ", text)

    def names(self) -> list[str]:
        """Name what lies where the store lies."""
        if isinstance(self.where, Path):
            return sorted(os.listdir(self.where.parent))
        with psycopg.connect(self.where) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM reliable_rx.stores").fetchall()]


@pytest.fixture
def places(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Place]]:
    """Give a folder and a database; no command makes a folder of an address."""
    work, folder, dsn = tmp_path / "work", tmp_path / "stores" / NAME, postgres.new_database()
    work.mkdir()
    monkeypatch.chdir(work)
    called = f"postgresql://{dsn.partition('@')[2]}, store '{NAME}'"
    yield [
        Place(folder, [f"{folder}/checkpoint.sqlite", f"{folder}/journal.sqlite", str(folder)]),
        Place(dsn, [f"--name {NAME} {dsn}", called, f"{NAME} in the database"]),
    ]
    assert os.listdir(work) == []


def filled(place: Place, *, clean: bool) -> None:
    """Run the app on the store, and behind its last checkpoint for a turn more unless it is stopped *clean*."""
    with place.own() as store:
        for count in (4,) if clean else (4, 5):
            evaluator = declared(count).evaluator(store)
            while evaluator.step():
                pass
            evaluator.flush()
            if count == 4:
                evaluator.checkpoint()
                store.acknowledge("sum", "far", 1)
                evaluator.close()
            else:
                evaluator.abandon()


def content(place: Place) -> dict[str, Any]:
    """Return what a store holds that a command may have changed."""
    with place.look() as store:
        recovered = store.recover()
        assert recovered is not None
        return {
            "generations": [each.generation for each in store.generations()],
            "queries": {
                each.name: (each.status, each.emitted)
                for each in tops(read_records(recovered.chunks, Loader({}), bears=Exception))
            },
            "streams": {each: store.bounds(each) for each in store.streams()},
            "holders": decode_data(recovered.meta)[0]["holders"],
            "durable": {each: store.acknowledged(each) for each in store.subscribed()},
            "turns": store.journal.last_turn,
        }


CALLS = (
    "inspect STORE",
    "inspect STORE --state sum",
    "inspect STORE --state none",
    "tail STORE sum",
    "tail STORE bad --from 1",
    "tail STORE sum --from 99",
    "tail STORE none",
    "restart STORE bad",
    "restart STORE sum",
    "restart STORE sum --yes",
    "restart STORE none",
    "dispose STORE bad",
    "dispose STORE sum",
    "dispose STORE sum --yes",
    "dispose STORE none",
    "holders STORE",
    "release STORE sum 'store far'",
    "release STORE sum nobody",
    "store repair STORE",
)
"""Each is given to a store as it is, with `--app` too where it takes that."""
GONE = ("store repair STORE --yes", "restart STORE bad", "tail STORE kept", "inspect STORE")
"""Given to a store that cannot be opened: a class of a state is gone."""


def naming_a_store() -> dict[str, bool]:
    """Name the commands that take a store as an argument, and say whether each takes an app."""
    found = {}

    def walk(each: argparse.ArgumentParser, words: list[str]) -> None:
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, below in action.choices.items():
                    walk(below, [*words, name])
        if any(action.metavar == "STORE" for action in each._actions if not action.option_strings):
            found[" ".join(words)] = any("--app" in action.option_strings for action in each._actions)

    walk(parser(), [])
    return found


def lines() -> Iterator[tuple[str, bool, bool]]:
    """Give what is played: a call, whether the store was stopped in order, whether it is without a class."""
    takes_app = naming_a_store()
    for is_gone, calls in ((False, CALLS), (True, GONE)):
        for call in calls:
            for app in ("", f" --app {APP}") if takes_app[call.partition(" STORE")[0]] else ("",):
                yield from ((call + app, clean, is_gone) for clean in (True, False))


def test_every_command_that_names_a_store_is_played() -> None:
    """A command that takes a store and is not played here may do something else to one in a database."""
    assert naming_a_store().keys() == {each.partition(" STORE")[0] for each in CALLS}


@pytest.mark.parametrize("played", every(37, lines()), ids=str)
def test_a_command_does_the_same_to_a_folder_and_to_a_database(
    played: tuple[str, bool, bool],
    places: list[Place],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same exit code, the same words, and the same left in the store and beside it."""
    line, clean, gone = played
    for place in places:
        filled(place, clean=clean)
    if gone:
        monkeypatch.delattr(f"{__name__}.Leaving")
    outcomes = []
    for place in places:
        before, call = place.names(), [str(place.where) if word == "STORE" else word for word in shlex.split(line)]
        code = main(call)
        told = capsys.readouterr()
        outcomes.append((code, place.neutral(told.out), place.neutral(told.err), content(place)))
        assert place.names() == before
    assert outcomes[0] == outcomes[1]


def test_a_damaged_checkpoint_in_a_database_is_repaired_by_the_command_that_is_named(
    places: list[Place], capsys: pytest.CaptureFixture[str]
) -> None:
    """The start is refused with a command; that names the damage in the words of the store, and mends it."""
    _, place = places
    for _ in range(2):
        filled(place, clean=True)
    assert isinstance(place.where, str)
    with psycopg.connect(place.where) as connection:
        newest = "generation = (SELECT max(generation) FROM reliable_rx.generations)"
        connection.execute(f"UPDATE reliable_rx.chunks SET blob = 'x' WHERE {newest}".encode())
    with place.own() as store, pytest.raises(CheckpointRefused) as refused:
        declared(4).evaluator(store).start()
    words = shlex.split(refused.value.message.split("`")[1].replace("MODULE:APP", APP))
    assert main([*words[1:], "--yes"]) == 0
    said = capsys.readouterr().out
    assert "checkpoint: " in said and COPY not in said and "reliable-rx" not in said
    assert main(words[1:]) == 0
    assert f"{NAME} in the database starts as it is" in capsys.readouterr().out


def test_a_copy_that_was_left_behind_is_in_nobodys_way(places: list[Place], capsys: pytest.CaptureFixture[str]) -> None:
    """A repair that was killed left its copy in the database: the next one deletes it. One at work is not disturbed."""
    _, place = places
    filled(place, clean=False)
    assert isinstance(place.where, str)
    with PostgresStore(place.where, f"{NAME}{COPY}", epoch=7) as left:
        left.journal.append(1, 1, b"a turn")
        assert main(["store", "repair", place.where, "--app", APP]) == 1
        assert "is in use by process" in capsys.readouterr().err
    assert main(["store", "repair", place.where, "--app", APP]) == 0
    assert place.names() == [NAME]
    with place.own() as store, closing(declared(5).evaluator(store)) as evaluator:
        evaluator.start()
        assert evaluator.query("sum").emitted == 5


def test_a_store_of_a_partition_is_looked_at_by_its_name(
    postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not taken for the store of a program, but can be named."""
    dsn = postgres.new_database()
    with PostgresStore(dsn, "g/n/0", epoch=1) as store, closing(declared(2).evaluator(store)) as evaluator:
        evaluator.step()
        evaluator.checkpoint()
    assert main(["tail", dsn, "sum"]) == 2
    assert "GROUP/SOURCE/PARTITION, such as g/n/0\n" in capsys.readouterr().err
    assert main(["tail", dsn, "sum", "--name", "g/n/0"]) == 0
    assert capsys.readouterr().out == "0\t1\n1\t3\n"


def test_apps_of_one_name_share_a_database(tmp_path: Path, postgres: PostgresServer) -> None:
    """`run --name` says in which store; the commands find each by its name."""
    dsn = postgres.new_database()
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
        text = f"app.query({each!r}, app.source('n', ListSource([1])))"
        write(tmp_path / each, "app.py", f"from hosting import App, ListSource\napp = App()\n{text}\n")
        cli("run", "app.py", "--store", dsn, "--name", each, cwd=tmp_path / each)
    for each in ("one", "two"):
        assert cli("tail", dsn, each, "--name", each, cwd=tmp_path).stdout.startswith("0\t1\n")
    assert "--name" in cli("tail", dsn, "one", cwd=tmp_path, code=2).stderr
