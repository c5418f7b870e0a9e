"""Inner sequences that wait once are opened and ended by a shorter way; no reader can tell, and no store."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from every_case import CASES, lanes
from lanes import at_each_commit
from test_snapshot_differential import HOSTABLE, STREAMS, ChainedRun, rows_now

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.plan_names import content_in
from hosting.engine.timers import Clock
from hosting.engine.turns import Events, Tick
from reliable_rx import operators as ops
from reliable_rx.errors import LimitExceeded
from reliable_rx.limits import Limits
from reliable_rx.runtime.outliving import units
from reliable_rx.runtime.timer_fast_path import Waiting
from reliable_rx.testing import Timed, parse_marbles, run_plain
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.marbles import NEXT
from reliable_rx.testing.oracle import check_operator, compare

Build = Callable[[Any, Any, Any], Any]
TOKEN = re.compile("'[0-9a-f]{16}'")  # of a hub, which each build of a query has anew
TRACE = re.compile("'Traceback .*'")  # the shorter way has fewer frames
PLAN = re.compile(r"[0-9a-f]{32}(:-?[0-9a-f]+)?/[0-9a-f]{24}/[0-9]+")  # its code has the tokens of its hubs


def refuses(n: int) -> int:
    if n == 1:
        raise ValueError(n)
    return n


def late(o: Any, r: Any, n: int, *behind: Any) -> Any:
    return r.timer(0.5 + n).pipe(o.map(lambda v: v + n), *behind)


def groups(o: Any, s: Any, each: Callable[[Any], Any]) -> Any:
    return s.pipe(o.group_by(lambda n: n % 2), o.flat_map(each))


def own_key(o: Any, r: Any, group: Any) -> Any:
    return group.pipe(o.flat_map(lambda n: late(o, r, n, o.map(lambda v: (group.key, v)))))


WAITING: dict[str, Build] = {
    "merged": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n))),
    "switched": lambda o, r, s: s.pipe(o.switch_map(lambda n: late(o, r, n))),
    "one after the other": lambda o, r, s: s.pipe(o.concat_map(lambda n: late(o, r, n))),
    "bare": lambda o, r, s: s.pipe(o.flat_map(lambda n: r.timer(1.0))),
    "filtered": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n, o.filter(bool), o.map(str)))),
    "failing": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n, o.map(refuses), o.filter(refuses)))),
    "caught": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n, o.map(refuses))), o.catch(r.of("!"))),
    "begun again": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n, o.map(refuses))), o.retry(2)),
    "closed by its value": lambda o, r, s: s.pipe(o.flat_map(lambda n: late(o, r, n)), o.take(2)),
    "within another": lambda o, r, s: s.pipe(
        o.flat_map(lambda n: r.timer(0.5).pipe(o.flat_map(lambda _: late(o, r, n))))
    ),
    "within a group": lambda o, r, s: groups(o, s, lambda g: g.pipe(o.switch_map(lambda n: late(o, r, n)))),
    "asking for its group": lambda o, r, s: groups(o, s, lambda g: own_key(o, r, g)),
    "calling for itself": lambda o, r, s: s.pipe(
        o.expand(lambda n: late(o, r, n + 1) if n < 2 else r.empty()), o.take(7)
    ),
    "together with others": lambda o, r, s: s.pipe(
        o.flat_map(lambda n: late(o, r, n) if n else r.merge(late(o, r, 1), r.timer(0.5)))
    ),
    "ending groups": lambda o, r, s: s.pipe(
        o.group_by_until(lambda n: n % 2, None, lambda g: r.timer(1.0)), o.flat_map(lambda g: g.pipe(o.to_list()))
    ),
}


class RowsToo(HostedRun):
    """A run that records, with what is emitted, the rows after each turn."""

    def take(self, turn: Any) -> None:
        super().take(turn)
        rows = {key: comparable(row) for key, row in rows_now(self.engine).items()}
        self.record.append(Timed(self.engine.clock, NEXT, rows))


def comparable(row: str) -> str:
    """Return a row without what is another in each build of a query."""
    return PLAN.sub(lambda name: content_in(name[0]), TRACE.sub("trace", TOKEN.sub("token", row)))


def both_ways(build: Build, sources: int, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [parse_marbles(STREAMS[number % 2]) for number in range(sources)]
    short = RowsToo(build, streams, 40.0, crash=False).play()
    with monkeypatch.context() as patch:
        patch.setattr(Clock, "wait", lambda *_: None)
        compare("the shorter way", streams, RowsToo(build, streams, 40.0, crash=False).play(), short)


SAMPLED = ("failing",)
sampled = [name if name in SAMPLED else at_each_commit(name) for name in WAITING]


@pytest.mark.parametrize("name", sampled)
def test_it_does_what_reactivex_does(name: str) -> None:
    """Values, times and ends are RxPY's, wherever the host crashes."""
    check_operator(WAITING[name], alphabet=(0, 1), length_max=2)


@pytest.mark.parametrize("name", WAITING)
def test_the_rows_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every turn a store would be given what it is given when each is subscribed operator by operator."""
    both_ways(WAITING[name], 1, monkeypatch)


@pytest.mark.parametrize("full", [False, at_each_commit(True)], ids=["differential", "full"])
@pytest.mark.parametrize("name", sampled)
def test_a_chain_of_checkpoints_holds_them(name: str, full: bool) -> None:
    """Checkpoints have those that wait as they were at their moment, though they begin and end while one is written."""
    run = ChainedRun(WAITING[name], 1, late=True, full=full)
    expected = run_plain(WAITING[name], run.streams, run.until_s)
    compare("the run", run.streams, expected, run.play())
    run.close()


@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=32))
def test_the_rows_are_the_same_whatever_reads_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where every operator stands behind such sequences, and is closed by one."""
    case = CASES[name]

    def build(o: Any, r: Any, *sources: Any) -> Any:
        waited = [s.pipe(o.flat_map(lambda v: r.timer(0.5).pipe(o.map(lambda _: v)))) for s in sources]
        return case.build(o, r, *waited).pipe(o.take_until(sources[0].pipe(o.switch_map(lambda v: r.timer(4.0)))))

    both_ways(build, case.sources, monkeypatch)


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_a_function_that_raises_is_dealt_with_as_the_policy_says(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a timer it fails the query under each policy, as there is no event to go on without."""
    taken = []
    for short in (True, False):
        with monkeypatch.context() as patch:
            if not short:
                patch.setattr(Clock, "wait", lambda *_: None)
            engine = fed(WAITING["failing"](ops, rx, rx.source("n")), [0, 1, 2], policy=policy)
            outs = [(out.name, out.values, repr(out.error)) for out in engine.take(Tick(9.0))]
        taken.append((outs, engine.standing["q"].status))
    assert taken[0] == taken[1]
    assert taken[0][1] == "failed"


def fed(query: Any, events: list[Any], **options: Any) -> QueryEngine:
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", query, time=0.0, **options))
    engine.take(Events("n", "0", 0, events, 1.0))
    return engine


def test_a_row_that_waits_is_nothing_but_its_timer() -> None:
    """It has no states, tables of timers and tables of children of its own, and is gone when its timer has fired."""
    engine = fed(WAITING["merged"](ops, rx, rx.source("n")), [0, 1, 2])
    open_ones = list(units(engine.standing["q"]))
    assert [type(each) for each in open_ones] == [Waiting] * 3
    assert [each.timer[0] for each in open_ones] == [1.5, 2.5, 3.5]
    engine.take(Tick(9.0))
    assert not list(units(engine.standing["q"]))
    assert not any(isinstance(unit, Waiting) for unit in engine.dirty)


@pytest.mark.parametrize(
    "inner",
    [
        lambda n: rx.timer(1), lambda n: rx.timer(0.0), lambda n: rx.timer(1.0, 1.0), lambda n: rx.never(),
        lambda n: rx.timer(1.0).pipe(ops.scan(max)), lambda n: rx.timer(1.0).pipe(ops.tap(print)),
        lambda n: rx.timer(1.0).pipe(ops.delay(1.0)), lambda n: rx.source("n").pipe(ops.map(str)),
    ],
)  # fmt: skip
def test_what_does_more_than_wait_has_a_row_like_any_other(inner: Any) -> None:
    """A timer that ticks on or fires at once, an operator with a state, an effect: all go the long way."""
    engine = fed(rx.source("n").pipe(ops.flat_map(inner)), [0])
    assert not any(isinstance(unit, Waiting) for unit in units(engine.standing["q"]))


def deeper(n: Any) -> Any:
    return rx.timer(0.5).pipe(ops.flat_map(deeper))


def enclosed() -> Callable[[Any], Any]:
    def deeper(n: Any) -> Any:
        return rx.timer(0.5).pipe(ops.flat_map(deeper))

    return deeper


@pytest.mark.parametrize("selector", [deeper, enclosed()], ids=["of a module", "of a function"])
def test_a_selector_that_calls_for_itself_without_end_fails_its_query(selector: Any) -> None:
    """Sequences that open others of their kind are nested as deep as the limit says and no deeper."""
    engine = fed(rx.source("n").pipe(ops.flat_map(selector)), [0], limits=Limits(depth_max=3))
    engine.take(Tick(99.0))
    error = engine.standing["q"].error
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.path) == ("depth_max", "/flat_map" + "/inner/flat_map" * 3 + "/inner")
