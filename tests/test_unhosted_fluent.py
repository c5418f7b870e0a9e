"""The fluent form, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex
from reactivex import operators as plain_ops
from reactivex.observer import Observer

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.query.fluent import unhosted_only


def test_every_operator_is_a_method() -> None:
    """Every operator can be called as a method of a query."""
    for name in ops.__all__:
        method = getattr(rx.Query, name)
        assert method.__name__ == name
        assert method.__doc__ == getattr(ops, name).__doc__ or name == "do"  # which takes more, as RxPY's method does


def test_fluent_is_pipe() -> None:
    """The fluent form makes the same plan as `pipe`."""
    s = rx.source("s")
    fluent = s.map(str).group_by(len).flat_map(lambda g: g.count()).merge(s).take(3)
    piped = s.pipe(
        ops.map(str), ops.group_by(len), ops.flat_map(lambda g: g.pipe(ops.count())), ops.merge(s), ops.take(3)
    )
    assert repr(fluent) == repr(piped)
    seen: dict[str, list[object]] = {"fluent": [], "piped": []}
    for query, record in zip((fluent, piped), seen.values(), strict=True):
        query.bind(s=reactivex.of(1, 22, 3)).subscribe(record.append)
    assert seen["fluent"] == seen["piped"] == [2, 1, 1]


def test_plain_operators_are_refused_on_hostable_queries() -> None:
    """What only RxPY has is refused at the call, on a query that could be hosted; un-hosted it works."""
    method = unhosted_only("materialize")
    with pytest.raises(QueryRefused, match="materialize"):
        method(rx.source("s"))
    assert method(rx.source("s").bind(s=reactivex.of(1))).pipe(plain_ops.to_list()).run()


def test_slicing_and_adding() -> None:
    """`+` concatenates and stays hostable."""
    query = rx.of(1) + rx.of(2)
    assert query.is_hostable
    assert query.to_list().run() == [1, 2]
    assert rx.of(0, 1, 2, 3)[1:-1].to_list().run() == [1, 2]


BEYOND_RXPY = {
    "buffer_with_inactivity", "join_within", "map_async", "retry_with_backoff", "sliding_window", "tumbling_window",
    "where_key", "window_with_inactivity",
}  # fmt: skip


def test_the_names_are_those_of_rxpy_and_few_more() -> None:
    """Every operator that is not one of RxPY's is known to be an addition, and none of RxPY's is left out."""
    assert set(ops.__all__) - set(plain_ops.__all__) == BEYOND_RXPY
    assert set(plain_ops.__all__) <= set(ops.__all__)
    assert set(reactivex.__all__) - {"__version__"} <= set(rx.__all__)


def test_do_takes_functions_and_an_observer() -> None:
    """The method `do` takes what RxPY's takes, functions by place or by name, and what the operator `do` takes."""
    seen: list[Any] = []
    rx.of(1).do(seen.append).run()
    rx.of(2).do(on_next=seen.append, on_completed=lambda: seen.append("over")).run()
    rx.of(3).do(Observer(seen.append)).run()  # type: ignore[arg-type]
    rx.empty().do(None, None, lambda: seen.append("none")).subscribe()
    assert seen == [1, 2, "over", 3, "none"]
