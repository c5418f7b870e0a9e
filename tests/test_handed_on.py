"""Queries that end with the end of another one: they run again when that one does, however it comes to that."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Collection
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.dispatch import Delivery

CONSTANT = ValueError("a constant of the module")


def picky(value: int) -> int:
    if value == 2:
        raise ValueError("two cannot be had")
    return value


def constant(value: int) -> int:
    if value == 2:
        raise CONSTANT
    return value


def raise_it(error: Exception, *_: Any) -> Any:
    raise error


def raise_anew(error: Exception, *_: Any) -> Any:
    raise copy.copy(error)


def raise_another(error: Exception, *_: Any) -> Any:
    raise ValueError(f"it said {error}")


def raise_constant(error: Exception, *_: Any) -> Any:
    raise CONSTANT


base = rx.source("base")
HANDED_ON: dict[str, Any] = {
    "plain": base.map(abs),
    "far": rx.source("plain").map(abs),
    "thrown again": base.catch(lambda error, _: rx.throw(error)),
    "raised again": base.catch(raise_it),
    "raised by a look": base.do_action(on_error=raise_it),
    "another that says the same": base.catch(raise_anew),
    "behind raised again": rx.source("raised again").map(abs),
    "beside": base.map(lambda value: -value),
    "of two": rx.merge(base, rx.source("n")),
    "named by a value": rx.source("n").map(lambda _: base).switch_latest(),
    "of what is named": rx.source("named by a value").map(abs),
    "timed": base.map(abs),
    "counted": base.scan(lambda count, _: count + 1, 0),
}
"""Readers of a query that fails, by how they hand its error on."""
OWN: dict[str, Any] = {
    "another": base.catch(raise_another),
    "a constant at its end": base.catch(raise_constant),
    "its own, later": rx.merge(base.catch(rx.empty()), rx.source("n")).map(
        lambda n: raise_another("3") if n == 3 else n
    ),
    "a constant that nobody raises": rx.merge(
        base.catch(rx.empty()), rx.source("n").flat_map(lambda n: rx.throw(CONSTANT) if n == 3 else rx.empty())
    ),
    "of another one": rx.source("n").flat_map(lambda n: rx.throw(CONSTANT) if n == 3 else rx.empty()),
    "a constant, later": rx.merge(base.catch(rx.empty()), rx.source("n")).map(
        lambda n: raise_constant("3") if n == 3 else n
    ),
}
"""Readers with a fault of their own."""
SAYS_THE_SAME = {"a constant that nobody raises", "a constant at its end"}
"""Count as handed on where the query has failed with it, too: who says what cannot be told behind a start."""
FAULTS: dict[str, Any] = {
    "an error": rx.source("n").map(picky),
    "a constant": rx.source("n").map(constant),
    "a constant that nobody raises": rx.source("n").flat_map(
        lambda n: rx.throw(CONSTANT) if n == 2 else rx.return_value(n)
    ),
}


def mend_by_edit(evaluator: QueryEvaluator) -> None:
    evaluator.create("base", rx.source("n").map(abs))


def restart(evaluator: QueryEvaluator) -> None:
    evaluator.restart("base")


def dispose_and_create(evaluator: QueryEvaluator) -> None:
    evaluator.dispose("base")
    evaluator.create("base", rx.source("n").map(abs))


def dispose(evaluator: QueryEvaluator) -> None:
    evaluator.dispose("base")


WAYS: dict[str, Callable[[QueryEvaluator], None]] = {
    "edited": mend_by_edit,
    "restarted": restart,
    "disposed of and created": dispose_and_create,
    "disposed of": dispose,
}
"""How the failed query comes to run again: the last one by the start that follows."""


class Host:
    """Runs of one app, each a new start."""

    def __init__(self, failing: Any) -> None:
        self.store, self.values = MemoryStore(), [1]
        self.made: dict[str, Any] = {"base": failing, **HANDED_ON, **OWN}
        self.clocked: Collection[str] = {"timed"}
        self.sources: dict[str, Any] = {}

    def opened(self, names: Any = None) -> QueryEvaluator:
        self.store = self.store.reopen()
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(self.values, follow=True))
        for name, source in self.sources.items():
            evaluator.source(name, source)
        for name in self.made if names is None else names:
            self.create(evaluator, name)
        evaluator.start()
        return evaluator

    def create(self, evaluator: QueryEvaluator, name: str) -> None:
        evaluator.create(name, self.made[name], clock=rx.event_time(float) if name in self.clocked else None)

    def take(self, evaluator: QueryEvaluator, *values: int) -> None:
        self.values += values
        while evaluator.step():
            pass


def failed(evaluator: QueryEvaluator) -> set[str]:
    return {name for name in evaluator.queries() if evaluator.query(name).status == "failed"}


def leave(evaluator: QueryEvaluator, how: str) -> None:
    evaluator.flush()
    evaluator.abandon() if how == "killed" else evaluator.__exit__(None, None, None)


@pytest.mark.parametrize(
    "fault, way, first, then, late",
    crossed(FAULTS, WAYS, ["here", "stopped", "killed"], ["here", "stopped", "killed"], [False, True], nightly=12),
)
def test_whoever_has_handed_an_error_on_runs_again_with_its_query(
    fault: str, way: str, first: str, then: str, late: bool
) -> None:
    """So its incident says, in this run and in later ones; who has a fault of its own stays, and is told otherwise.

    A start or a kill before it is mended or behind makes no difference, nor does it if readers came when it had failed.
    """
    host, own = Host(FAULTS[fault]), OWN.keys() - (SAYS_THE_SAME if "constant" in fault else set())
    evaluator = host.opened(["base"] if late else None)
    host.take(evaluator, 2)
    for name in host.made if late else ():
        host.create(evaluator, name)
    host.take(evaluator, 3)
    for where in (first, then):
        assert failed(evaluator) == {"base", *HANDED_ON, *OWN}
        said = {each.subject: each.message for each in evaluator.incidents.open() if each.kind == "query"}
        assert {name for name in said if "runs again with it" in said[name]} == {*HANDED_ON, *OWN} - own
        if where != "here":
            leave(evaluator, where)
            evaluator = host.opened()
            host.take(evaluator)
    WAYS[way](evaluator)
    host.made["base"] = rx.source("n").map(abs)
    if way == "disposed of":
        evaluator = (leave(evaluator, "stopped"), host.opened())[1]
    host.take(evaluator, 4)
    assert failed(evaluator) == own
    leave(evaluator, then if then != "here" else "stopped")
    evaluator = host.opened()
    host.take(evaluator, 5)
    assert failed(evaluator) == own
    for name in HANDED_ON.keys() - {"timed"}:  # whose clock stands still until more comes
        last = [value for part in evaluator.stream(name).read(0, 100) for value in part.values][-1]
        assert abs(last) == (2 if name == "counted" else 5)
    evaluator.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_source_may_take_the_name_of_a_query_that_was_disposed_of(how: str) -> None:
    """Whoever has read the query reads the source from its beginning on, whatever clock it is on."""
    host = Host(rx.source("n").map(abs))
    host.made = {"base": host.made["base"], **HANDED_ON}
    evaluator = host.opened()
    host.take(evaluator, 2, 3)
    evaluator.dispose("base")
    assert failed(evaluator) == HANDED_ON.keys()
    leave(evaluator, how)
    del host.made["base"]
    host.sources["base"] = ListSource([100.0, 200.0])
    evaluator = host.opened()
    host.take(evaluator, 4, 5)
    assert not failed(evaluator)
    for name in HANDED_ON.keys() - {"counted", "of two"}:
        found = [value for part in evaluator.stream(name).read(0, 100) for value in part.values]
        assert [abs(value) for value in found][-2:] == [100.0, 200.0] or name in (
            "named by a value",
            "of what is named",
        )
    evaluator.close()


@pytest.mark.parametrize("how", ["here", "stopped", "killed"])
@pytest.mark.parametrize("way", ["restarted", "disposed of and created"])
def test_each_runs_again_once_behind_what_it_reads(way: str, how: str) -> None:
    """Neither the order in which queries were edited nor a start between makes one end twice."""
    host = Host(rx.source("n").map(abs))
    host.made = {
        "base": host.made["base"],
        "far": base.map(abs),
        "both": rx.merge(base, rx.source("far").take(1)),
        "beside": base.map(abs),
    }
    evaluator = host.opened()
    host.take(evaluator, 2)
    host.made["far"] = base.map(lambda value: value)
    host.create(evaluator, "far")
    if how != "here":
        leave(evaluator, how)
        evaluator = host.opened()
    WAYS[way](evaluator)
    host.take(evaluator, 3)
    for name in host.made:
        assert sum(part.ended for part in evaluator.stream(name).read(0, 100)) == 1
    evaluator.close()


BOTH: dict[str, Any] = {
    "merged": rx.merge(base, rx.source("n")),
    "inside": rx.source("n").flat_map(lambda v: base.map(lambda w: [v, w])),
    "named": rx.source("n").flat_map(lambda v: rx.source("base" if v % 2 else "far").map(lambda w: [v, w])),
    "far": base.map(lambda v: v + 100),
    "counted": base.scan(lambda count, _: count + 1, 0).merge(rx.source("n")),
}
"""Readers of a name that is a query's first, and then a source's, and of others."""


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("checkpoint", ["none", "before the disposal", "behind the disposal"])
def test_what_came_before_a_source_took_the_name_is_what_a_replay_gives(checkpoint: str, clocked: bool) -> None:
    """Its turns read the query, or nothing of that name, whatever the app of today declares."""
    found = []
    for how in ("stopped", "killed"):
        host = Host(rx.source("n").map(abs))
        host.made = {"base": host.made["base"], **BOTH}
        host.clocked = BOTH.keys() - {"far"} if clocked else ()
        evaluator = host.opened()
        host.take(evaluator, 2, 3)
        if checkpoint == "before the disposal":
            evaluator.checkpoint()
        evaluator.dispose("base")
        host.take(evaluator, 4)
        if checkpoint == "behind the disposal":
            evaluator.checkpoint()
            host.take(evaluator, 5)
        leave(evaluator, how)
        del host.made["base"]
        host.sources["base"] = ListSource([200.0, 300.0])
        evaluator = host.opened()
        host.take(evaluator, 6, 7)
        assert not evaluator.warnings
        found.append(
            {
                name: ([value for part in evaluator.stream(name).read(0, 100) for value in part.values])
                for name in host.made
            }
        )
        evaluator.close()
    assert found[0] == found[1]


READERS: dict[str, Any] = {
    "both": rx.merge(base, rx.source("n")),
    "far": rx.source("both").map(abs),
    "thrown again": rx.merge(base, rx.source("n")).catch(lambda error, _: rx.throw(error)),
    "raised again": rx.merge(base, rx.source("n")).catch(raise_it),
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
@pytest.mark.parametrize("how", ["here", "stopped", "killed"])
def test_an_end_that_a_clock_tells_late_is_that_of_its_query(how: str, fault: str) -> None:
    """Whoever hears of it when the query runs again by now has failed with that one, and runs again at once."""
    host = Host(FAULTS[fault] if fault else rx.source("n").map(abs))
    host.made, host.clocked = {"base": host.made["base"], **READERS}, READERS.keys()
    evaluator = host.opened()
    host.take(evaluator, 2)
    evaluator.dispose("base")
    host.made["base"] = rx.source("n").map(abs)
    evaluator.create("base", host.made["base"])
    if how != "here":
        leave(evaluator, how)
        evaluator = host.opened()
    host.take(evaluator, 10, 20)
    assert not failed(evaluator)
    host.take(evaluator, 30, 40, 50)
    for name in READERS:
        told = list(evaluator.stream(name).read(0, 99))
        assert [part.ended for part in told].count(True) == 1, name
        assert not told[-1].ended and told[-1].values, name
    leave(evaluator, "stopped")
    evaluator = host.opened()
    assert not failed(evaluator)
    evaluator.close()


def out_again(value: int) -> int:
    if value == 3:
        raise ConnectionError("no route")  # a new error each time, of one text
    return constant(value)


LATER = base.catch(lambda error, _: rx.timer(5.0).flat_map(lambda _: rx.throw(error)))
"""Hands the end of `base` on when that is long past."""
PAST: dict[str, tuple[dict[str, Any], int, str]] = {
    "many rows in between": ({"groups": rx.source("m").group_by(abs).flat_map(lambda g: g.count())}, 3, ""),
    "raised again beside it": ({"beside": base.catch(raise_it)}, 3, ""),
    "a constant": ({}, 2, ""),
    "the same once more": ({}, 3, "restarted"),
    "gone": ({}, 3, "gone"),
}
"""What runs beside it, with which value `base` fails, and what becomes of that."""


def later(case: str, how: str) -> tuple[str, str]:
    """Return with whom a query is said to have failed in the end, and how it is when that one runs again."""
    beside, value, act = PAST[case]
    store, now, values, many = MemoryStore(), [1000.0], [1, value], list(range(300))

    def opened(*, declares: bool = True) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: now[0])
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.source("m", ListSource(many, follow=True))
        for name, query in {"base": rx.source("n").map(out_again), **beside, "later": LATER}.items():
            if declares:
                evaluator.create(name, query)
        evaluator.start()
        return evaluator

    def settle() -> None:
        while evaluator.step():
            pass

    evaluator = opened()
    settle()
    if act == "restarted":
        evaluator.restart("base")
        values.append(value)
    if act == "gone":
        evaluator.dispose("base")
    settle()
    if how:
        evaluator.checkpoint(full=how == "killed behind a full checkpoint")
        leave(evaluator, how.partition(" ")[0])
        store = store.reopen()
        evaluator = opened(declares=act != "gone")
    now[0] += 10
    settle()
    failure = evaluator.engine.standing["later"].failure
    assert failure is not None
    evaluator.create("base", rx.source("n").map(out_again)) if act == "gone" else evaluator.restart("base")
    settle()
    found = failure.origin, evaluator.query("later").status
    evaluator.close()
    return found


@pytest.mark.parametrize("how", ["stopped", "killed", "killed behind a full checkpoint"])
@pytest.mark.parametrize("case", PAST)
def test_whose_error_it_is_does_not_depend_on_who_asks(case: str, how: str) -> None:
    """One error is several objects behind a start, and several may say the same in one process."""
    expected = ("", "failed") if case == "gone" else ("base", "running")
    assert later(case, "") == later(case, how) == expected


def no_route(value: float) -> float:
    if value == 3.0:
        raise ConnectionError("no route")
    return value


@pytest.mark.parametrize("clocked", [False, True])
def test_who_has_survived_an_end_fails_by_itself_later(clocked: bool) -> None:
    """What it was told of long ago, and what runs again by now, has no part in an error that says the same."""
    own = rx.source("m").flat_map(lambda v: rx.throw(ConnectionError("no route")) if v == 50.0 else rx.of(v))
    reader = rx.merge(rx.source("base").catch(rx.of(-1.0)), own).scan(lambda a, v: a + v)
    n, m = [1.0, 3.0], [1.0, 2.0, 4.0]
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(n, follow=True))
        evaluator.source("m", ListSource(m, follow=True))
        evaluator.create("base", rx.source("n").map(no_route))
        evaluator.create("reader", reader, clock=rx.event_time(float) if clocked else None)
        evaluator.start()
        while evaluator.step():
            pass
        evaluator.restart("base")
        for value in (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0):
            n.append(value + 1)
            m.append(value)
            while evaluator.step():
                pass
        assert failed(evaluator) == {"reader"}
        failure = evaluator.engine.standing["reader"].failure
        assert failure is not None and not failure.origin


@pytest.mark.parametrize("how", ["here", "stopped", "killed"])
@pytest.mark.parametrize("again", ["a", "b"])
def test_of_two_that_say_the_same_either_lets_it_run_again(again: str, how: str) -> None:
    """Which of them it was cannot be told behind a start."""
    store, now, lists = MemoryStore(), [1000.0], {"n": [1.0, 3.0], "m": [1.0, 3.0]}
    handed = rx.source("b").catch(lambda error, _: rx.timer(5.0).flat_map(lambda _: rx.throw(error)))

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: now[0])
        for name, values in lists.items():
            evaluator.source(name, ListSource(values, follow=True))
        evaluator.create("a", rx.source("m").map(no_route))
        evaluator.create("b", rx.source("n").map(no_route))
        evaluator.create("later", rx.merge(rx.source("a").catch(rx.empty()), handed))
        evaluator.start()
        return evaluator

    evaluator = opened()
    while evaluator.step():
        pass
    now[0] += 10
    while evaluator.step():
        pass
    assert failed(evaluator) == {"a", "b", "later"}
    if how != "here":
        leave(evaluator, how)
        store = store.reopen()
        evaluator = opened()
    evaluator.restart(again)
    assert failed(evaluator) == {"a", "b"} - {again}
    evaluator.close()


class Noted(Exception):
    """Can be referred to weakly, as errors of builtin classes cannot."""


def raise_noted(_: Any) -> Any:
    raise Noted


def test_errors_that_a_query_catches_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn may be a day of timers, and an error holds the frames in which it was raised."""
    blame, raised, most = Delivery.blame, list[weakref.ref[Exception]](), [0]

    def noting(self: Delivery, error: BaseException, by: Any) -> Exception:
        found = blame(self, error, by)
        raised.append(weakref.ref(found))
        if len(raised) % 100 == 0:
            gc.collect()
            most[0] = max(most[0], sum(each() is not None for each in raised))
        return found

    monkeypatch.setattr(Delivery, "blame", noting)
    now = [1000.0]
    with QueryEvaluator(MemoryStore(), background=False, clock=lambda: now[0]) as evaluator:
        evaluator.create("q", rx.interval(1.0).flat_map(lambda _: rx.defer(raise_noted).catch(rx.empty())))
        evaluator.start()
        now[0] += 1000.0
        while evaluator.step():
            pass
    assert len(raised) > 500 and most[0] < 20


def oops(*_: Any) -> Any:
    raise RuntimeError("cannot clean up")


SWALLOWED = rx.source("n").flat_map(lambda _: rx.of(1).do_action(oops).on_error_resume_next(rx.empty()))
LAST = base.catch(lambda error, _: rx.source("last").flat_map(lambda _: rx.throw(error)))
AT_ONCE: dict[str, tuple[Any, str]] = {
    "of another, beside one of its own": (rx.merge(SWALLOWED, LAST), "base"),
    "of another": (LAST, "base"),
    "its own": (rx.merge(base.catch(rx.empty()), rx.source("m").map(no_route)), ""),
    "its own, and another as it ends": (
        rx.merge(base.catch(rx.empty()), rx.source("m").finally_action(oops).map(no_route)), ""
    ),
    "its own, of a window": (
        rx.merge(
            base.catch(rx.empty()),
            rx.source("m").map(no_route).window_with_count(10).flat_map(lambda w: w.catch(oops).catch(rx.empty())),
        ),
        "",
    ),
}  # fmt: skip
"""Readers that fail in one turn with several errors, and whose end they hand on."""


@pytest.mark.parametrize("reader", AT_ONCE)
def test_what_else_is_raised_in_the_turn_makes_no_difference(reader: str) -> None:
    """Errors that were dealt with, and are gone, are not mistaken for others, nor do they hide the one that ends it."""
    query, origin = AT_ONCE[reader]
    for _ in range(10):  # where objects lie is left to chance
        lists = {"n": [3.0], "m": list[float]()}
        with QueryEvaluator(MemoryStore(), background=False) as evaluator:
            for name, values in lists.items():
                evaluator.source(name, ListSource(values, follow=True))
            evaluator.create("pre", rx.source("n"))
            evaluator.create("base", rx.source("pre").map(no_route))
            evaluator.create("last", base.catch(rx.of(1.0)))
            evaluator.create("reader", query)
            evaluator.start()
            for _ in range(2):
                while evaluator.step():
                    pass
                lists["m"].append(3.0)
            failure = evaluator.engine.standing["reader"].failure
            assert failure is not None and failure.origin == origin


def test_who_hands_on_what_cannot_be_stored_fails_with_it() -> None:
    """Also in the very turn that ends the other one: only what is named there has a fault of its own."""
    held = rx.source("n").scan(lambda a, v: [threading.Lock()] if v == 3.0 else a, [0]).map(lambda _: 1.0)
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1.0, 3.0], follow=True))
        evaluator.create("base", held)
        evaluator.create("last", base.catch(rx.of(1.0)))
        evaluator.create("reader", LAST)
        evaluator.start()
        while evaluator.step():
            pass
        evaluator.checkpoint()
        while evaluator.step():
            pass
        failure = evaluator.engine.standing["reader"].failure
        assert failure is not None and failure.origin == "base"
