"""Operators never compare or test the truth of values they only carry."""

from __future__ import annotations

from typing import Any

import pytest

import reliable_rx as rx
from reliable_rx import operators as ops


class Touchy:
    """Like an array: it has no truth value, and ``==`` gives no bool."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")

    def __eq__(self, other: object) -> Any:
        return Touchy()


@pytest.mark.parametrize(
    "operator",
    [
        ops.map(), ops.take(1), ops.skip(0), ops.pairwise(), ops.last(), ops.first(), ops.to_list(), ops.count(),
        ops.default_if_empty(), ops.start_with(Touchy()), ops.buffer_with_count(2), ops.reduce(lambda a, x: x),
        ops.scan(lambda a, x: x), ops.scan(lambda a, x: x, Touchy()), ops.merge(rx.of(Touchy())),
        ops.combine_latest(rx.of(Touchy())), ops.with_latest_from(rx.of(Touchy())), ops.zip(rx.of(Touchy())),
        ops.concat(rx.of(Touchy())), ops.take_until(rx.never()), ops.catch(rx.of(Touchy())), ops.retry(1),
        ops.flat_map(lambda x: rx.of(x)), ops.group_by(lambda x: 1), ops.window_with_count(2), ops.sample(rx.of(1)),
    ],
)  # fmt: skip
def test_carried_values_are_not_looked_at(operator: Any) -> None:
    """Arrays and frames pass, though they have no truth value and no plain equality."""
    errors: list[Exception] = []
    rx.of(Touchy(), Touchy()).pipe(operator).subscribe(on_error=errors.append)
    assert errors == []


def test_time_operators_do_not_look_either() -> None:
    """The same for what waits."""
    from reliable_rx.testing import Timed, run_unhosted

    stream = [Timed(1.0, "N", Touchy()), Timed(2.0, "N", Touchy()), Timed(3.0, "C")]
    for build in (
        lambda ops, rx, s: s.pipe(ops.debounce(0.5)),
        lambda ops, rx, s: s.pipe(ops.delay(0.5)),
        lambda ops, rx, s: s.pipe(ops.timeout(2.5)),
        lambda ops, rx, s: s.pipe(ops.sample(0.4), ops.take(2)),
        lambda ops, rx, s: s.pipe(ops.buffer_with_time(1.0)),
    ):
        assert {each.kind for each in run_unhosted(build, [stream], 9.0)} == {"N", "C"}
