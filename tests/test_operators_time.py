"""What operators of time promise beyond RxPY: missed ticks, bounded timers, limits, and refusals that say why."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from lanes import examples
from reactivex import operators as plain
from reactivex.scheduler import VirtualTimeScheduler

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Events, Tick, Turn
from reliable_rx import operators as ops
from reliable_rx.creation.time import Timer
from reliable_rx.errors import LimitExceeded, QueryRefused
from reliable_rx.operators.timing import WHOLE_S, in_microseconds

Played = list[tuple[float, Any]]


MOMENTS = st.floats(-2 * WHOLE_S, 2 * WHOLE_S) | st.integers(-(2**54), 2**54).map(lambda halves: halves / 2e6)


@given(MOMENTS, st.floats(min_value=0.0, max_value=2 * WHOLE_S, exclude_min=True))
@examples(2000)
def test_moments_are_rounded_as_python_rounds(moment: float, later: float) -> None:
    """To whole microseconds, halves to the even one; beyond where a float has any, as they are."""

    def rounded(time_s: float) -> float:
        return round(time_s * 1e6) / 1e6 if abs(time_s) < WHOLE_S else time_s

    assert in_microseconds(moment) == rounded(moment)
    assert Timer(later).once(moment) == rounded(moment + later)


def engine_with(query: Any, **options: Any) -> QueryEngine:
    engine = QueryEngine()
    engine.declare("s", ["0"])
    engine.take(engine.creation("query", query, time=0.0, **options))
    return engine


def events(time_s: float, *values: Any) -> Events:
    return Events("s", "0", 0, list(values), time=time_s)


def play(query: Any, turns: list[Turn], *, crash: bool) -> list[list[Any]]:
    """Return what each turn makes *query* emit; with *crash*, a recovered engine takes each."""
    engine, outputs = engine_with(query), []
    for turn in turns:
        outputs.append([value for out in engine.take(turn) for value in out.values])
        if crash:
            engine = copy_of(engine)
    return outputs


def ticks(catch_up: Any, *, crash: bool, turns: list[Turn], period: Any = 1.0, start: Any = None) -> list[list[Any]]:
    """Return for each turn the logical times at which a periodic timer ticks."""
    query = rx.timer(period if start is None else start, period, catch_up=catch_up)
    return play(query.pipe(ops.timestamp(), ops.map(lambda t: t.timestamp.timestamp())), turns, crash=crash)


both = pytest.mark.parametrize("crash", [False, True], ids=["alive", "recovered after every turn"])


@both
@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("all", [[1.0], [2.0], [3.0, 4.0, 5.0, 6.0], [7.0]]),
        ("once", [[1.0], [2.0], [3.0, 6.0], [7.0]]),
        ("skip", [[1.0], [2.0], [6.0], [7.0]]),
    ],
)
def test_a_periodic_timer_says_what_becomes_of_missed_ticks(catch_up: Any, expected: Any, crash: bool) -> None:
    """An outage from 2.5 to 6.5: all ticks of it, one for the missed ones, or none; the latest is never missed."""
    turns: list[Turn] = [Tick(1.5), Tick(2.5), Tick(6.5), Tick(7.5)]
    assert ticks(catch_up, crash=crash, turns=turns) == expected


@both
@pytest.mark.parametrize("turn", [Tick, events], ids=["ticks of the clock", "events"])
@pytest.mark.parametrize("catch_up", ["all", "once", "skip"])
def test_a_timer_that_is_on_time_misses_nothing(catch_up: Any, turn: Any, crash: bool) -> None:
    """Turns at just the times of ticks make no difference, whether they take the tick along or leave it to the next."""
    for starts in (0.0, 0.25):
        outputs = ticks(catch_up, crash=crash, turns=[turn(starts + n) for n in range(1, 8)])
        assert [time for output in outputs for time in output][:6] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@both
@pytest.mark.parametrize("catch_up", ["once", "skip"])
def test_a_period_shorter_than_a_turn_still_ticks(catch_up: Any, crash: bool) -> None:
    """Nothing starves: the latest tick of each turn is emitted, at a multiple of the period."""
    outputs = ticks(catch_up, crash=crash, turns=[Tick(n) for n in range(1, 5)], period=0.1)
    assert [output[-1] for output in outputs] == [1.0, 2.0, 3.0, 4.0]
    assert [len(output) for output in outputs] == [2 if catch_up == "once" else 1] * 4


@both
def test_missed_ticks_are_counted_by_nobody(crash: bool) -> None:
    """The numbers of a timer that skips go on without a gap: they count what it emits."""
    query = rx.interval(timedelta(seconds=1), catch_up="skip")
    assert play(query, [Tick(1.5), Tick(5.5), Tick(6.0)], crash=crash) == [[0], [1], [2]]


@both
def test_policies_end_where_they_meet_each_other(crash: bool) -> None:
    """Whatever the policy, all timers of one period tick together again after an outage."""
    policies: tuple[Literal["all", "once", "skip"], ...] = ("all", "once", "skip")
    both_kinds = rx.merge(*[rx.interval(1.0, catch_up=policy) for policy in policies])
    stamped = both_kinds.pipe(ops.timestamp(), ops.map(lambda t: t.timestamp.timestamp()))
    *_, last = play(stamped, [Tick(1.0), Tick(99.5), Tick(100.0)], crash=crash)
    assert last == [100.0] * 3


def test_un_hosted_a_late_timer_knows_how_late_it_is() -> None:
    """A scheduler that runs actions late: the policies are kept there, too."""
    for policy, expected in (("once", [5.5, 5.5, 6.0]), ("skip", [5.5, 6.0])):
        clock = VirtualTimeScheduler(0.0)
        times: list[float] = []
        rx.interval(1.0, catch_up=policy).pipe(ops.take(len(expected))).subscribe(  # type: ignore[arg-type]
            lambda _, times=times, clock=clock: times.append(clock.to_seconds(clock.now)), scheduler=clock
        )
        clock.sleep(5.5)  # the clock has moved, and nothing ran
        clock.advance_to(6.5)
        assert times == expected


def test_a_policy_that_is_none_is_refused() -> None:
    """A typing error is found where it is made."""
    with pytest.raises(ValueError, match="all, once, skip"):
        rx.interval(1.0, catch_up="twice")  # type: ignore[arg-type]


@pytest.mark.parametrize("period", [0.1, 1 / 3, timedelta(microseconds=700_001)])
def test_periods_do_not_drift(period: Any) -> None:
    """After a thousand ticks a timer is where a thousand periods, in microseconds, have brought it."""
    engine = engine_with(rx.interval(period).pipe(ops.timestamp()))
    (out,) = engine.take(Tick(1000.0))
    period_us = round((period.total_seconds() if isinstance(period, timedelta) else period) * 1_000_000)
    for number, stamp in enumerate(out.values[:1000]):
        assert round(stamp.timestamp.timestamp() * 1_000_000) == period_us * (number + 1)


@pytest.mark.parametrize("library", [(reactivex, plain), (rx, ops)], ids=["reactivex", "reliable_rx"])
@pytest.mark.parametrize(
    "operator",
    [
        lambda ops, clock: ops.delay(1.0, clock),
        lambda ops, clock: ops.skip_last_with_time(1.0, clock),
        lambda ops, clock: ops.time_interval(clock),
        lambda ops, clock: ops.throttle_first(1.0, clock),
    ],
    ids=["delay", "skip_last_with_time", "time_interval", "throttle_first"],
)
@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "a plain observable"])
def test_un_hosted_some_operators_lend_their_scheduler_to_what_stands_before_them(
    library: Any, operator: Any, foreign: bool
) -> None:
    """An interval before them ticks on the scheduler that was named for them, as in RxPY."""
    create, operators = library
    clock, seen = VirtualTimeScheduler(0.0), []  # type: ignore[var-annotated]
    ticks = (reactivex if foreign else create).interval(1.0).pipe(operators.map(lambda n: n))
    subscription = ticks.pipe(operator(operators, clock)).subscribe(seen.append)
    clock.advance_to(5.0)
    subscription.dispose()
    assert seen


# -- timers


@pytest.mark.parametrize(
    "operator",
    [ops.debounce(1e6), ops.timeout(1e6), ops.buffer_with_time_or_count(1e6, 1), ops.throttle_with_timeout(1e6)],
    ids=["debounce", "timeout", "buffer", "throttle"],
)
def test_replaced_timers_do_not_pile_up(operator: Any) -> None:
    """An operator that sets its timer anew with every event leaves few dead ones to the host."""
    engine = engine_with(rx.source("s").pipe(operator))
    most = 0
    for number in range(2_000):
        engine.take(Events("s", "0", number, [number], time=float(number)))
        most = max(most, len(engine.timers.heap))
    assert most <= 2 * 64 + 2


def test_many_queries_keep_as_many_timers_as_they_need() -> None:
    """With many live timers, dead ones are at most as many again."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    for number in range(200):
        engine.take(engine.creation(f"q{number}", rx.source("s").pipe(ops.debounce(1e6)), time=0.0))
    most = 0
    for number in range(50):
        engine.take(Events("s", "0", number, [number], time=float(number)))
        most = max(most, len(engine.timers.heap))
    assert most <= 2 * 200 + 64


def test_a_timer_that_goes_on_while_the_clock_stands_is_stopped() -> None:
    """A period of nothing, begun by a timer, fails its query with the limit; the others go on."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    limits = rx.Limits(actions_max=100)
    engine.take(engine.creation("mad", rx.timer(1.0, 0.0), time=0.0, limits=limits))
    engine.take(engine.creation("sane", rx.timer(1.0, 1.0), time=0.0))
    out = {each.name: each for each in engine.take(Tick(3.5))}
    assert isinstance(out["mad"].error, LimitExceeded)
    assert list(out["sane"].values) == [0, 1, 2]


# -- limits and refusals


@pytest.mark.parametrize(
    ("operator", "limits"),
    [
        (ops.delay(9.0), {"queue_items_max": 2}),
        (ops.take_last_with_time(9.0), {"queue_items_max": 2}),
        (ops.skip_last_with_time(9.0), {"queue_items_max": 2}),
        (ops.buffer_with_time(9.0), {"list_items_max": 2}),
        (ops.buffer_with_time_or_count(9.0, 5), {"list_items_max": 2}),
    ],
    ids=["delay", "take_last_with_time", "skip_last_with_time", "buffer_with_time", "buffer_with_time_or_count"],
)
@pytest.mark.parametrize("together", [True, False], ids=["a list", "one by one"])
def test_what_waits_is_limited(operator: Any, limits: dict[str, int], together: bool) -> None:
    """Two elements fit; the third fails the query with the name of the limit."""
    engine = engine_with(rx.source("s").pipe(operator), limits=rx.Limits(**limits))
    turns = [events(1.0, 1, 2), events(1.5, 3)] if together else [events(1.0, n) for n in (1, 2, 3)]
    outs = [engine.take(turn) for turn in turns]
    assert not any(outs[:-1])
    assert isinstance(outs[-1][0].error, LimitExceeded)
    assert outs[-1][0].error.limit in limits


NAIVE = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    "query",
    [
        rx.timer(NAIVE),
        rx.source("s").pipe(ops.delay(NAIVE)),
        rx.source("s").pipe(ops.timeout(NAIVE)),
        rx.source("s").pipe(ops.delay_subscription(NAIVE)),
        rx.source("s").pipe(ops.take_until_with_time(NAIVE)),
        rx.source("s").pipe(ops.skip_until_with_time(NAIVE)),
    ],
    ids=["timer", "delay", "timeout", "delay_subscription", "take_until_with_time", "skip_until_with_time"],
)
def test_a_date_without_a_time_zone_is_refused(query: Any) -> None:
    """A host says so before anything runs; un-hosted it is an error of the sequence, as in RxPY."""
    with pytest.raises(QueryRefused, match="no time zone"):
        engine_with(query)
    errors: list[Exception] = []
    query.bind(s=reactivex.never()).subscribe(on_error=errors.append)
    assert isinstance(errors[0], TypeError)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.window_with_time(1.0, 0.0),
        lambda: ops.buffer_with_time(-1.0),
        lambda: ops.window_with_time_or_count(0.0, 1),
        lambda: ops.buffer_with_time_or_count(-1.0, 1),
    ],
)
def test_spans_that_never_move_on_are_refused(make: Any) -> None:
    """RxPY hangs on these."""
    with pytest.raises(ValueError, match="positive"):
        make()


def test_a_host_refuses_a_throttle_without_duration() -> None:
    """What RxPY says at the subscription, a host says at once."""
    with pytest.raises(QueryRefused, match="less or equal zero"):
        engine_with(rx.source("s").pipe(ops.throttle_first(0.0)))


def test_the_least_window_is_a_window() -> None:
    """A microsecond is longer than nothing, which is refused."""
    assert run_all(rx.of(1, 2).pipe(ops.throttle_first(1e-6))) == [1]
    with pytest.raises(ValueError, match="less or equal zero"):
        run_all(rx.of(1, 2).pipe(ops.throttle_first(0.0)))


def test_a_first_timeout_may_go_on_after_time_is_up() -> None:
    """Its first element is enough; its end need not come."""
    first = rx.of(1).pipe(ops.concat(rx.never()))
    assert run_all(rx.never().pipe(ops.timeout_with_mapper(first, None, rx.of(9)))) == [9]


def run_all(query: Any) -> list[Any]:
    """Return what a query without sources emits within a second. *Raises* what it fails with."""
    found: list[Any] = []
    errors: list[Exception] = []
    clock = VirtualTimeScheduler(0.0)
    query.subscribe(found.append, errors.append, scheduler=clock)
    clock.advance_to(1.0)
    if errors:
        raise errors[0]
    return found
