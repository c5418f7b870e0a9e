"""Under ``skip`` no function of an operator leaves it half done: the query goes on, and ends with its source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lanes import crossed, every, left_to_commits
from skipping import VALUES, played

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import each_row
from hosting.engine.turns import Events
from reliable_rx import operators as ops

WORDS = ("mapper", "key", "comparer", "selector", "predicate", "accumulator", "handler", "action", "condition")
WORDS += ("function", "fn", "func", "project", "boundar", "closing", "duration")
GIVEN: dict[str, Callable[..., Any]] = {
    "a value": lambda *x: x[0] if x else 0,
    "a sequence": lambda *x: rx.timer(0.001).map(lambda _: 1),
    "a sequence at once": lambda *x: rx.of(1),
    "a list": lambda *x: [1, 2],
}
Function = Callable[..., Any]
ENDLESS = ("expand", "while_do", "do_while", "buffer_when", "map_async")
"""What goes on for ever with some of these, and what waits for another thread."""


def is_function(parameter: inspect.Parameter) -> bool:
    return any(word in parameter.name for word in WORDS) or "Callable" in str(parameter.annotation)


def filler(parameter: inspect.Parameter, given: Function) -> Any:
    """Return what *parameter* is given beside the function under test."""
    name, kind = parameter.name, str(parameter.annotation)
    if is_function(parameter):
        return given
    if "Observable" in kind or name in ("other", "right", "second", "sampler", "openings"):
        return rx.source("m")
    return 1.0 if "float" in kind or "time" in name or name.endswith("_s") else 2


def built(name: str, target: str, function: Function, given: Function) -> Any:
    """Return a query of the operator *name*, with *function* as its parameter *target*."""
    make = getattr(ops, name)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in inspect.signature(make).parameters.values():
        if each.kind is each.VAR_KEYWORD or (each.name != target and each.default is not each.empty):
            continue
        value = function if each.name == target else filler(each, given)
        if each.kind in (each.VAR_POSITIONAL, each.POSITIONAL_ONLY):
            positional.append(value)
        else:
            named[each.name] = value
    return rx.source("n").pipe(make(*positional, **named))


def spoilt(given: Function, at: int, how: str) -> Function:
    """Return *given*, but for the value *at*, or a pair or list that holds it."""

    def function(*x: Any) -> Any:
        if at in x or any(type(each) in (list, tuple) and at in each for each in x):
            if how == "raises":
                raise ValueError("spoilt")
            return None if how == "returns None" else rx.from_iterable(iter([1]))
        return given(*x)

    return function


def cases() -> Iterator[tuple[str, str]]:
    for name, make in sorted(vars(ops).items()):
        if name.startswith("_") or not callable(make) or inspect.isclass(make) or name in ENDLESS:
            continue
        try:
            parameters = inspect.signature(make).parameters.values()
        except ValueError:
            continue
        yield from ((name, each.name) for each in parameters if is_function(each))


def fits(name: str, target: str, given: Function) -> bool:
    """Whether the operator takes what *given* returns, and ends with its source then."""
    try:
        return played(built(name, target, given, given), restarts=False)[0] == "completed"
    except Exception:
        return False


@pytest.mark.parametrize("case", every(38, cases(), commits=19), ids="-".join)
def test_a_skipped_event_leaves_nothing_half_done(case: tuple[str, str]) -> None:
    """A function raises, or returns what is none of what it may, at an event in the midst or at the last one.

    The query completes, and with restarts it emits the same.
    """
    name, target = case
    for what, given in GIVEN.items():
        if not fits(name, target, given):
            continue
        for at in (0, 4, 9):
            found = {}
            for how in ("raises", "returns None"):
                query = built(name, target, spoilt(given, at, how), given)
                found[how] = played(query, restarts=False)
                assert found[how][0] == "completed", (what, at, how)
                assert at != 4 or played(query, restarts=True) == found[how], (what, at, how)


LETS_GO = ("switch_map", "switch_map_indexed", "flat_map_latest", "throttle_with_mapper")
"""They have let go of the sequence before when the next one cannot begin."""
HAS_EMITTED = ("group_join", "left_duration_mapper")
"""It has emitted the element with its window, as in RxPY, when it asks for the duration of that."""
WAITS = ("concat_map",)
"""It begins a sequence when the one before has ended, and that may be by a timer, where no event is at work."""


def in_full(name: str, target: str, function: Function, given: Function, policy: str = "skip") -> Any:
    try:
        return played(built(name, target, function, given), restarts=False, policy=policy)
    except Exception:
        return "refused", [], 0


def wants_sequences(name: str, target: str) -> bool:
    """Whether the operator takes a function that returns sequences, and none that returns a number."""
    takes = {what: in_full(name, target, given, given, "fail")[0] == "completed" for what, given in GIVEN.items()}
    return not takes["a value"] and any(takes.values())


WANTING = [
    ("buffer_toggle", "closing_mapper"),
    ("concat_map", "project"),
    ("delay_with_mapper", "subscription_delay"),
    ("flat_map", "mapper"),
    ("flat_map_indexed", "mapper_indexed"),
    ("flat_map_latest", "mapper"),
    ("group_join", "left_duration_mapper"),
    ("group_join", "right_duration_mapper"),
    ("join", "left_duration_mapper"),
    ("join", "right_duration_mapper"),
    ("switch_map", "project"),
    ("switch_map_indexed", "project"),
    ("throttle_with_mapper", "throttle_duration_mapper"),
    ("timeout_with_mapper", "timeout_duration_mapper"),
]
PLAYED = [case for case in WANTING if case[1] != "right_duration_mapper"]
"""Those whose functions are called; right durations are played in `test_refused_sequences.py`."""


@left_to_commits
def test_all_that_want_sequences_are_known() -> None:
    """What is played below is each operator with a function that must return a sequence, and ends with its source."""
    assert [case for case in cases() if wants_sequences(*case)] == WANTING


@pytest.mark.parametrize("case", every(5, PLAYED, commits=6), ids="-".join)
def test_a_sequence_that_cannot_be_run_is_skipped_as_an_error_is(case: tuple[str, str]) -> None:
    """A function that returns None, or what no host can run, has come as far as one that raises, but for some named."""
    (name, target), skipped = case, 0
    for what, given in GIVEN.items():
        if in_full(name, target, given, given, "fail")[0] != "completed":
            continue
        for at in (0, 2, 9):

            def spoilt_value(how: str, given: Function = given, at: int = at) -> Function:
                return lambda *x: spoilt(given, at, how)(x[0]) if x and x[0] == at else given(*x)

            raised, nothing, unreadable = (
                in_full(name, target, spoilt_value(how), given)
                for how in ("raises", "returns None", "returns what cannot be stored")
            )
            assert raised == nothing and raised[0] == "completed", (what, at)
            assert case != HAS_EMITTED or len(raised[1]) == len(VALUES), (what, at)
            skipped += raised[2]
            if what == "a sequence" and name in LETS_GO and at == 9:
                assert unreadable == ("completed", raised[1][:-1], 1)
            elif what == "a sequence" and name in WAITS and at:
                assert unreadable == ("failed", raised[1][:at], 0)
            else:
                assert unreadable == raised, (what, at)
    assert skipped


@pytest.mark.parametrize("how", ["raises", "returns None"])
@pytest.mark.parametrize("at", [0, 4, 9, 11, 13])
def test_expand_goes_on(at: int, how: str) -> None:
    """A function that raises for a value of the source, or of a list that it gave itself, stops nothing else."""

    def more(n: int) -> Any:
        return [n + 10, n + 20] if n < 10 and n % 3 == 1 else []

    query = rx.source("n").expand(spoilt(more, at, how))
    status, values, skipped = played(query, restarts=False)
    missing = {14, 24} if at == 4 else set()
    wanted = {*range(10), *(n + more for n in (1, 4, 7) for more in (10, 20))} - missing
    assert (status, sorted(values), skipped) == ("completed", sorted(map(repr, wanted)), 1 if at != 13 else 0)
    assert played(query, restarts=True) == (status, values, skipped)


@pytest.mark.parametrize("at", [0, 4, 9, 11, 14])
def test_expand_goes_on_without_what_cannot_be_read(at: int) -> None:
    """A sequence that a host cannot run is skipped with its element, of the source or of another sequence."""

    def more(n: int) -> Any:
        if n == at:
            return rx.from_iterable(iter([1]))
        return rx.of(n + 10) if n < 10 and n % 3 == 1 else rx.empty()

    query = rx.source("n").expand(more)
    status, values, skipped = played(query, restarts=False)
    wanted = [*VALUES, *(n + 10 for n in (1, 4, 7) if n != at)]
    assert (status, sorted(values), skipped) == ("completed", sorted(map(repr, wanted)), 1)
    assert played(query, restarts=True) == (status, values, skipped)


ENDS: dict[str, Callable[[Any], Any]] = {
    "take": lambda s: s.take(5),
    "first": lambda s: s.filter(lambda n: n > 3).first(),
    "find": lambda s: s.find(lambda n, *_: n == 4),
    "some": lambda s: s.filter(lambda n: n > 3).map(lambda n: n).take(1),
    "element_at": lambda s: s.element_at(4),
    "inclusive": lambda s: s.take_while(lambda n: n < 4, inclusive=True),
}
READERS: dict[str, Callable[[Any, Function], Any]] = {
    "map": lambda s, f: s.map(f),
    "filter": lambda s, f: s.filter(f),
    "scan": lambda s, f: s.scan(lambda total, n: total + f(n), 0),
    "last": lambda s, f: s.map(f).last_or_default(None),
    "sum": lambda s, f: s.map(f).sum(),
    "flat_map": lambda s, f: s.flat_map(lambda n: rx.of(f(n))),
}


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in groups"])
@pytest.mark.parametrize("end", every(6, ENDS))
@pytest.mark.parametrize("reader", READERS)
def test_the_value_that_ends_an_operator_is_skipped(end: str, reader: str, grouped: bool) -> None:
    """A function raises at the last value of `take` and its kin: that value alone is left out, as any other is."""

    def spoilt_at_four(n: int) -> int:
        if n == 4:
            raise ValueError("spoilt")
        return n

    def read(s: Any, without: bool) -> Any:
        s = ENDS[end](s)
        return READERS[reader](s.filter(lambda n: n != 4), int) if without else READERS[reader](s, spoilt_at_four)

    found = {}
    for without in (False, True):
        n: Any = rx.source("n")
        query = n.group_by(lambda n: n < 20).flat_map(lambda g: read(g, without)) if grouped else read(n, without)
        found[without] = played(query, restarts=False)
        assert played(query, restarts=True) == found[without]
    assert found[False] == (*found[True][:2], 1)


def rate(n: int) -> int:
    if n == 4:
        raise ValueError("spoilt")
    return 1


INNER: dict[str, Function] = {
    "if_then": lambda n: rx.if_then(lambda: rate(n) > 0, rx.of(n)),
    "case": lambda n: rx.case(lambda: rate(n), {1: rx.of(n)}),
    "generate": lambda n: rx.generate(0, lambda state: state < rate(n), lambda state: state + 1).map(lambda _: n),
    "while": lambda n: rx.of(n).while_do(lambda _: rate(n) > 1).concat(rx.of(n)),
    "do_while": lambda n: rx.of(n).do_while(lambda _: rate(n) > 1),
    "on_completed": lambda n: rx.of(n).do_action(on_completed=lambda: rate(n)),
    "defer": lambda n: rx.defer(lambda _: rx.of(n) if rate(n) else rx.empty()),
    "using": lambda n: rx.using(lambda: None, lambda _: rx.of(n) if rate(n) else rx.empty()),
    "using nothing": lambda n: rx.using(lambda: rate(n) and None, lambda _: rx.of(n)),
    "for_in": lambda n: rx.for_in([n], lambda n: rx.of(n) if rate(n) else rx.empty()),
}
OUTER: dict[str, Callable[[Any, Function], Any]] = {
    "concat_map": lambda s, f: s.concat_map(f),
    "flat_map": lambda s, f: s.flat_map(f),
    "merge": lambda s, f: s.map(f).merge(max_concurrent=2),
    "exclusive": lambda s, f: s.map(f).exclusive(),
    "switch_map": lambda s, f: s.switch_map(f),
}


@pytest.mark.parametrize("outer, inner", crossed(OUTER, INNER))
def test_an_inner_sequence_that_cannot_begin_or_end_is_skipped(outer: str, inner: str) -> None:
    """A function raises as a sequence begins, ends or goes on by itself: that one is over, the others go on."""
    query = OUTER[outer](rx.source("n"), INNER[inner])
    status, values, skipped = played(query, restarts=False)
    assert (status, skipped) == ("completed", 1)
    assert set(map(repr, VALUES)) - set(values) <= {"4"} and len(values) >= len(VALUES) - 1
    assert played(query, restarts=True) == (status, values, skipped)


TOP: dict[str, Callable[[Any], Any]] = {
    "on_completed": lambda s: s.take(5).do_action(on_completed=lambda: rate(4)),
    "concat": lambda s: s.take(5).concat(rx.if_then(lambda: rate(4) > 0, rx.of(1))),
    "finally": lambda s: s.take(5).concat(rx.generate(0, lambda _: rate(4) > 0, lambda state: state)),
}


@pytest.mark.parametrize("top", TOP)
def test_what_an_event_ends_is_over(top: str) -> None:
    """A function raises at an end that an event has brought: the query completes with all that came before."""
    expected = ("completed", [repr(n) for n in range(5)], 1)
    assert played(TOP[top](rx.source("n")), restarts=False) == expected
    assert played(TOP[top](rx.source("n")), restarts=True) == expected


def unread(group: Any) -> Any:
    raise ValueError("nobody reads this group")


@pytest.mark.parametrize("ttl_s", [None, 60.0])
@pytest.mark.parametrize("by", ["group_by", "group_by_until"])
def test_nothing_stays_of_a_group_that_nobody_reads(by: str, ttl_s: float | None) -> None:
    """Whoever was to read it has raised, and its event is skipped: then its duration is over, too."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    grouped = (
        ops.group_by(abs, ttl_s=ttl_s)
        if by == "group_by"
        else ops.group_by_until(abs, None, lambda _: rx.never() if ttl_s is None else rx.timer(ttl_s))
    )
    engine.take(engine.creation("q", rx.source("n").pipe(grouped, ops.flat_map(unread)), time=0.0, policy="skip"))
    engine.take(Events("n", "0", 0, [1, 2, 3, 1], 0.0))
    assert engine.standing["q"].skipped == 4
    assert len(list(each_row([engine.standing["q"]]))) == 1
