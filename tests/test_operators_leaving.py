"""What cannot be hosted works un-hosted, and is refused with what to do instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from reactivex.scheduler import ImmediateScheduler, NewThreadScheduler

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from reliable_rx import QueryRefused
from reliable_rx import operators as ops

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "observe_on": (ops.observe_on(ImmediateScheduler()), "one logical thread; hand results .* from a sink"),
    "subscribe_on": (ops.subscribe_on(ImmediateScheduler()), r"call its run\(\) on the thread"),
    "to_marbles": (ops.to_marbles(), "read the query's stream"),
    "zip_with_iterable": (ops.zip_with_iterable(iter([1])), "give a list, a tuple or a range"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_host_says_what_to_do_instead(name: str) -> None:
    """The refusal names the operator's path and the way to do it here."""
    operator, instead = REFUSED[name]
    engine = QueryEngine()
    engine.declare("n", ["0"])
    with pytest.raises(QueryRefused, match=instead) as caught:
        engine.creation("q", rx.source("n").pipe(ops.map(str), operator), time=0.0)
    assert caught.value.path


def test_unhosted_threads_work() -> None:
    """`observe_on` and `subscribe_on` are RxPY's own."""
    scheduler = NewThreadScheduler()
    assert rx.of(1, 2).subscribe_on(scheduler).observe_on(scheduler).to_list().run() == [1, 2]


def test_a_query_can_be_run_and_awaited() -> None:
    """Un-hosted, `run` blocks for the last element and `await` waits for it."""

    async def wait() -> Any:
        query = rx.of(1, 2).map(lambda n: n * 2)
        return await query, await query.to_future()

    assert rx.of(1, 2).run() == 2
    assert asyncio.run(wait()) == (4, 4)


@pytest.mark.parametrize("wait", ["run", "await", "to_future"])
def test_waiting_for_a_query_over_sources_is_refused(wait: str) -> None:
    """Nobody would ever answer: the refusal names the source and where results of a hosted query are."""
    query = rx.source("n").map(str)

    async def waiting() -> Any:
        return await query

    calls: dict[str, Callable[[], Any]] = {
        "run": query.run,
        "await": lambda: asyncio.run(waiting()),
        "to_future": query.to_future,
    }
    with pytest.raises(QueryRefused, match=r"'n'.*host the query"):
        calls[wait]()
    assert query.bind(n=rx.of(1, 2)).run() == "2"


def test_elements_can_only_be_replayed_from_a_place() -> None:
    """`zip_with_iterable` takes any iterable un-hosted, each subscription from its beginning."""
    pairs = rx.of(1, 2).zip_with_iterable({"a": 1, "b": 2})
    assert pairs.to_list().run() == pairs.to_list().run() == [(1, "a"), (2, "b")]
