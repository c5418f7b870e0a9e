"""A key on Spark whose state goes into bytes and does not come out of them: it ends with a row, the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from test_spark_packets import layout

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from reliable_rx.testing.hostile import UNREADABLE, VALUES, Hostile
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery
from spark_bridge.keyed.joining import put_together
from spark_bridge.keyed.moving import cut_out
from spark_bridge.on_spark.packets import unpacked

Event = tuple[str, int]
BATCHES = 4
LAYOUT = layout(pa.int64())


class Money(int):
    """Two arguments, and pickle gives one."""

    def __new__(cls, amount: int, currency: str) -> Money:
        return super().__new__(cls, amount)


class Frozen:
    """Is given its state back and raises."""

    def __init__(self) -> None:
        self.a = 1

    def __setstate__(self, state: Any) -> None:
        raise AttributeError("frozen")


class Leaving:
    def __reduce__(self) -> Any:
        return exit_now, ()


def exit_now() -> Any:
    raise SystemExit(3)


BAD: tuple[Hostile, ...] = (
    *(each for each in VALUES if each.kind == UNREADABLE),
    Hostile("an int of two arguments", lambda: Money(5, "EUR")),
    Hostile("one that raises", Frozen),
    Hostile("an exit", Leaving),
    Hostile("inside others", lambda: {"a": [(1, Frozen())]}),
)


def query_of(make: Callable[[], Any], *, chain: bool) -> KeyedQuery:
    """A count that holds something beside it, from the third event of the key ``b`` on."""

    def step(held: Any, event: Event) -> Any:
        return (event[1], make() if event == ("b", 2) else 0)

    after: list[Any] = [] if chain else [ops.timeout(1e9)]
    each: Any = ops.flat_map(lambda group: group.pipe(ops.scan(step, None), ops.map(first), *after))
    query = KeyedQuery(rx.source("s").pipe(ops.group_by(lambda event: event[0]), each))
    assert (query.chain is not None) == chain
    return query


def first(held: tuple[int, Any]) -> int:
    return held[0]


def batches(query: KeyedQuery) -> Iterator[list[dict[str, Any]]]:
    """Take batch after batch, each time from bytes, twice: what comes out of both is the same."""
    blob = None
    for batch in range(BATCHES + 2):
        arrivals = Arrivals(list("abc"), [batch * 3 + n for n in range(3)], [(key, batch) for key in "abc"])
        found = []
        for _ in range(2):
            bucket = Bucket(query, blob)
            out = bucket.take(arrivals, time=float(batch))
            after = bucket.blob(out)
            found.append(unpacked(LAYOUT.packet(out), LAYOUT.output).to_pylist())
        assert found[0] == found[1]
        blob = after
        yield found[0]


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_state_that_cannot_be_read_ends_its_key_alone(bad: Hostile, chain: bool) -> None:
    """The key ends once, under its next id, with its name and what to do; the others miss nothing."""
    rows = [row for batch in batches(query_of(bad.make, chain=chain)) for row in batch]
    for other in "ac":
        mine = [row for row in rows if row["k"] == other]
        assert [(row["id"], row["kind"], row["value"]) for row in mine] == [(n, "next", n) for n in range(BATCHES + 2)]
    mine = [row for row in rows if row["k"] == "b"]
    assert [(row["id"], row["kind"], row["value"]) for row in mine] == [
        *((n, "next", n) for n in range(3)),
        (3, "error", None),
    ]
    for part in ("key 'b'", "state", "plain data"):
        assert part in mine[-1]["error"]


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
def test_what_is_missing_gives_nothing_up(chain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that a worker cannot import is no key's fault: the batch is refused, and goes on when it is back."""
    query = query_of(lambda: Here(), chain=chain)
    blob = None
    for batch in range(5):
        arrivals = Arrivals(list("ab"), [batch * 2, batch * 2 + 1], [("a", batch), ("b", batch)])
        if batch == 3:
            with monkeypatch.context() as gone:
                gone.delattr(f"{__name__}.Here")
                with pytest.raises(CheckpointRefused, match=r"key 'b' needs .*Here.*bring it to every worker.*nothing"):
                    Bucket(query, blob).take(arrivals, time=float(batch))
        bucket = Bucket(query, blob)
        out = bucket.take(arrivals, time=float(batch))
        blob = bucket.blob(out)
        assert [row[1:] for row in out.rows()] == [(batch, "next", batch)] * 2


class Here:
    """A class that is there most of the time."""


def test_an_edited_query_ends_such_a_key_too() -> None:
    """The others go on with their states in the edited query, from a chain into an engine."""
    before = query_of(Frozen, chain=True)
    bucket = Bucket(before)
    out = bucket.take(Arrivals(list("abb"), [0, 1, 2], [("a", 0), ("b", 0), ("b", 2)]), time=0.0)
    blob = bucket.blob(out)
    edited = Bucket(query_of(lambda: 0, chain=False), blob)
    with pytest.raises(CheckpointRefused, match="key 'b'"):
        edited.blob()
    out = edited.take(Arrivals(list("ab"), [3, 4], [("a", 1), ("b", 3)]), time=1.0)
    rows = list(out.rows())
    assert ("a", 1, "next", 1) in rows
    assert [row[:3] for row in rows if row[0] == "b"] == [("b", 2, "error")]
    edited.blob(out)


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
def test_such_a_key_is_left_out_of_an_evaluator(chain: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It counts among those that have ended, with its error; the others move."""
    query = query_of(Frozen, chain=chain)
    bucket = Bucket(query)
    out = bucket.take(Arrivals(list("abb"), [0, 1, 2], [("a", 0), ("b", 0), ("b", 2)]), time=0.0)
    joined = put_together([bucket.blob(out)], MemoryStore(), "q", query, positions={"s": {"0": 3}})
    assert joined.ended == ["b"] == list(joined.unreadable)
    assert joined.next_id == 3
    assert "key 'b'" in caplog.text


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "engine"])
def test_such_a_state_is_not_moved_from_an_evaluator(chain: bool) -> None:
    """Spark would begin all keys without what the evaluator had of them; the query beside it can be moved."""
    bad, good = query_of(Frozen, chain=chain), query_of(lambda: 0, chain=chain)
    store = MemoryStore()
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("s", ListSource([("a", 0), ("b", 0), ("b", 2)], follow=True))
        evaluator.create("bad", bad.query)
        evaluator.create("good", good.query)
        while evaluator.step():
            pass
        evaluator.checkpoint()
    with pytest.raises(CheckpointRefused, match=r"'bad' cannot be moved: .*start its evaluator once"):
        cut_out(store.reopen(), "bad", bad)
    assert set(cut_out(store.reopen(), "good", good).rows) == {"a", "b"}
