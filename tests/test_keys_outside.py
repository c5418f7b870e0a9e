"""A query is asked for a key that only its groups have: refused where it is written, with the way to write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import QueryRefused

n: Any = rx.source("n")
grouped: Any = n.group_by(lambda x: x % 2)


def of_a_local() -> Any:
    own: Any = n.group_by(lambda x: x % 2)
    return own.flat_map(lambda group: group.count()).map(lambda count: (own.key, count))


def within_a_selector() -> Any:
    own: Any = n.group_by(lambda x: x % 2)
    return own.flat_map(lambda group: group.map(lambda x: (own.key, x)))


OUTSIDE: dict[str, Callable[[], Any]] = {
    "of the module": lambda: grouped.flat_map(lambda group: group.count()).map(lambda count: (grouped.key, count)),
    "of a function": of_a_local,
    "within a selector": within_a_selector,
    "in a filter": lambda: grouped.flat_map(lambda group: group).filter(lambda x: grouped.key == x),
}
INSIDE: dict[str, Callable[[], Any]] = {
    "the group's": lambda: grouped.flat_map(lambda group: group.map(lambda x: (group.key, x))),
    "a group of the query's name": lambda: grouped.flat_map(lambda grouped: grouped.map(lambda x: (grouped.key, x))),
    "another object's": lambda: n.map(lambda x: (timedelta(x), getattr(x, "key", None))),
    "a window's": lambda: n.tumbling_window(5.0).flat_map(lambda grouped: grouped.map(lambda x: grouped.key)),
}


@pytest.mark.parametrize("how", OUTSIDE)
def test_a_key_outside_of_its_group_is_refused(how: str) -> None:
    """At `create`, by the path, the variable and the remedy; nothing is left of it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        with pytest.raises(
            QueryRefused, match=r"asks for (own|grouped)\.key, and a query has no key.*flat_map\(lambda"
        ):
            evaluator.create("q", OUTSIDE[how]())


@pytest.mark.parametrize("how", INSIDE)
def test_a_key_of_a_group_is_not(how: str) -> None:
    """What only looks like it is taken."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", INSIDE[how]())


def test_other_words_of_the_library_say_what_to_write() -> None:
    """A key, a source that is not there, an evaluator in `async with`: one sentence each."""

    async def serve() -> None:
        async with QueryEvaluator(MemoryStore()):  # type: ignore[attr-defined]
            pass

    with pytest.raises(AttributeError, match="read it in the sub-query"):
        _ = grouped.key
    with pytest.raises(TypeError, match="bind names 'm', which is no source of this query; without one is 'n'"):
        n.bind(m=rx.of(1))
    assert n.bind(n=rx.of(1), m=rx.of(2)).run() == 1, "more than it reads does no harm"
    with pytest.raises(TypeError, match=r"opened by `with`.*to_thread"):
        asyncio.run(serve())
    clock = rx.event_time(len, lateness_s=timedelta(minutes=1), idle_s=timedelta(hours=1))
    assert (clock.lateness_s, clock.idle_s) == (60.0, 3600.0)
