"""What fails in one key, without Spark: it ends that key with a row that says why, and no other, whatever it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from test_spark_packets import layout

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery
from spark_bridge.on_spark.packets import unpacked

Event = tuple[str, int]
LAYOUT = layout(pa.int64())


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(make: Callable[[], BaseException]) -> Callable[[Any], Any]:
    def f(event: Event) -> int:
        if event[1] == 13:
            raise make()
        return event[1]

    return lambda group: group.pipe(ops.map(f), ops.scan(lambda a, b: a + b))


def lock_at_13(a: tuple[int, Any], event: Event) -> tuple[int, Any]:
    return a[0] + event[1], threading.Lock() if event[1] == 13 else a[1]


def first(pair: tuple[int, Any]) -> int:
    return pair[0]


def locking(group: Any) -> Any:
    return group.pipe(ops.scan(lock_at_13, (0, None)), ops.map(first))


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no text": (raising(Mute), "Mute: <its text cannot be had: RuntimeError>"),
    "half a surrogate pair": (raising(lambda: ValueError("\ud800\0")), r"ValueError: \ud800\x00"),
    "an exit": (raising(lambda: SystemExit(3)), "SystemExit: 3"),
    "a lock in a state": (locking, "cannot be stored"),
}


def query_of(inside: Callable[[Any], Any], *, chain: bool) -> KeyedQuery:
    after: list[Any] = [] if chain else [ops.timeout(1e9)]
    apart = ops.group_by(lambda event: event[0])  # type: ignore[index]
    each: Any = ops.flat_map(lambda group: inside(group).pipe(*after) if after else inside(group))
    query = KeyedQuery(rx.source("s").pipe(apart, each))
    assert (query.chain is not None) == chain
    return query


def run(query: KeyedQuery, told: list[list[Event]]) -> list[dict[str, Any]]:
    """Take batch after batch, each time from bytes; return the rows that come out as packets."""
    blob, seq, found = None, 0, []
    for batch in told:
        bucket = Bucket(query, blob)
        arrivals = Arrivals([key for key, _ in batch], list(range(seq, seq + len(batch))), batch)
        out = bucket.take(arrivals, time=float(seq))
        blob, seq = bucket.blob(out), seq + len(batch)
        if out.ids:
            found += unpacked(LAYOUT.packet(out), LAYOUT.output).to_pylist()
    return found


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
@pytest.mark.parametrize("name", BAD)
def test_what_fails_in_one_key_ends_that_key_alone(name: str, chain: bool) -> None:
    """An error without a text, one that no column holds, a state that does not pickle: only that key ends."""
    inside, said = BAD[name]
    told: list[list[Event]] = [[("a", 1), ("b", 2)], [("a", 3), ("b", 13), ("b", 1)], [("b", 5), ("a", 5)]]
    rows = run(query_of(inside, chain=chain), told)
    assert [row["value"] for row in rows if row["k"] == "a"] == [1, 4, 9]
    mine = [row for row in rows if row["k"] == "b"]
    assert [row["id"] for row in mine] == list(range(len(mine)))
    assert [row["kind"] for row in mine][-1] == "error" and [row["kind"] for row in mine].count("error") == 1
    assert said in mine[-1]["error"]


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
def test_what_cannot_be_stored_names_its_key_and_operator(chain: bool) -> None:
    """The error says whose state it is, in which operator, and what to do."""
    rows = run(query_of(locking, chain=chain), [[("b", 13)]])
    assert [row["value"] for row in rows] == [13, None]
    for part in ("key 'b'", "scan", "_thread.lock", "keep what pickles"):
        assert part in rows[-1]["error"]


def test_without_anywhere_to_say_it_a_blob_is_refused() -> None:
    """A bucket that cannot tell that a key ends is refused, with the key, and is as it was."""
    bucket = Bucket(query_of(locking, chain=True))
    bucket.take(Arrivals(["b"], [0], [("b", 13)]), time=0.0)
    for _ in range(2):
        with pytest.raises(QueryRefused, match="key 'b'"):
            bucket.blob()
