"""A query that cannot be stored is found by the testing kit: hosted it would end at its first checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from reliable_rx.errors import QueryRefused
from reliable_rx.testing import check_query, parse_marbles, run_recovered, run_stored


class Refusing:
    """Raises what it is told to while it is pickled."""

    def __reduce__(self) -> Any:
        raise ValueError("not this one")


HELD: dict[str, tuple[Callable[[], Any], str]] = {
    "a lock": (threading.Lock, "lock"),
    "a generator": (lambda: (n for n in ()), "generator"),
    "what raises": (Refusing, "not this one"),
}
WAYS: dict[str, Callable[[Any, Any, Callable[[], Any]], Any]] = {
    "state": lambda s, ops, made: s.pipe(ops.scan(lambda _, x: (x, made()), (0, None))),
    "seed": lambda s, ops, made: s.pipe(ops.scan(lambda state, x: (x, state[1]), (0, made()))),
    "last": lambda s, ops, made: s.pipe(ops.map(lambda x: (x, made())), ops.pairwise(), ops.map(lambda two: two[1])),
    "group": lambda s, ops, made: s.pipe(
        ops.group_by(lambda x: x % 2),
        ops.flat_map(lambda group: group.pipe(ops.scan(lambda _, x: (x, made()), (0, None)))),
    ),
}


def built(way: str, held: str) -> Callable[..., Any]:
    return lambda ops, rx, s: WAYS[way](s, ops, HELD[held][0]).pipe(ops.map(lambda pair: pair[0]))


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_cannot_be_stored_fails_each_run_that_stores(way: str, held: str) -> None:
    """The run that is recovered, the one that is stored, and so `check_query`: each gives the reason."""
    build, streams, reason = built(way, held), [parse_marbles("-1-2-3-4|")], HELD[held][1]
    with pytest.raises(QueryRefused, match=f"cannot be stored.*{reason}"):
        run_recovered(build, streams, 20.0)
    with pytest.raises(QueryRefused, match=f"cannot be stored.*{reason}"):
        run_stored(build, streams, 20.0, [[], [], ["full", "commit", "crash"]])
    with pytest.raises(QueryRefused, match=f"cannot be stored.*{reason}"):
        check_query(build, examples=30)


@pytest.mark.parametrize("build", [lambda s: s, lambda: None, lambda ops, rx, s: 1 / 0])
def test_a_build_that_raises_is_no_query(build: Any) -> None:
    """Not one that is equal wherever it runs, as it never does."""
    with pytest.raises((TypeError, ZeroDivisionError)):
        check_query(build, examples=3)


@pytest.mark.parametrize("held", HELD)
def test_what_is_emitted_and_cannot_be_stored_is_found(held: str) -> None:
    """Although plain `reactivex` emits it, and no state keeps it: hosted, the query ends at its next checkpoint."""
    with pytest.raises(QueryRefused, match=f"what it emitted under id 0 cannot be stored.*{HELD[held][1]}"):
        check_query(lambda ops, rx, s: s.pipe(ops.map(lambda _: HELD[held][0]())), examples=30)
