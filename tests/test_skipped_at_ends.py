"""Operators that hear of errors, under ``skip`` and ``dead_letter``: what handlers raise, and what catches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed, left_to_commits
from reactivex.observer import Observer
from skipping import VALUES, played

import reliable_rx as rx
from reliable_rx import operators as ops

Function = Callable[..., Any]


def refuses(*_: Any) -> Any:
    raise ValueError("no answer to this error")


def nothing(*_: Any) -> Any:
    return None


def unreadable(*_: Any) -> Any:
    return rx.from_iterable(iter([1]))


AT_AN_ERROR: dict[str, Callable[[Any, Function], Any]] = {
    "catch": lambda s, f: s.catch(f),
    "catch by type": lambda s, f: s.catch(f, on=KeyError),
    "do_action": lambda s, f: s.do_action(on_error=f),
    "do": lambda s, f: s.pipe(ops.do(Observer(on_error=f))),
    "on_error_resume_next": lambda s, f: rx.on_error_resume_next(s, f, rx.of(7)),
    "the second": lambda s, f: rx.on_error_resume_next(rx.of(7), s, f),
    "behind a handler": lambda s, f: s.catch(lambda error, _: rx.throw(error)).catch(f),
}
PLACES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda s: s,
    "within": lambda s: rx.source("n").take(1).flat_map(lambda _: s),
    "shared": lambda s: s.share(),
}


@pytest.mark.parametrize(
    "policy, place, operator, mistake",
    crossed(["skip", "dead_letter"], PLACES, AT_AN_ERROR, [refuses, nothing, unreadable]),
)
def test_a_handler_that_raises_has_handled_nothing(mistake: Function, operator: str, place: str, policy: str) -> None:
    """What raises at an error ends the sequence with an error, as without a policy: no event is left to be skipped."""
    failing: Any = rx.source("n").take(5).concat(rx.throw(KeyError("over")))
    query = PLACES[place](AT_AN_ERROR[operator](failing, mistake))
    expected = played(query, restarts=False, policy="fail")
    assert expected[0] == "failed"
    assert played(query, restarts=False, policy=policy) == expected
    assert played(query, restarts=True, policy=policy) == expected


def inverse(n: int) -> float:
    return 1 / (n - 4)


PASSING_ERRORS: dict[str, Callable[[Any], Any]] = {
    "do_action": lambda s: s.do_action(lambda _: None),
    "do_action at errors": lambda s: s.do_action(on_error=lambda _: None),
    "amb": lambda s: s.amb(rx.never()),
    "amb, on the right": lambda s: rx.never().amb(s),
    "timeout_with_mapper": lambda s: s.timeout_with_mapper(rx.never(), lambda _: rx.never()),
    "finally_action": lambda s: s.finally_action(lambda: None),
    "a catch before": lambda s: rx.source("n").catch(rx.empty()).map(inverse),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operator", PASSING_ERRORS)
def test_what_passes_errors_on_catches_none(operator: str, place: str) -> None:
    """An event is skipped although an operator behind it hears of errors, which goes on with none of them."""
    query = PLACES[place](PASSING_ERRORS[operator](rx.source("n").map(inverse)))
    wanted = [repr(inverse(n)) for n in VALUES if n != 4]
    status, values, skipped = played(query, restarts=False)
    assert (status, values[-5:], skipped) == ("completed", wanted[-5:], 1)
    assert played(query, restarts=True) == (status, values, skipped)


QUEUES: dict[str, Callable[[Any, Function], Any]] = {
    "concat_map": lambda s, f: s.concat_map(f),
    "concat_all": lambda s, f: s.map(f).pipe(ops.concat_all()),
    "merge": lambda s, f: s.map(f).merge(max_concurrent=2),
}


@pytest.mark.parametrize("queue, bad", crossed(QUEUES, [{1}, {2}, {1, 2}, {3}, {0, 1, 2, 3}], nightly=1), ids=str)
def test_what_waits_and_cannot_begin_makes_way(queue: str, bad: set[int]) -> None:
    """A sequence whose turn comes when an event ends another, and cannot be read, is skipped; the next one begins."""

    def read(n: int, how: Function) -> Any:
        return how() if n in bad else rx.source("n").take(2).map(lambda _: n)

    found = played(QUEUES[queue](rx.source("n").take(4), lambda n: read(n, unreadable)), restarts=False)
    assert found == played(QUEUES[queue](rx.source("n").take(4), lambda n: read(n, refuses)), restarts=False)
    assert (found[0], found[2]) == ("completed", len(bad))
    assert played(QUEUES[queue](rx.source("n").take(4), lambda n: read(n, unreadable)), restarts=True) == found


@left_to_commits
def test_what_ends_as_it_begins_is_no_recursion() -> None:
    """Any number of sequences may wait that end as soon as they begin, or cannot begin, on a stack of any depth."""
    ended = rx.source("m").take(1)

    def deep(left: int, query: Any) -> Any:
        return deep(left - 1, query) if left else played(query, restarts=False)

    for queue in QUEUES.values():
        first: Any = rx.source("n").skip(8).take(1)
        many = rx.source("n").flat_map(lambda n: [n] * 200)
        for other, skipped in ((rx.defer(refuses), 1800), (first.take(0), 0), (ended, 0)):
            query = queue(many, lambda n, other=other: first if n == 0 else other)
            status, _, found = deep(0, query)
            assert deep(200, query) == deep(0, query)
            assert (status, found) == ("completed", skipped)


def briefly(*_: Any) -> Any:
    return rx.timer(0.001)


def lists(s: Any) -> Any:
    return s.flat_map(lambda each: (each[1] if isinstance(each, tuple) else each).to_list())


OPENS: dict[str, Callable[[Any, Function], Any]] = {
    "delay_with_mapper": lambda s, f: s.delay_with_mapper(f),
    "throttle_with_mapper": lambda s, f: s.throttle_with_mapper(f),
    "switch_map": lambda s, f: s.switch_map(f),
    "join": lambda s, f: s.join(rx.timer(0.0, 0.05).take(9).map(lambda _: "x"), f, briefly),
    "join, on the right": lambda s, f: rx.timer(0.0, 0.05).take(9).map(lambda _: "x").join(s, briefly, f),
    "group_join": lambda s, f: lists(s.group_join(rx.source("m"), f, briefly)),
    "group_join, on the right": lambda s, f: lists(s.group_join(s, briefly, f)),
    "buffer_toggle": lambda s, f: s.buffer_toggle(s, f),
    "window_toggle": lambda s, f: lists(s.window_toggle(s, f)),
}


@pytest.mark.parametrize("bad", [4, 9])
@pytest.mark.parametrize("operator", OPENS)
def test_what_was_set_for_a_sequence_is_taken_back(operator: str, bad: int) -> None:
    """Where what a selector returns cannot be read, nothing waits for it, and it is in nothing that comes later."""
    query = OPENS[operator](rx.source("n"), lambda n: unreadable() if n == bad else briefly())
    status, values, skipped = played(query, restarts=False)
    assert (status, skipped) == ("completed", 1)
    if operator in ("delay_with_mapper", "throttle_with_mapper", "join", "join, on the right"):
        assert not [each for each in values if str(bad) in each]
    if operator == "group_join, on the right":
        assert not [each for each in values if str(bad) in each]
    assert played(query, restarts=True) == (status, values, skipped)
