"""Registries: one document under compare-and-set, in memory, in a file, and between real processes."""

from __future__ import annotations

import json
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psycopg
import pytest
from conditions import until
from postgres_server import PostgresServer
from registry_process import SHARDS

from hosting.partitioned.postgres_registry import PostgresRegistry
from hosting.partitioned.registry import MemoryRegistry, Registry
from hosting.partitioned.sqlite_registry import SqliteRegistry
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

WAIT_S = 60.0
APP = Path(__file__).with_name("registry_process.py")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Registry, Registry]:
    """Two views of one registry."""
    if request.param == "memory":
        one: Registry = MemoryRegistry()
        return one, one
    views: list[SqliteRegistry | PostgresRegistry]
    if request.param == "sqlite":
        views = [SqliteRegistry(tmp_path / "group.sqlite", "g", poll_s=0.005) for _ in range(2)]
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        name = uuid.uuid4().hex
        views = [PostgresRegistry(server.dsn, name) for _ in range(2)]
    for view in views:
        request.addfinalizer(view.close)
    return views[0], views[1]


@pytest.mark.parametrize("kind, rounds", [("sqlite", 40), ("postgres", 5)])
def test_nodes_that_begin_a_group_at_once(
    kind: str, rounds: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Whoever opens a registry that is not there yet finds or makes it, however many do so at one time."""
    failed, starts = list[BaseException](), threading.Barrier(4)

    def begin(where: str) -> None:
        starts.wait()
        try:
            (SqliteRegistry(where, "g") if kind == "sqlite" else PostgresRegistry(where, "g")).close()
        except BaseException as raised:
            failed.append(raised)

    for number in range(rounds):
        fresh = tmp_path / f"{number}.sqlite"
        where = str(fresh) if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
        threads = [threading.Thread(target=begin, args=(where,)) for _ in range(starts.parties)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not failed


def test_the_newest_version_alone_can_be_replaced(pair: tuple[Registry, Registry]) -> None:
    """Whoever is late is told so, and has changed nothing."""
    one, other = pair
    assert one.load() == (0, None)
    assert one.swap(0, b"a", notice=False)
    assert not other.swap(0, b"b", notice=True)
    assert other.load() == (1, b"a")
    assert other.swap(1, b"c", notice=True)
    assert not one.swap(1, b"d", notice=True)
    assert one.load() == (2, b"c")


def test_it_is_known_when_it_was_written(pair: tuple[Registry, Registry]) -> None:
    """Each swap that counts begins the age anew, and no reading does."""
    one, other = pair
    assert one.age_s() is None
    assert one.swap(0, b"a", notice=False)
    first = until(lambda: (age := other.age_s() or 0.0) > 0.05 and age)
    assert not other.swap(0, b"b", notice=False) and (one.age_s() or 0.0) >= first
    waited = time.monotonic()
    assert other.swap(1, b"c", notice=False)
    assert (one.age_s() or 0.0) <= time.monotonic() - waited + first / 2


def test_every_swap_of_many_threads_counts(pair: tuple[Registry, Registry]) -> None:
    """Lost races are repeated, and none of a hundred additions is lost."""

    def add(registry: Registry) -> None:
        for _ in range(25):
            while True:
                version, document = registry.load()
                if registry.swap(version, str(int(document or b"0") + 1).encode(), notice=False):
                    break

    threads = [threading.Thread(target=add, args=(pair[number % 2],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert pair[0].load() == (100, b"100")


def test_a_notice_wakes_the_others_until_they_want_no_more(pair: tuple[Registry, Registry]) -> None:
    """A swap with a notice is heard through the other view; afterwards nothing is."""
    one, other = pair
    heard = threading.Event()
    cancel = other.subscribe(heard.set)
    assert one.swap(0, b"a", notice=True)
    assert heard.wait(WAIT_S)
    cancel()
    heard.clear()
    assert one.swap(1, b"b", notice=True)
    assert not heard.is_set()


def test_another_file_is_refused_and_a_closed_one_unavailable(tmp_path: Path) -> None:
    """Nothing is written into somebody else's database."""
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(CheckpointRefused, match="not a registry"):
        SqliteRegistry(tmp_path / "other.sqlite", "g")
    registry = SqliteRegistry(tmp_path / "group.sqlite", "g")
    registry.close()
    registry.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        registry.load()


def test_another_format_is_refused_and_a_closed_registry_unavailable(postgres: PostgresServer) -> None:
    """A registry opens no tables of a newer format, and once closed answers nothing more."""
    dsn = postgres.new_database()
    registry = PostgresRegistry(dsn, "g")
    registry.close()
    registry.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        registry.load()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE reliable_rx.format SET version = 99")
    with pytest.raises(CheckpointRefused, match="format 99"):
        PostgresRegistry(dsn, "g")
    with pytest.raises(ValueError, match="no address"):
        PostgresRegistry("postgresql://[", "g")


@pytest.mark.slow
def test_whoever_listens_is_woken_after_a_restart_too(mortal_postgres: PostgresServer) -> None:
    """While the server is away everything is unavailable; when it is back, listeners wake, and notices come again."""
    one, other = (PostgresRegistry(mortal_postgres.dsn, "g") for _ in range(2))
    try:
        heard = threading.Event()
        other.subscribe(heard.set)
        assert one.swap(0, b"a", notice=True)
        assert heard.wait(WAIT_S)
        mortal_postgres.stop(signal.SIGQUIT)
        with pytest.raises(StoreUnavailable):
            one.load()
        heard.clear()
        mortal_postgres.start()
        assert heard.wait(WAIT_S)
        assert one.load() == (1, b"a")
        heard.clear()
        assert one.swap(1, b"b", notice=True)
        assert heard.wait(WAIT_S)
    finally:
        one.close()
        other.close()


class Watched:
    """A process and what it says."""

    def __init__(self, where: str, name: str, said: queue.Queue[tuple[str, dict[str, int]]]) -> None:
        self.name = name
        arguments = [sys.executable, str(APP), where, name]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        self.reader = threading.Thread(target=self.read, args=(said,), daemon=True)
        self.reader.start()

    def read(self, said: queue.Queue[tuple[str, dict[str, int]]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said.put((self.name, json.loads(line)))

    def end(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        self.reader.join(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_a_killed_process_held_moves_to_the_others(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Three processes share six partitions; one is killed; the other two have all six, under greater epochs."""
    database = request.getfixturevalue("postgres").new_database() if kind == "postgres" else ""
    where = database or str(tmp_path / "group.sqlite")
    said: queue.Queue[tuple[str, dict[str, int]]] = queue.Queue()
    nodes = {name: Watched(where, name, said) for name in ("one", "two", "three")}
    holds: dict[str, dict[str, int]] = {name: {} for name in nodes}
    epochs: dict[str, int] = {}

    def wait_for_shares(*shares: int) -> None:
        while sorted(len(each) for each in holds.values()) != sorted(shares):
            name, held = said.get(timeout=WAIT_S)
            if name in holds:
                holds[name] = held
        everything = [each for held in holds.values() for each in held]
        assert sorted(everything) == sorted(str(each.partition) for each in SHARDS)

    try:
        wait_for_shares(2, 2, 2)
        epochs = dict(holds["one"])
        nodes["one"].end()
        del holds["one"]
        wait_for_shares(3, 3)
        now = {each: epoch for held in holds.values() for each, epoch in held.items()}
        assert all(now[each] > epoch for each, epoch in epochs.items())
    finally:
        for node in nodes.values():
            if node.process.poll() is None:
                node.end()


def test_whoever_forgets_to_close_can_still_end(tmp_path: Path) -> None:
    """The thread that looks for changes keeps no process alive."""
    registry = SqliteRegistry(tmp_path / "registry.sqlite", "g")
    before = set(threading.enumerate())
    registry.subscribe(lambda: None)
    made = set(threading.enumerate()) - before
    registry.close()
    assert [each.daemon for each in made] == [True]
