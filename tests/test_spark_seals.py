"""What a query leaves with Spark is sealed: with a key of its owner's, nothing that another has made is unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import reliable_rx as rx
from checkpoint.format.codec import encode
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery
from spark_bridge.keyed.blob import HEAD, short
from spark_bridge.keyed.seals import PUBLIC, Seals
from spark_bridge.micro_batch_log.manifest import Part, part_told, told_part

RAN: list[str] = []
QUERY = KeyedQuery(rx.source("n").pipe(ops.count()), per_key=True)
ONE, TWO = "11" * 32, "22" * 32


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return note, ("code has run",)


def note(what: str) -> None:
    RAN.append(what)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    RAN.clear()
    monkeypatch.setenv("KEY_ONE", ONE)
    monkeypatch.setenv("KEY_TWO", f"{TWO}\n{ONE}\n")
    monkeypatch.setenv("KEY_ADOPTING", f"{ONE} unkeyed")


def blob(seals: Seals) -> bytes:
    bucket = Bucket(QUERY, seals=seals)
    bucket.take(Arrivals(["a"], [0], [1]), time=0.0)
    return bucket.blob()


def forged(seals: Seals) -> bytes:
    """A bucket as somebody makes it who knows the format, and has the key of *seals*."""
    return HEAD + seals.sealed(short(QUERY.identity.encode()) + encode(Bomb()), kind="bucket")


def test_without_a_key_a_forger_has_his_way() -> None:
    """That is what the documents say: the seal without a key is for damage."""
    with pytest.raises(TypeError):
        Bucket(QUERY, forged(PUBLIC))
    assert RAN == ["code has run"]


@pytest.mark.parametrize("by", [PUBLIC, Seals("env:KEY_OTHER")], ids=["without a key", "with another key"])
def test_with_a_key_nothing_forged_is_unpickled(by: Seals, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sealed otherwise, edited or of another kind is refused before a byte of it is loaded."""
    monkeypatch.setenv("KEY_OTHER", "33" * 32)
    mine = Seals("env:KEY_ONE")
    good = blob(mine)
    for data in (forged(by), blob(by), good[:-1] + bytes([good[-1] ^ 1]), HEAD + mine.sealed(b"x", kind="query")):
        with pytest.raises(CheckpointRefused):
            Bucket(QUERY, data, seals=mine)
    assert not RAN
    assert Bucket(QUERY, good, seals=mine).rows.keys() == {"a"}


def test_keys_rotate() -> None:
    """A newer key opens what the older one sealed, and seals anew; what had no key is let in when that is said."""
    moved = Bucket(QUERY, blob(Seals("env:KEY_ONE")), seals=Seals("env:KEY_TWO")).blob()
    with pytest.raises(CheckpointRefused, match="not on the key ring"):
        Bucket(QUERY, moved, seals=Seals("env:KEY_ONE"))
    adopted = Bucket(QUERY, blob(PUBLIC), seals=Seals("env:KEY_ADOPTING")).blob()
    assert Bucket(QUERY, adopted, seals=Seals("env:KEY_ONE")).rows.keys() == {"a"}


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_what_travels_is_where_the_key_is(dumps: Any, tmp_path: Path) -> None:
    """Spark pickles it into plans and to workers: the key is not in there, also when it has been used."""
    (tmp_path / "key").write_text(ONE)
    for place in ("env:KEY_ONE", f"file:{tmp_path / 'key'}"):
        seals = Seals(place)
        sealed = seals.sealed(b"data", kind="bucket")
        travelled = dumps(seals)
        assert bytes.fromhex(ONE) not in travelled and ONE.encode() not in travelled and ONE not in repr(seals)
        there = pickle.loads(travelled)
        assert there == seals and there.unsealed(sealed, kind="bucket") == b"data"


def test_a_key_that_is_not_there_is_told_of_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake is a sentence that names the place, the remedy, and nothing of what is there."""
    monkeypatch.setenv("KEY_SHORT", "c0ffee")
    monkeypatch.setenv("KEY_WORDS", "very secret words")
    monkeypatch.setenv("KEY_NONE", "unkeyed")
    monkeypatch.setenv("KEY_EMPTY", " \n")
    for place, says in (
        ("KEY_ONE", "env:NAME or file:PATH"), ("env:", "env:NAME or file:PATH"),
        ("env:NOT_THERE", "on the driver and on every worker"), (f"file:{tmp_path}/none", "on every worker"),
        ("env:KEY_SHORT", "hexadecimal digits"), ("env:KEY_WORDS", "hexadecimal digits"),
        ("env:KEY_NONE", "begins with no key"), ("env:KEY_EMPTY", "begins with no key"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says) as caught:
            Seals(place).ring()
        text = f"{caught.value}"
        assert "c0ffee" not in text and "secret" not in text and place in text


def test_what_tasks_tell_their_driver_is_data() -> None:
    """The parts of a batch come back as data, inline rows and all; no worker can have its driver run anything."""
    for inline in (None, b"", b"rows\nmore"):
        part = Part(3, "a1", "d" * 32, 12, ((0, 2), (1, 5)), inline=inline)
        assert told_part(part_told(part)) == part
    with pytest.raises(ValueError):
        told_part(pickle.dumps(Bomb()))
    assert not RAN
