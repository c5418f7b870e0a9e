"""A store in PostgreSQL whose rows are damaged anywhere: it opens with nothing lost, or says how it is made to open.

The same world and claims as for damaged files (`test_damaged_files`): here rows are deleted, cut, flipped, exchanged
and brought back from an earlier time, in each table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import damaged_world
import psycopg
import pytest
from damaged_world import OTHER_NUMBERS, PUSHED, WORLDS, Place, check
from lanes import every_of, sample_of
from postgres_server import PostgresServer

from checkpoint import PostgresStore

NAME = "shop"
EARLIER = PUSHED // 2
KEYS = {
    "generations": ("generation",),
    "chunks": ("generation", "number"),
    "outputs": ("stream", "first"),
    "turns": ("first",),
    "turn_bases": (),
    "entries": ("log", "first"),
    "entry_bases": ("log",),
    "positions": ("stream", "subscriber"),
    "stores": (),
}
"""What tells the rows of one store apart in each table."""
BYTES = {"generations": "manifest", "stores": "identity"}
NUMBERS = {
    "generations": ("generation", "base"), "chunks": ("generation", "number"), "outputs": ("first", "count"),
    "turns": ("first", "count"), "turn_bases": ("turn",), "entries": ("first", "count"), "entry_bases": ("first",),
    "positions": ("n",), "stores": (),
}  # fmt: skip
NOT_FOUND = {("positions", "deleted"), ("positions", "brought back")}
"""A subscriber without a position is a new one, and an older position is genuine: it reads again, and skips nothing."""
NONE_LEFT = ("stores", "deleted")
"""Without that row there is no store, as without its folder."""
NUMBERED = count()
Sql = Callable[..., list[Any]]


class World:
    """The store of a process that was killed; *database* is copied for each damage."""

    def __init__(self, folder: Path, server: PostgresServer, checkpoint_every: int) -> None:
        self.server, self.folder = server, folder
        folder.mkdir()
        self.dsn = server.new_database()
        place = self.place(self.dsn, folder)
        earlier = damaged_world.subscribe

        def and_remember(store: Any, number: int) -> None:
            earlier(store, number)
            if number == EARLIER:
                for table in KEYS:
                    sql_on(self.dsn)(f"CREATE TABLE earlier_{table} AS SELECT * FROM {table}")

        damaged_world.subscribe = and_remember
        try:
            place.work(checkpoint_every)
        finally:
            damaged_world.subscribe = earlier
        self.delivered = place.delivered()

    def copy(self, target: Path) -> tuple[Place, Sql]:
        name = f"{self.dsn.rpartition('/')[2]}_{next(NUMBERED)}"
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {self.dsn.rpartition('/')[2]}".encode())
        dsn = f"{self.server.dsn.rpartition('/')[0]}/{name}"
        target.mkdir()
        for each in self.folder.iterdir():
            (target / each.name).write_bytes(each.read_bytes())
        return self.place(dsn, target), sql_on(dsn)

    @staticmethod
    def place(dsn: str, folder: Path) -> Place:
        return Place(folder, lambda: PostgresStore(dsn, NAME), lambda: PostgresStore.read_only(dsn, NAME))


def sql_on(dsn: str) -> Sql:
    def sql(text: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(dsn, autocommit=True, options="-c search_path=reliable_rx") as connection:
            done = connection.execute(text.encode(), parameters or None)
            return done.fetchall() if done.description else []

    return sql


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Callable[[str], World]]:
    """Stores without a checkpoint, with one now and then, and with many, made when they are asked for."""
    folder, made = tmp_path_factory.mktemp("worlds"), dict[str, World]()

    def world(name: str) -> World:
        if name not in made:
            made[name] = World(folder / name, postgres, WORLDS[name])
        return made[name]

    yield world
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        for each in made.values():
            like = f"{each.dsn.rpartition('/')[2]}%"
            for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", (like,)):
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def rows_of(sql: Sql, table: str) -> list[str]:
    order = ", ".join(KEYS[table]) or "1"
    return [place for (place,) in sql(f"SELECT ctid::text FROM {table} ORDER BY {order}")]


def deleted(sql: Sql, table: str, draw: random.Random) -> None:
    rows = rows_of(sql, table)
    first = draw.randrange(len(rows))
    for each in rows[first : first + draw.choice([1, 1, 3, len(rows)])]:
        sql(f"DELETE FROM {table} WHERE ctid = %s::tid", each)


def cut(sql: Sql, table: str, draw: random.Random) -> None:
    blob = BYTES.get(table, "blob")
    keep = draw.choice(["0", f"length({blob}) / 2", f"length({blob}) - 1"])
    sql(f"UPDATE {table} SET {blob} = substring({blob} for {keep}) WHERE ctid = %s::tid", one(sql, table, draw))


def flipped(sql: Sql, table: str, draw: random.Random) -> None:
    blob = BYTES.get(table, "blob")
    at = f"(length({blob}) * {draw.random()})::int %% length({blob})"
    set_ = f"{blob} = set_byte({blob}, {at}, get_byte({blob}, {at}) # 65)"
    sql(f"UPDATE {table} SET {set_} WHERE ctid = %s::tid", one(sql, table, draw))


def numbered(sql: Sql, table: str, draw: random.Random) -> None:
    if NUMBERS[table]:
        name = draw.choice(NUMBERS[table])
        renumbered(sql, table, name, draw.choice(list(OTHER_NUMBERS.values())), one(sql, table, draw))


def renumbered(sql: Sql, table: str, name: str, other: Callable[[int], int], row: str) -> None:
    ((number,),) = sql(f"SELECT {name} FROM {table} WHERE ctid = %s::tid", row)
    with suppress(psycopg.errors.UniqueViolation):
        sql(f"UPDATE {table} SET {name} = %s WHERE ctid = %s::tid", other(number), row)


def exchanged(sql: Sql, table: str, draw: random.Random) -> None:
    blob, rows = BYTES.get(table, "blob"), rows_of(sql, table)
    if len(rows) > 1:
        a, b = draw.sample(rows, 2)
        update = f"UPDATE {table} x SET {blob} = y.{blob} FROM {table} y"
        sql(f"{update} WHERE (x.ctid, y.ctid) IN ((%s::tid, %s::tid), (%s::tid, %s::tid))", a, b, b, a)


def brought_back(sql: Sql, table: str, draw: random.Random) -> None:
    """Bring one row, or all, back as they were."""
    insert = f"INSERT INTO {table} {'OVERRIDING SYSTEM VALUE' if table == 'stores' else ''} SELECT * FROM"
    if draw.random() < 0.5:
        sql(f"DELETE FROM {table}")
        sql(f"{insert} earlier_{table}")
        return
    rows = sql(f"SELECT ctid::text FROM earlier_{table}")
    if rows:
        (place,) = draw.choice(rows)
        names = ("store", *KEYS[table]) if table != "stores" else ("id",)
        same = " AND ".join(f"x.{each} = y.{each}" for each in names)
        sql(f"DELETE FROM {table} x USING earlier_{table} y WHERE y.ctid = %s::tid AND {same}", place)
        sql(f"{insert} earlier_{table} WHERE ctid = %s::tid", place)


def one(sql: Sql, table: str, draw: random.Random) -> str:
    return draw.choice(rows_of(sql, table))


DAMAGE = {
    "deleted": deleted, "cut": cut, "flipped": flipped, "numbered": numbered, "exchanged": exchanged,
    "brought back": brought_back,
}  # fmt: skip


CASES = [each for each in product(WORLDS, KEYS, DAMAGE) if each[1:] != NONE_LEFT]


def damage_some(
    world: World, table: str, kind: str, seed: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, sql = world.copy(target)
    if rows_of(sql, table):
        DAMAGE[kind](sql, table, random.Random(seed))
        check(world.delivered, place, capsys, subscribers=(table, kind) not in NOT_FOUND)


@pytest.mark.parametrize("checkpoints, table, kind", every_of(211, CASES, nightly=7))
def test_damage_of_any_row(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    table: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each table, at drawn rows."""
    for number in range(2):
        seed = f"{checkpoints} {table} {kind} {number}"
        damage_some(worlds(checkpoints), table, kind, seed, tmp_path / f"copy{number}", capsys)


NUMBERED_CASES = [
    (world, table, name, how)
    for world, (table, names), how in product(WORLDS, NUMBERS.items(), OTHER_NUMBERS)
    for name in names
]


@pytest.mark.parametrize("checkpoints, table, name, how", every_of(109, NUMBERED_CASES, nightly=7))
def test_another_number_in_the_oldest_and_newest_row(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    table: str,
    name: str,
    how: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each column of numbers: where tables begin and end they are read by other ways than between."""
    world = worlds(checkpoints)
    for edge in sample_of(2, (-1, 0)):
        place, sql = world.copy(tmp_path / f"copy{edge}")
        if rows := rows_of(sql, table):
            renumbered(sql, table, name, OTHER_NUMBERS[how], rows[edge])
            check(world.delivered, place, capsys)
