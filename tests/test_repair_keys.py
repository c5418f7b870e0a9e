"""A repair of a store in a database that is sealed with keys of its program: they are given to it, older ones too."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import damaged_world
import pytest
from damaged_world import PUSHED, hosting, plain, push, read
from killed_store import killed
from lanes import at_each_commit
from postgres_server import PostgresServer
from test_damaged_rows import sql_on

from checkpoint import KeyRing, PostgresStore
from checkpoint.format.salvage import Unreadable
from checkpoint.store import Store
from hosting.cli.command import main

APP = f"{damaged_world.__name__}:app"
OLD, NEW = b"o" * 32, b"n" * 32
DAMAGE = {
    "newest turn": "UPDATE turns SET blob = set_byte(blob, 50, 1) WHERE first = (SELECT max(first) FROM turns)",
    "base": "UPDATE turn_bases SET blob = set_byte(blob, 50, 1)",
    "identity": "UPDATE stores SET identity = substring(identity for 20)",
}


@pytest.mark.parametrize("kind", ["base", *map(at_each_commit, ("newest turn", "identity"))])
def test_keys_are_given_to_a_repair(
    kind: str, tmp_path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them nothing is changed, and how they are given is said; with them all is kept that they have sealed."""
    dsn, told, file = postgres.new_database(), tmp_path / "told", tmp_path / "keys"
    sql, ring = sql_on(dsn), KeyRing(NEW, older=(OLD,))

    def opened(keys: KeyRing = ring) -> Store:
        return PostgresStore(dsn, "shop", keys=keys)

    def work() -> None:
        for keys, numbers in ((KeyRing(OLD), range(PUSHED // 2)), (ring, range(PUSHED // 2, PUSHED))):
            evaluator = hosting(tmp_path).evaluator(opened(keys))
            evaluator.start()
            push(evaluator, numbers, checkpoint_every=20)
            told.write_text(json.dumps(read(evaluator)))
            if keys is not ring:
                evaluator.close()
                evaluator.store.close()

    killed(work)
    hosting(tmp_path)
    sql(DAMAGE[kind])
    before = stored(sql)
    command = ["store", "repair", dsn, "--name", "shop", "--app", APP, "--yes"]
    for keys in ((), (NEW,), (NEW, OLD)):
        file.write_text("".join(f"{each.hex()}\n" for each in keys))
        code = main([*command, *(["--keys", str(file)] if keys else [])])
        said = "".join(capsys.readouterr())
        if keys != (NEW, OLD):
            assert (code, stored(sql)) == (1, before) and "--keys FILE" in said, said
    assert code == 0, said
    with opened() as store, closing(hosting(tmp_path).evaluator(store)) as evaluator:
        evaluator.start()
        found = read(evaluator)["total"]
    delivered = json.loads(told.read_text())["total"]
    kept = {n: plain(value) for n, value in found.items() if not isinstance(value, Unreadable)}
    assert all(kept[n] == delivered[str(n)] for n in kept if str(n) in delivered)
    assert len(kept) >= PUSHED - 20


def stored(sql: object) -> object:
    assert callable(sql)
    return [sql(f"SELECT * FROM {each} ORDER BY 1, 2") for each in ("stores", "turns", "turn_bases", "entries")]


@pytest.mark.parametrize("text", ["", "not hexadecimal", "ab"])
def test_a_file_without_keys_is_refused(
    text: str, tmp_path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With how it is to be written."""
    dsn, file = postgres.new_database(), tmp_path / "keys"
    PostgresStore(dsn, "shop", keys=KeyRing(NEW)).close()
    file.write_text(text)
    assert main(["store", "repair", dsn, "--keys", str(file), "--yes"]) == 2
    assert "a line each, the present one first" in capsys.readouterr().err
