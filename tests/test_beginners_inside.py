"""A mistake in the function of a group or window is told as early as the same mistake outside of one."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import reactivex
from lanes import crossed, every_of
from reactivex import operators as plain

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused

Selector = Callable[[Any], Any]
n: Any = rx.source("n")


def helper(query: Any) -> Any:
    return query.taek(1)


def odd(value: int) -> int:
    return value % 2


OUTER = "outside"
PLACES: dict[str, Callable[[Selector], Any]] = {
    OUTER: lambda made: made(n),
    "group_by": lambda made: n.group_by(odd).flat_map(made),
    "group_by with a time to live": lambda made: n.pipe(ops.group_by(odd, ttl_s=5), ops.flat_map(made)),
    "group_by that is filtered": lambda made: n.group_by(odd).filter(lambda g: g.key).take(2).flat_map(made),
    "group in a group": lambda made: n.group_by(odd).flat_map(lambda g: g.group_by(odd).flat_map(made)),
    "window in a group": lambda made: n.group_by(odd).flat_map(lambda g: g.window_with_count(2).flat_map(made)),
    "group beside a group": lambda made: n.group_by(odd).flat_map(lambda g: g.merge(n.group_by(str).flat_map(made))),
    "window_with_count": lambda made: n.window_with_count(2).flat_map(made),
    "window_with_time": lambda made: n.pipe(ops.window_with_time(2), ops.concat_map(made)),
    "window": lambda made: n.pipe(ops.window(rx.source("m")), ops.switch_map(made)),
    "tumbling_window": lambda made: n.pipe(ops.tumbling_window(60), ops.flat_map_latest(made)),
    "flat_map_indexed": lambda made: n.group_by(odd).flat_map_indexed(lambda g, i: made(g)),
    "switch_map_indexed": lambda made: n.window_with_count(2).pipe(ops.switch_map_indexed(lambda w, i: made(w))),
    "the duration of a group": lambda made: n.pipe(ops.group_by_until(odd, None, made), ops.merge_all()),
    "publish": lambda made: n.pipe(ops.publish(made)),
    "replay": lambda made: n.pipe(ops.replay(2, mapper=made)),
}
MISTAKES: list[tuple[Selector, str]] = [
    (lambda x: x.mapp(str), "no operator 'mapp' did you mean 'map'?"),
    (lambda x: x.map(str).taek(1), "no operator 'taek' did you mean 'take'?"),
    (helper, "no operator 'taek' did you mean 'take'?"),
    (lambda x: x.count().zzzz(), "no operator 'zzzz'"),
    (lambda x: x.map(lambda v: v).key, "a query has no key, read it in the sub-query"),
    (lambda x: x.scan(), "scan() missing 'accumulator'"),
    (lambda x: x.scan(max, 0, 1, 2), "scan() takes from 1 to 2 positional arguments"),
    (lambda x: x.filter(odd, 3), "filter() takes 1 positional argument"),
    (lambda x: x.do_action(on_nxt=print), "do_action() unexpected keyword argument 'on_nxt'"),
    (lambda x: x.pipe(ops.scan()), "scan() missing 'accumulator'"),  # type: ignore[call-overload]
    (lambda x: x.pipe(rx.operators.filter(), ops.count()), "filter() missing 'predicate'"),  # type: ignore[call-arg]
    (lambda x: x.pipe(ops.take(count=2, most=3)), "take() unexpected argument 'most'"),  # type: ignore[call-arg]
    (lambda x: x.pipe(ops.mapp(str)), "no attribute 'mapp'"),  # type: ignore[attr-defined]
    (lambda x: x.pipe(5), "pipe takes operators got 5"),
    (lambda x: x.take("3"), "count must be a whole number '3'"),
    (lambda x: x.take(-1), "count must be 0 or more -1"),
    (lambda x: x.merge(5), "expected an observable got 5"),
    (lambda x: x.merge("m"), "got the text 'm' reliable_rx.source('m')"),
    (lambda x: x.pipe(ops.window_with_time("1h"), ops.merge_all()), "duration seconds '1h'"),  # type: ignore[arg-type]
    (lambda x: x.group_by(odd, groups_max=0).merge_all(), "groups_max"),
    (lambda x: x.pipe(plain.count()), "plain reactivex operator 'count' use reliable_rx.operators.count"),
    (lambda x: x.merge(reactivex.timer(1.0)), "plain reactivex creation function 'timer' use reliable_rx.timer"),
    (lambda x: reactivex.of(1), "plain reactivex creation function"),
    (lambda x: x.map(5), "/map mapper must be a function got 5"),
    (lambda x: x.map(lambda a, b: a), "/map one argument <lambda>(a, b)"),
    (lambda x: x.pipe(ops.debounce("2s")), "/debounce number of seconds '2s'"),  # type: ignore[arg-type]
    (lambda x: None, "got None: let the function return"),
    (lambda x: [].append(x), "got None: let the function return"),
    (lambda x: 5, "got 5; use map"),
    (lambda x: x.pipe(ops.map), "the operator map nothing before it arguments"),
    (lambda x: ops.map(str), "the operator map nothing before it"),
    (lambda x: x["v"], "indexed by the places of its elements .map(lambda each: each['v'])"),
    (lambda x: rx.of(len(x)), "has no length count()"),
    (lambda x: rx.sorce("n"), "no attribute 'sorce' did you mean 'source'?"),  # type: ignore[attr-defined]
    (lambda x: x.map, "the method map of a query not called .map(...)"),
]
"""What somebody writes with a query, a group or a window *x*, and words of the one sentence that it ends in."""


@pytest.fixture
def evaluator() -> Iterator[QueryEvaluator]:
    with QueryEvaluator(MemoryStore()) as made:
        made.source("n", ListSource([1, 2, 3, 4, 5]))
        made.source("m", ListSource(["a"]))
        yield made


@pytest.mark.parametrize("place, mistake", crossed(PLACES, range(len(MISTAKES))))
def test_a_mistake_is_told_when_the_query_is_created(mistake: int, place: str, evaluator: QueryEvaluator) -> None:
    """Each mistake raises where the query is created, wherever it is written, in one sentence with the same words."""
    made, words = MISTAKES[mistake]
    if place.endswith("indexed") and words.startswith("/"):
        pytest.skip("its query is another one for each index, and looked into when there is one")
    with pytest.raises(Exception) as raised:
        evaluator.create("q", PLACES[place](made))
    message = str(raised.value)
    if place == OUTER and words.startswith(("got None", "got 5")):
        words = "not a query"
    assert all(word in message for word in words.split()), message
    assert "\n" not in message and len(message) < 400
    if place != OUTER:
        assert isinstance(raised.value, QueryRefused) and "query 'q': /" in message
        with pytest.raises(KeyError):
            evaluator.query("q")


def test_the_line_with_the_mistake_is_in_the_traceback(evaluator: QueryEvaluator) -> None:
    """What the function raised is the cause of the refusal, so that its line is shown."""
    with pytest.raises(QueryRefused) as raised:
        evaluator.create("q", n.group_by(odd).flat_map(helper))
    at: BaseException = raised.value
    while at.__cause__ is not None:
        at = at.__cause__
    assert at.__traceback__ is not None
    assert "helper" in [each.name for each in traceback.extract_tb(at.__traceback__)]


NOT_EMITTING = ("the duration of a group", "group beside a group", "flat_map_indexed", "switch_map_indexed")
EMITTING = [place for place in PLACES if place not in NOT_EMITTING]


@pytest.mark.parametrize("place", EMITTING)
def test_groups_of_groups_are_not_emitted(place: str, evaluator: QueryEvaluator) -> None:
    """A function that returns groups or windows makes a query that emits them, if nothing behind it reads them."""
    groups: list[Selector] = [lambda x: x.group_by(odd), lambda x: x.pipe(ops.window_with_count(2), ops.take(1))]
    for number, made in enumerate(groups):
        with pytest.raises(QueryRefused, match="emits groups or windows, which mean nothing outside of the query"):
            evaluator.create("q", PLACES[place](made))
        evaluator.create(f"counts {number}", PLACES[place](made).flat_map(lambda g: g.count()))


LATE: Any = SimpleNamespace(size=None)


def by_kind(group: Any) -> Any:
    """Return a query for groups of some keys, and of others nothing that could be read: those never come."""
    if group.key in (0, 1):
        return group.count()
    return None


def by_table(group: Any) -> Any:
    try:
        return {0: group.count(), 1: group.sum()}[group.key]
    except Exception:
        return None


def with_effects(group: Any) -> Any:
    group.subscribe(lambda value: None)
    return rx.of(1)


SIZE: Any = None
SIZES: Any = []
SELECTED: Any = None
STEP: Any = None
CLOSED: list[int] = []


def size() -> Any:
    return SIZE


def taking(group: Any, size: Any) -> Any:
    return group.take(getattr(size, "size", size))


taking.size = None  # type: ignore[attr-defined]


def taken(group: Any, size: Any = CLOSED) -> Any:
    return group.take(size[0] if size else None)


class Settings:
    size: Any = None

    def take(self, group: Any) -> Any:
        return group.take(self.size)


@functools.wraps(taken)
def decorated(group: Any) -> Any:
    return taken(group)


def closing() -> Callable[[Any], Any]:
    return lambda group: group.take(CLOSED[0] if CLOSED else None)


def this() -> Any:
    import test_beginners_inside as module

    return module


def unpacking(group: Any) -> Any:
    try:
        first, second = group
    except TypeError:
        return group.count()
    return first + second


LEGAL: list[Callable[[Any], Any]] = [
    lambda g: by_kind(g),
    lambda g: by_table(g),
    lambda g: with_effects(g),
    lambda g: unpacking(g),
    lambda g: getattr(g, "nosuch", None) or g.count(),
    lambda g: g.mapp(str) if hasattr(g, "mapp") else g.count(),
    lambda g: defined_later(g),  # type: ignore[name-defined]  # noqa: F821
    lambda g: g.take(2) if LATE.size else LATE.size.bit_length(),
    lambda g: LATE.later(g),
    lambda g: LATE.later.size(g),
    lambda g: sum(LATE.numbers, start=LATE.first),
    lambda g: ops.take(LATE.size * 2)(g) if LATE.size else LATE.size + 1,
    lambda g: [1, 2],
    lambda g: "ab",
    lambda g: iter_of(g),
    lambda g: g.subject and g.count(),
    lambda g: g.take(SIZE),
    lambda g: g.pipe(ops.take(SIZE)),
    lambda g: g.pipe(ops.group_by(odd, groups_max=(SIZE and 7) or 0), ops.merge_all()),
    lambda g: taking(g, size()),
    lambda g: SIZE and g.count(),
    lambda g: SELECTED,
    lambda g: g.merge(SELECTED),
    lambda g: g.pipe(STEP),
    lambda g: taken(g),
    lambda g: g.take(*SIZES),
    lambda g: g.take(globals()["SIZE"]),
    lambda g: g.take(sys.modules[__name__].SIZE),
    lambda g: g.take(this().SIZE),
    lambda g: g.take(next(each for each in [SIZE])),
    lambda g: [g.count() for _ in range(1) if SIZE] or None,
    lambda g: g.take(LATE.size),
    lambda g: g.take(taking.size),  # type: ignore[attr-defined]
    lambda g: g.take(Settings.size),
    Settings().take,
    functools.partial(taking, size=Settings()),
    decorated,
    closing(),
    lambda g: ASSIGNED(g),
    lambda g: NAMED(g),
    lambda g: g.pipe(MADE()),
    lambda g: MAKER() or g.count(),
    lambda g: g.pipe(lambda s: ASSIGNED(s)),
    lambda g: taking(g, NUMBERED()),
]
"""What may raise for a symbol, or be no query, and yet work with a group; much of it when `LATE` is known."""


def iter_of(group: Any) -> Any:
    return {group.key, "x"}


def nothing_yet(group: Any) -> Any: ...


ASSIGNED: Any = lambda group: None  # noqa: E731
NAMED: Any = nothing_yet
MADE: Any = lambda: None  # noqa: E731
MAKER: Any = MADE
NUMBERED: Any = MADE


def assign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the selectors use be what the program has when events come."""
    later = lambda group: group.count()  # noqa: E731
    later.size = later  # type: ignore[attr-defined]
    found = {
        "defined_later": lambda group: group.count(),
        "LATE": SimpleNamespace(size=3, later=later, numbers=[[1]], first=[]),
        "SIZE": 3,
        "SIZES": [3],
        "SELECTED": rx.of(1),
        "STEP": ops.count(),
        **dict.fromkeys(("ASSIGNED", "NAMED"), lambda group: group.count()),
        "MADE": ops.count,
        "MAKER": None.__class__,
        "NUMBERED": lambda: 3,
    }
    for name, value in found.items():
        monkeypatch.setitem(globals(), name, value)
    monkeypatch.setattr(taking, "size", 3)
    monkeypatch.setattr(Settings, "size", 3)
    CLOSED.append(3)


@pytest.mark.parametrize(
    "legal, place",
    every_of(38, product(range(len(LEGAL)), ["group_by", "group in a group", "flat_map_indexed"]), commits=19),
)
def test_what_may_work_is_not_refused(
    legal: int, place: str, evaluator: QueryEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that looks at its group, or at what the program has only when events come, is called per group."""
    evaluator.create("q", PLACES[place](LEGAL[legal]))
    assign(monkeypatch)
    evaluator.run()
    CLOSED.clear()
    assert not evaluator.query("q").error
    assert list(evaluator.stream("q").read(0, 10))


MIXED: list[Callable[[Selector], Any]] = [
    lambda made: n.group_by(odd).start_with(1).flat_map(made),
    lambda made: n.group_by(odd).merge(n).flat_map(made),
    lambda made: n.group_by(odd).first_or_default(lambda g: g.key > 5, default_value=1).flat_map(made),
    lambda made: n.pipe(ops.group_by(odd), ops.take(0), ops.last_or_default(1), ops.flat_map(made)),
    lambda made: n.group_by(odd).concat(n).flat_map(made),
]


@pytest.mark.parametrize("place", range(len(MIXED)))
def test_what_may_be_no_group_is_not_judged_by_one(place: int, evaluator: QueryEvaluator) -> None:
    """Where values of another kind may come between groups, what a function does with a group says nothing."""
    made: Selector = lambda value: [value.bit_length()] if isinstance(value, int) else nothing_of(value)  # noqa: E731
    evaluator.create("q", MIXED[place](made))
    evaluator.run()
    assert list(evaluator.stream("q").read(0, 10))


def nothing_of(value: Any) -> Any:
    if isinstance(value, rx.Query) and not hasattr(value, "subject"):
        return value.bit_length()  # type: ignore[attr-defined]
    return []


def test_a_group_is_not_run() -> None:
    """`run` of a group or window waits for what comes with later events: it is refused when the query is created."""
    made: list[Any] = [
        n.group_by(len).flat_map(lambda group: rx.of(group.count().run())),
        n.window_with_count(2).flat_map(lambda window: rx.of(window.to_list().run())),
    ]
    for query in made:
        with QueryEvaluator(MemoryStore()) as evaluator:
            evaluator.source("n", ListSource(["a"]))
            with pytest.raises(QueryRefused, match=r"run\(\) would wait for ever .*: return the sequence itself"):
                evaluator.create("q", query)
