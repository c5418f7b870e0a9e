"""Un-hosted, a query behaves as RxPY's: default schedulers, failing observers, re-entrancy, threads, groups by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import reactivex
from every_case import CASES, Case, lanes
from lanes import crossed, every_of
from reactivex import operators as plain_ops
from reactivex.subject import Subject

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.operators import time_gates, time_windows, timestamps, timing

WORLDS = {"reactivex": (plain_ops, reactivex), "reliable_rx": (ops, rx)}
ROOMS_OF_TIME = (time_gates, time_windows, timestamps, timing)
TIMED = {
    "timer", "interval", "generate_with_relative_time", "from_marbles", "cold", "later",
    *[name for name in ops.__all__ if getattr(ops, name).__module__ in {room.__name__ for room in ROOMS_OF_TIME}],
}  # fmt: skip


def is_untimed(case: Case) -> bool:
    """Whether the query mentions no operator that waits, also inside its lambdas."""
    return not names_in(case.build.__code__) & TIMED and all(
        not names_in(cell.cell_contents.__code__) & TIMED
        for cell in case.build.__closure__ or ()
        if hasattr(cell.cell_contents, "__code__")
    )


def names_in(code: Any) -> set[str]:
    inner = [names_in(each) for each in code.co_consts if hasattr(each, "co_names")]
    return set(code.co_names).union(*inner)


UNTIMED = [
    name
    for name, case in CASES.items()
    if name.partition(":")[0] not in TIMED and is_untimed(case) and case.reference is None
]


def push(sources: list[Subject[Any]], letters: list[Any], record: list[Any]) -> None:
    """Push letters into all sources in turn, then complete them; note what comes back to the producer."""
    for letter in letters:
        for source in sources:
            try:
                source.on_next(letter)
            except Exception as error:
                record.append(("to the producer", repr(error)))
    for source in sources:
        source.on_completed()


def with_default_schedulers(case: Case, world: str, on_next: Callable[[list[Any]], Callable[[Any], None]]) -> list[Any]:
    operators, creation = WORLDS[world]
    record: list[Any] = []
    sources: list[Subject[Any]] = [Subject() for _ in range(case.sources)]
    try:
        case.build(operators, creation, *sources).subscribe(
            on_next(record), lambda error: record.append(("E", repr(error))), lambda: record.append("C")
        )
    except Exception as error:
        record.append(("from subscribe", repr(error)))
    push(sources, [*case.alphabet, *case.alphabet], record)
    record.append([len(source.observers) for source in sources])
    return record


@pytest.mark.parametrize("name", lanes(UNTIMED, fast=1, every=3))
def test_default_schedulers(name: str) -> None:
    """Without a scheduler the order of everything is RxPY's, trampoline and all."""
    listening = [
        with_default_schedulers(CASES[name], world, lambda record: lambda value: record.append(("N", value)))
        for world in WORLDS
    ]
    assert listening[0] == listening[1]


def failing_at(turn: int) -> Callable[[list[Any]], Callable[[Any], None]]:
    def observer(record: list[Any]) -> Callable[[Any], None]:
        def on_next(value: Any) -> None:
            record.append(("N", value))
            if sum(each[0] == "N" for each in record) == turn:
                raise RuntimeError("the observer failed")

        return on_next

    return observer


SIMPLE = [
    name
    for name in UNTIMED
    if CASES[name].sources == 1
    and "to_list" not in name
    and name != "take_while: inclusive"  # RxPY then completes when the source does; ours has let go of it
    and name.split(":")[0] in
    {"map", "filter", "scan", "take_while", "skip_while", "skip", "distinct", "pairwise", "map_indexed",
     "distinct_until_changed", "default_if_empty"}
]  # fmt: skip


@pytest.mark.parametrize("turn, name", crossed([1, 2, 3], SIMPLE))
def test_a_failing_observer_fails_the_producer(name: str, turn: int) -> None:
    """An exception of the final observer reaches whoever pushed the event, and the subscription lives on."""
    failing = [with_default_schedulers(CASES[name], world, failing_at(turn)) for world in WORLDS]
    assert failing[0] == failing[1]


@pytest.mark.parametrize(
    "build",
    [
        lambda ops, s: s.pipe(ops.map(lambda x: x)),
        lambda ops, s: s.pipe(ops.scan(lambda a, x: a + x)),
        lambda ops, s: s.pipe(ops.take(3)),
        lambda ops, s: s.pipe(ops.pairwise()),
        lambda ops, s: s.pipe(ops.distinct()),
        lambda ops, s: s.pipe(ops.merge(s)),
        lambda ops, s: s.pipe(ops.combine_latest(s)),
        lambda ops, s: s.pipe(ops.with_latest_from(s)),
        lambda ops, s: s.pipe(ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.scan(max)))),
        lambda ops, s: s.pipe(ops.start_with(5), ops.take_while(lambda x: x < 9)),
    ],
)
def test_reentrant_events_go_depth_first(build: Any) -> None:
    """An observer that pushes into the source from within sees RxPY's order."""

    def run(operators: Any) -> list[Any]:
        source: Subject[int] = Subject()
        record: list[Any] = []

        def on_next(value: Any) -> None:
            record.append(value)
            if len(record) in (2, 4):
                source.on_next(7 + len(record))

        build(operators, source).subscribe(on_next, on_completed=lambda: record.append("C"))
        for number in range(1, 5):
            source.on_next(number)
        source.on_completed()
        return record

    assert run(ops) == run(plain_ops)


def test_buffers_survive_reentrancy() -> None:
    """A buffer that is re-entered keeps its elements (RxPY's raises IndexError)."""
    source: Subject[int] = Subject()
    seen: list[Any] = []

    def on_next(buffer: list[int]) -> None:
        seen.append(buffer)
        if len(seen) == 1:
            source.on_next(3)
            source.on_next(4)

    source.pipe(ops.buffer_with_count(2)).subscribe(on_next)
    for number in (1, 2, 5):
        source.on_next(number)
    source.on_completed()
    assert seen == [[1, 2], [3, 4], [5]]


def test_threads_meet_in_merge() -> None:
    """Two threads that push into two merged sources lose no update behind the merge."""
    sources: list[Subject[int]] = [Subject(), Subject()]
    last: list[int] = []
    rx.merge(*sources).pipe(ops.scan(lambda total, _: total + 1, 0), ops.group_by(lambda n: n % 3),
                            ops.flat_map(lambda g: g.pipe(ops.count())), ops.sum()).subscribe(last.append)  # fmt: skip
    threads = [threading.Thread(target=lambda s=s: [s.on_next(n) for n in range(2_000)]) for s in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for source in sources:
        source.on_completed()
    assert last == [4_000]


def test_groups_keep_the_source() -> None:
    """Whoever still reads a group keeps it fed after the outer subscription is gone; the last reader lets go."""
    for operators in (plain_ops, ops):
        source: Subject[int] = Subject()
        seen: list[Any] = []
        inner: list[Any] = []

        def on_group(group: Any, inner: list[Any] = inner, seen: list[Any] = seen) -> None:
            inner.append(group.subscribe(lambda value: seen.append((group.key, value))))

        outer = source.pipe(operators.group_by(lambda x: x % 2)).subscribe(on_group)
        source.on_next(1)
        source.on_next(2)
        outer.dispose()
        source.on_next(3)
        source.on_next(4)
        inner[0].dispose()
        source.on_next(5)
        source.on_next(6)
        assert len(source.observers) == 1
        inner[1].dispose()
        assert source.observers == []
        assert seen == [(1, 1), (0, 2), (1, 3), (0, 4), (0, 6)]


@pytest.mark.parametrize("operators", [plain_ops, ops], ids=WORLDS)
def test_windows_by_hand(operators: Any) -> None:
    """Windows are observables of their own: read late, they give what is left."""
    source: Subject[int] = Subject()
    windows: list[Any] = []
    source.pipe(operators.window_with_count(3)).subscribe(windows.append)
    seen: list[Any] = []
    source.on_next(1)
    windows[0].subscribe(seen.append, on_completed=lambda: seen.append("C"))
    for number in (2, 3, 4):
        source.on_next(number)
    windows[0].subscribe(seen.append, on_completed=lambda: seen.append("C again"))
    assert seen == [2, 3, "C", "C again"]
    assert len(windows) == 2


def test_every_subscription_has_its_own_state() -> None:
    """A query subscribed twice counts twice (RxPY shares the index and mutable seeds)."""
    query = rx.of("a", "b").pipe(ops.map_indexed(lambda x, i: (x, i)))
    assert [query.pipe(ops.to_list()).run() for _ in range(2)] == [[("a", 0), ("b", 1)]] * 2

    def append(seen: list[int], x: int) -> list[int]:
        seen.append(x)
        return seen

    mutating = rx.of(1, 2).pipe(ops.scan(append, []))
    assert [mutating.run() for _ in range(2)] == [[1, 2]] * 2


def test_plain_and_ours_mix() -> None:
    """Our operators take plain observables, plain operators take our queries."""
    query = reactivex.of(1, 2, 3).pipe(
        plain_ops.map(lambda x: x * 2), ops.scan(lambda a, x: a + x), plain_ops.to_list()
    )
    assert query.run() == [2, 6, 12]


def test_real_timers() -> None:
    """Without a scheduler a timer takes real time, on RxPY's timeout scheduler."""
    done = threading.Event()
    seen: list[Any] = []
    rx.timer(0.001).pipe(ops.map(str)).subscribe(seen.append, on_completed=done.set)
    assert done.wait(60)
    assert seen == ["0"]


def test_named_sources_need_a_host() -> None:
    """A named source un-hosted fails at once, and says how to bind it."""
    errors: list[Exception] = []
    rx.source("orders").pipe(ops.take(1)).subscribe(on_error=errors.append)
    (error,) = errors
    assert isinstance(error, QueryRefused)
    assert "bind(orders=" in str(error)
    assert rx.source("n").pipe(ops.sum()).bind(n=reactivex.of(1, 2)).run() == 3


def test_scheduler_arguments_are_used() -> None:
    """A scheduler given to the operator wins over the one of the subscription, as in RxPY."""
    from reactivex.scheduler import VirtualTimeScheduler

    for creation in (reactivex, rx):
        own, other = VirtualTimeScheduler(0.0), VirtualTimeScheduler(0.0)
        seen: list[int] = []
        creation.timer(1.0, scheduler=own).subscribe(seen.append, scheduler=other)
        other.advance_to(5.0)
        assert seen == []
        own.advance_to(5.0)
        assert seen == [0]


BEGINNINGS = {
    "a value": lambda rx: rx.return_value(1),
    "values": lambda rx: rx.of(1, 2),
    "nothing": lambda rx: rx.empty(),
    "an error": lambda rx: rx.throw("over"),
}
BEHIND = {
    "map": lambda ops, rx, s: s.pipe(ops.map(lambda x: x)),
    "count": lambda ops, rx, s: s.pipe(ops.count()),
    "start_with": lambda ops, rx, s: s.pipe(ops.start_with(0)),
    "take_until": lambda ops, rx, s: s.pipe(ops.take_until(rx.never())),
    "merge": lambda ops, rx, s: s.pipe(ops.merge(rx.of(5))),
    "flat_map": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.of(x, x))),
}


@pytest.mark.parametrize("beginning, behind, kind", every_of(5, product(BEGINNINGS, BEHIND, "NEC"), commits=1))
def test_a_failing_observer_fails_subscribe(beginning: str, behind: str, kind: str) -> None:
    """Over a cold source an exception of the observer is never lost, whatever stands between.

    It comes out of subscribe or, as in RxPY while subscribe is still at work, goes to the observer's on_error.
    """
    seen: list[str] = []
    raised: list[str] = []

    def note(this: str) -> Callable[..., None]:
        return lambda *_: seen.append(this)

    def fail(this: str) -> Callable[..., None]:
        def called(*args: Any) -> None:
            if this == kind:
                raise RuntimeError("the observer failed")
            raised.extend(map(str, args if this == "E" else ()))

        return called

    BEHIND[behind](plain_ops, reactivex, BEGINNINGS[beginning](reactivex)).subscribe(*map(note, "NEC"))
    try:
        BEHIND[behind](ops, rx, BEGINNINGS[beginning](rx)).subscribe(*map(fail, "NEC"))
    except RuntimeError as error:
        raised.append(str(error))
    assert ("the observer failed" in raised) == (kind in seen)


@pytest.mark.parametrize("ended", [False, True], ids=["openings go on", "openings end"])
@pytest.mark.parametrize("join", [False, True], ids=["window_toggle", "group_join"])
def test_a_window_that_waits_to_be_merged_is_closed(ended: bool, join: bool) -> None:
    """It goes on when the openings have ended (in RxPY only while they go on), and then the query ends."""

    def heard(operators: Any) -> list[Any]:
        source, openings, closings = Subject[Any](), Subject[Any](), {1: Subject[Any](), 2: Subject[Any]()}
        if join:
            joined = operators.group_join(source, closings.__getitem__, lambda _: reactivex.empty())
            windows = openings.pipe(joined, operators.map(lambda each: each[1]))
        else:
            windows = source.pipe(operators.window_toggle(openings, closings.__getitem__))
        seen: list[Any] = []
        merged = windows.pipe(operators.merge(max_concurrent=1))
        merged.subscribe(seen.append, on_completed=lambda: seen.append("end"))
        openings.on_next(1)
        source.on_next("a")
        openings.on_next(2)
        if ended:
            openings.on_completed()
        closings[1].on_next(0)
        source.on_next("b")
        closings[2].on_next(0)
        openings.on_completed()
        return seen

    assert heard(ops) == ["a", "b", "end"]
    assert heard(plain_ops) == (["a"] if ended else ["a", "b", "end"])
