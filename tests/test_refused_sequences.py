"""Under ``skip`` and ``dead_letter`` a sequence that cannot begin is refused with its event: its end is no answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from lanes import crossed, every, every_of
from skipping import VALUES, played

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

Function = Callable[..., Any]
Sequence = Callable[[Any], Any]


def refuse(*_: Any) -> Any:
    raise ValueError("refused")


WAYS: dict[str, Sequence] = {
    "defer": lambda ok: rx.defer(refuse),
    "within": lambda ok: rx.defer(lambda _: rx.defer(refuse)),
    "if_then": lambda ok: rx.if_then(refuse, ok),
    "case": lambda ok: rx.case(refuse, {1: ok}),
    "using": lambda ok: rx.using(refuse, lambda _: ok),
    "for_in": lambda ok: rx.for_in([1], lambda _: rx.defer(refuse)),
    "generate": lambda ok: rx.generate_with_relative_time(0, lambda _: True, lambda n: n + 1, refuse),
    "while": lambda ok: ok.while_do(refuse),
    "beside": lambda ok: rx.never().merge(rx.defer(refuse)),
    "until": lambda ok: rx.never().take_until(rx.if_then(refuse, ok)),
    "shared": lambda ok: ok.publish(lambda _: rx.defer(refuse)),
    "completes": lambda ok: rx.empty().do_action(on_completed=refuse),
    "ends": lambda ok: rx.empty().first(),
    "windows": lambda ok: rx.defer(refuse).window_with_count(2).flat_map(lambda window: window.count()),
    "groups": lambda ok: rx.of(1).concat(rx.defer(refuse)).group_by(lambda n: n).flat_map(lambda g: g.skip(1).count()),
}
"""Sequences in which a function raises as they begin, or end without a value."""
BEHIND: dict[str, Sequence] = {
    "alone": lambda s: s,
    "count": lambda s: s.count(),
    "all": lambda s: s.all(lambda _: True),
    "is_empty": lambda s: s.is_empty(),
    "default_if_empty": lambda s: s.default_if_empty("empty"),
    "concat": lambda s: s.concat(rx.of("then")),
    "repeat": lambda s: s.repeat(),
    "do_while": lambda s: s.do_while(lambda _: True),
    "to_list": lambda s: s.map(lambda n: n).to_list(),
    "share": lambda s: s.share().count(),
    "windows": lambda s: s.window_with_count(2).flat_map(lambda window: window.count()),
    "sequence_equal": lambda s: s.sequence_equal(rx.empty()),
    "fork_join": lambda s: rx.fork_join(s.default_if_empty(0), rx.of(1)),
    "concat_map": lambda s: s.concat_map(lambda n: [n]).last_or_default(0),
    "finally_action": lambda s: s.finally_action(lambda: None).count(),
}
"""What stands behind such a sequence, and would answer for its end, or begin it again."""


def n() -> Any:
    return rx.source("n")


def openings() -> Any:
    return n().filter(lambda v: v in (3, 4, 5))


def counted(window: Any) -> Any:
    return window.count()


def listed(window: Any) -> Any:
    return window.to_list()


def groups() -> Any:
    return n().group_by(lambda v: v % 5)


READ: dict[str, tuple[Any, Callable[[Function], Any]]] = {
    "flat_map": (rx.of(1), lambda f: n().flat_map(f)),
    "flat_map_indexed": (rx.of(1), lambda f: n().flat_map_indexed(lambda v, _: f(v))),
    "concat_map": (rx.of(1), lambda f: n().concat_map(f)),
    "merge_all": (rx.of(1), lambda f: n().map(f).merge_all()),
    "merge of two": (rx.of(1), lambda f: n().map(f).merge(max_concurrent=2)),
    "expand": (rx.empty(), lambda f: n().expand(f)),
    "switch_map": (rx.of(1), lambda f: n().switch_map(f)),
    "exclusive": (rx.of(1), lambda f: n().map(f).exclusive()),
    "delay": (rx.timer(0.01), lambda f: n().delay_with_mapper(f)),
    "throttle": (rx.empty(), lambda f: n().throttle_with_mapper(f)),
    "timeout": (rx.timer(100.0), lambda f: n().timeout_with_mapper(rx.never(), f, rx.of("late"))),
    "buffer_toggle": (n().skip(1).take(1), lambda f: n().buffer_toggle(openings(), f)),
    "window_toggle": (n().take(2), lambda f: n().window_toggle(openings(), f).flat_map(counted)),
    "join": (n().take(3), lambda f: n().join(n(), f, lambda _: rx.never())),
    "join, right": (n().take(3), lambda f: n().join(n(), lambda _: rx.never(), f)),
    "group_join": (
        n().take(3),
        lambda f: n().group_join(n(), f, lambda _: rx.empty()).flat_map(lambda p: counted(p[1])),
    ),
    "group_join, right": (
        n().take(3),
        lambda f: n().group_join(n(), lambda _: rx.never(), f).flat_map(lambda p: counted(p[1])),
    ),
    "windows": (rx.of(1), lambda f: n().flat_map(lambda v: f(v).window_with_count(2)).flat_map(counted)),
    "group": (rx.of(1), lambda f: groups().flat_map(lambda g: f(g.key))),
    "group beside": (rx.of(1), lambda f: groups().flat_map(lambda g: g.merge(f(g.key)))),
    "group until": (rx.never(), lambda f: groups().flat_map(lambda g: g.take_until(f(g.key)))),
    "group from": (rx.of(1), lambda f: groups().flat_map(lambda g: g.skip_until(f(g.key)))),
    "group closing": (
        rx.never(),
        lambda f: groups().flat_map(lambda g: g.buffer_when(lambda: rx.defer(lambda _: f(g.key)))),
    ),
    "group closing of windows": (
        rx.never(),
        lambda f: groups().flat_map(lambda g: g.window_when(lambda: rx.defer(lambda _: f(g.key))).flat_map(listed)),
    ),
    "group_by_until": (
        rx.never(),
        lambda f: n().group_by_until(lambda v: v % 5, None, lambda g: f(g.key)).flat_map(counted),
    ),
}
"""Operators that read a sequence, with one that can begin."""


LATER = ("for_in", "generate", "while", "beside", "completes", "ends", "groups")
"""Ways that raise in the event, but behind what it does at once."""
READ_AT_ONCE: dict[str, list[str]] = {
    "join": [],
    "join, right": [],
    "group until": [],
    "group closing": [],
    "group closing of windows": [],
    "group_by_until": [],
}
"""Operators that make something of an event at once, and what is left when its sequence is given up after that."""
GROUPED = ("group until", "group closing", "group closing of windows", "group_by_until")
"""Those that try again with the next event, which is 9."""
TRIED_TWICE = ("group closing", "group closing of windows")
"""And with the element that opens the group, before which it was tried, and skipped, in the group's own moment."""


def at_four(way: str, behind: str, ok: Any) -> Function:
    """Return a selector whose sequence for 4 is refused; all others have *behind* too, which says something of them."""

    def choose(v: Any, *_: Any) -> Any:
        if v != 4:
            return ok
        return BEHIND[behind](refuse() if way == "raises" else WAYS[way](ok))

    return choose


def fared(reads: str, way: str, behind: str = "alone", *, restarts: bool = False, policy: str = "skip") -> Any:
    ok, query = READ[reads]
    return played(query(at_four(way, behind, ok)), restarts=restarts, policy=policy)


@pytest.mark.parametrize("reads, policy", every_of(57, product(READ, ["skip", "dead_letter"]), commits=19))
def test_a_sequence_that_cannot_begin_is_refused_as_one_that_is_not_given(reads: str, policy: str) -> None:
    """The query fares as if the selector had raised; with restarts too."""
    expected = fared(reads, "raises", policy=policy)
    for way in WAYS if reads not in READ_AT_ONCE else set(WAYS) - set(LATER):
        assert fared(reads, way, policy=policy) == expected, way
        assert fared(reads, way, restarts=True, policy=policy) == expected, way


@pytest.mark.parametrize("reads", every(8, READ_AT_ONCE, commits=4))
def test_what_raises_a_moment_later_is_refused_too(reads: str) -> None:
    """What was made of the event before is there; nothing of it is made after, and no other event is harmed."""
    for way in LATER:
        status, values, skipped = found = fared(reads, way)
        refused = fared(reads, "raises")
        times = 3 if reads in TRIED_TWICE else 2 if reads in GROUPED else 1
        assert (status, skipped) == (refused[0], times), way
        others = [value for value in values if "4" not in value]
        assert others == [value for value in refused[1] if "4" not in value] + READ_AT_ONCE[reads], way
        assert fared(reads, way, restarts=True) == found, way


@pytest.mark.parametrize(
    "reads, way", every_of(39, product(["flat_map", "timeout", "buffer_toggle", "group"], WAYS), commits=13)
)
def test_nothing_answers_for_a_sequence_that_was_refused(reads: str, way: str) -> None:
    """What stands behind it hears of no end: it emits nothing, and begins nothing again."""
    expected = fared(reads, "raises")
    for behind in BEHIND:
        assert fared(reads, way, behind) == expected, behind


def run(query: Any, upto: int = len(VALUES), store: MemoryStore | None = None) -> tuple[list[Any], list[int]]:
    """Return what the query has emitted, and the positions of its dead letters; another query has all events."""
    with QueryEvaluator(store or MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(VALUES[:upto], follow=True))
        evaluator.create("q", query, policy="dead_letter")
        evaluator.create("other", n().map(lambda v: v))
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == upto)
        evaluator.checkpoint()
        found = {each: evaluator.stream(each).read(0, 100) for each in ("q", "q.dead_letters", "other")}
        values = {each: [value for part in parts for value in part.values] for each, parts in found.items()}
        assert values["other"] == VALUES[:upto]
        return values["q"], [letter.position for letter in values["q.dead_letters"]]


@pytest.mark.parametrize("behind", every(12, BEHIND, commits=6))
def test_an_event_has_one_dead_letter(behind: str) -> None:
    """What would begin again without end leaves a letter of the event, and no other query waits for it."""
    for way in WAYS:
        assert run(READ["flat_map"][1](at_four(way, behind, rx.of(1)))) == ([1] * 9, [4]), way


GROUPS: dict[str, tuple[Sequence, list[int], list[int]]] = {
    "beside": (lambda g: g.merge(rx.for_in([1], lambda _: rx.defer(refuse))), [], VALUES),
    "again": (lambda g: g.first().do_action(on_completed=refuse).repeat(), VALUES, VALUES),
    "once": (lambda g: g.take(2).do_action(on_completed=refuse), [0, 1, 2, 3], [2, 3]),
}
"""What reads a group until it is given up, what it emits, and the events at which it is."""


@pytest.mark.parametrize("case", GROUPS)
def test_what_was_to_go_on_reading_a_group_begins_again(case: str) -> None:
    """The next event of the key begins its group anew, unless it had read enough; with a restart in between too."""
    read, *expected = GROUPS[case]
    query = n().group_by(lambda v: v % 2).flat_map(read)
    assert run(query) == tuple(expected)
    store = MemoryStore()
    for upto in range(1, len(VALUES) + 1):
        found = run(query, upto, store)
    assert found == tuple(expected)


HANDLED: dict[str, Callable[[Any, Sequence, Any], Any]] = {
    "catch": lambda s, way, ok: s.catch(lambda *_: way(ok)),
    "catch, deferred": lambda s, way, ok: s.catch(lambda *_: rx.defer(lambda _: way(ok))),
}


@pytest.mark.parametrize("place, way, handled", crossed(["alone", "within"], WAYS, HANDLED))
def test_what_a_handler_gives_and_cannot_begin_fails_the_query(handled: str, way: str, place: str) -> None:
    """As a handler that raises: the error that it was to deal with is dealt with by nothing."""
    failing: Any = n().take(5).concat(rx.throw(KeyError("over")))
    query = HANDLED[handled](failing, WAYS[way], rx.of(1))
    if place == "within":
        made = query
        query = n().take(1).flat_map(lambda _: made)
    assert played(query, restarts=False)[0] == "failed"


@pytest.mark.parametrize("way", WAYS)
def test_an_error_that_is_resumed_from_is_none_of_an_event(way: str) -> None:
    """`on_error_resume_next` goes on behind a sequence that cannot begin, and no event is left out."""
    query = rx.on_error_resume_next(n().take(5), lambda _: WAYS[way](rx.of(1)), rx.of(7))
    assert played(query, restarts=False) == ("completed", [*map(repr, VALUES[:5]), "7"], 0)
