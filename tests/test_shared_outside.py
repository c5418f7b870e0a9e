"""A shared part that is made outside of a selector is one for all that the selector makes, however it is reached."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
from lanes import crossed, every_of

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.testing.hosted import HostedRun, run_hosted, run_recovered
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed
from reliable_rx.testing.virtual_time import run_plain

Selector = Callable[..., Any]
SHARED: Any = None
LIST: list[Any] = [None]
TABLE: dict[str, Any] = {}


class Holder:
    """What has a shared part, as an attribute, and hands it out in several ways."""

    def __init__(self, shared: Any) -> None:
        self.shared = shared

    def read(self, value: Any = None) -> Any:
        return self.shared

    def __call__(self, value: Any = None) -> Any:
        return self.shared


class Slotted:
    """The same without a dictionary."""

    __slots__ = ("shared",)

    def __init__(self, shared: Any) -> None:
        self.shared = shared


def helper(value: Any) -> Any:
    return SHARED


def by_global(shared: Any) -> Selector:
    return put(shared, helper)


def by_helper(shared: Any) -> Selector:
    return put(shared, lambda value: helper(value))


def put(shared: Any, selector: Selector) -> Selector:
    global SHARED
    SHARED = LIST[0] = TABLE["shared"] = shared
    return selector


def deep(shared: Any) -> Selector:
    selector: Selector = lambda value: shared  # noqa: E731
    for _ in range(12):
        selector = (lambda within: lambda value: within(value))(selector)
    return selector


def attribute_of(holder: Any) -> Selector:
    return lambda value: holder.shared


FORMS: dict[str, Callable[[Any], Selector]] = {
    "closure": lambda s: lambda value: s,
    "default": lambda s: lambda value, s=s: s,
    "list": lambda s: (lambda held: lambda value: held[0])([s]),
    "dict": lambda s: (lambda held: lambda value: held["shared"])({"shared": s}),
    "partial": lambda s: partial(lambda shared, value: shared, s),
    "attribute": lambda s: attribute_of(Holder(s)),
    "slot": lambda s: attribute_of(Slotted(s)),
    "attribute of a class": lambda s: attribute_of(type("Made", (), {"shared": s})),
    "attribute by its name": lambda s: (lambda held: lambda value: getattr(held, "shared"))(Holder(s)),
    "bound method": lambda s: Holder(s).read,
    "callable object": Holder,
    "global": by_global,
    "global of a helper": by_helper,
    "global list": lambda s: put(s, lambda value: LIST[0]),
    "global dict": lambda s: put(s, lambda value: TABLE["shared"]),
    "deep": deep,
    "behind an operator": lambda s: (lambda holder: lambda value: holder.shared.map(lambda x: x))(Holder(s)),
}
MAKERS: dict[str, Callable[..., Any]] = {
    "groups": lambda ops, rx, m, f: m.pipe(ops.group_by(lambda x: x), ops.flat_map(f)),
    "groups that ask for their key": lambda ops, rx, m, f: m.pipe(
        ops.group_by(lambda x: x),
        ops.flat_map(lambda g: f(g).pipe(ops.map(lambda x: (g.key, x)))),
    ),
    "flat_map": lambda ops, rx, m, f: m.pipe(ops.flat_map(f)),
    "switch": lambda ops, rx, m, f: m.pipe(ops.map(f), ops.switch_latest(), ops.merge(m.pipe(ops.flat_map(f)))),
    "merge_all": lambda ops, rx, m, f: m.pipe(ops.map(f), ops.merge_all()),
    "defer": lambda ops, rx, m, f: m.pipe(ops.flat_map(lambda x: rx.defer(lambda _: f(x)))),
    "defer of groups": lambda ops, rx, m, f: m.pipe(
        ops.group_by(lambda x: x), ops.flat_map(lambda g: rx.defer(lambda _: f(g)))
    ),
    "flat_map in groups": lambda ops, rx, m, f: m.pipe(
        ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.flat_map(f)))
    ),
    "groups in groups": lambda ops, rx, m, f: m.pipe(
        ops.group_by(lambda x: x),
        ops.flat_map(lambda g: g.pipe(ops.group_by(lambda x: -x), ops.flat_map(f))),
    ),
    "flat_map in flat_map": lambda ops, rx, m, f: m.pipe(ops.flat_map(lambda x: m.pipe(ops.take(1), ops.flat_map(f)))),
}
QUEUEING: dict[str, Callable[..., Any]] = {
    "concat_all": lambda ops, rx, m, f: m.pipe(ops.map(lambda x: f(x).pipe(ops.take(3))), ops.concat_all()),
    "delayed": lambda ops, rx, m, f: m.pipe(ops.map(f), ops.delay(3.0), ops.merge_all()),
    "in a list": lambda ops, rx, m, f: m.pipe(
        ops.map(f), ops.buffer_with_count(3), ops.flat_map(lambda each: rx.merge(*each))
    ),
    "in a pair": lambda ops, rx, m, f: m.pipe(
        ops.map(lambda x: (x, f(x))), ops.delay(3.0), ops.flat_map(lambda pair: pair[1])
    ),
}
"""Makers whose sequences wait in a state before they are read."""
STREAMS = [
    [*(Timed(t, NEXT, n) for n, t in enumerate((1.0, 3.0, 5.0))), Timed(7.5, COMPLETED, None)],
    [*(Timed(t + 0.5, NEXT, 10**n) for n, t in enumerate(range(1, 8))), Timed(9.0, COMPLETED, None)],
]


class EditedRun(HostedRun):
    """A run in which the query is edited at every boundary: it has one operator more behind it, or one less."""

    edits = 0

    def take(self, turn: Any) -> None:
        from hosting.engine.turns import Events

        super().take(turn)
        if type(turn) is not Events or self.engine.standing["query"].status != "running":
            return
        self.edits += 1
        query = self.build(rx.operators, rx, rx.source("s0"), rx.source("s1"))
        query = query.pipe(rx.operators.map(lambda x: x)) if self.edits % 2 else query
        super().take(self.engine.creation("query", query, time=self.engine.clock))


def run_edited(build: Any, streams: Any, until_s: float) -> list[Timed]:
    return EditedRun(build, streams, until_s, crash=False).play()


def run_edited_and_recovered(build: Any, streams: Any, until_s: float) -> list[Timed]:
    return EditedRun(build, streams, until_s, crash=True).play()


RUNS = {each.__name__: each for each in (run_hosted, run_recovered)}
EDITED = {each.__name__: each for each in (run_edited, run_edited_and_recovered)}
ANY: dict[str, Callable[[Any, Any, float], list[Timed]]] = {**RUNS, **EDITED}


def outside(form: str, maker: str) -> Any:
    """Return what builds a query in which *maker* makes sequences of one shared sum that it reaches by *form*."""

    def build(ops: Any, rx: Any, m: Any, n: Any) -> Any:
        shared = n.pipe(ops.scan(lambda total, x: total + x, 0), ops.share())
        return MAKERS[maker](ops, rx, m, FORMS[form](shared))

    return build


@pytest.mark.parametrize(("form", "maker", "run"), every_of(11, product(FORMS, MAKERS, RUNS)))
def test_what_is_made_outside_is_shared_by_all(form: str, maker: str, run: str) -> None:
    """What comes is what stock `reactivex` gives, also killed at every boundary."""
    build = outside(form, maker)
    assert RUNS[run](build, STREAMS, 20.0) == run_plain(build, STREAMS, 20.0)


@pytest.mark.parametrize(("form", "maker", "run"), every_of(37, product(FORMS, MAKERS, EDITED)))
def test_an_edit_leaves_its_readers_what_is_made_outside(form: str, maker: str, run: str) -> None:
    """The same behind an edit at every boundary: a part that rows alone read goes on for them."""
    build = outside(form, maker)
    if form.startswith("global") and run == "run_edited":
        pytest.skip("what binds a global anew has changed the query that runs, too")
    assert EDITED[run](build, STREAMS, 20.0) == run_plain(build, STREAMS, 20.0)


ITSELF: dict[str, Callable[..., Any]] = {
    "groups": lambda ops, rx, m, n: m.pipe(ops.group_by(lambda x: x), ops.flat_map(lambda g: twice(ops, n))),
    "flat_map": lambda ops, rx, m, n: m.pipe(ops.flat_map(lambda x: twice(ops, n))),
    "flat_map of an object": lambda ops, rx, m, n: m.pipe(ops.flat_map(lambda x: within(ops, Holder(summed(ops, n))))),
    "groups of an object": lambda ops, rx, m, n: m.pipe(
        ops.group_by(lambda x: x), ops.flat_map(lambda g: within(ops, Holder(summed(ops, n))))
    ),
    "elements": lambda ops, rx, m, n: m.pipe(
        ops.map(lambda x: twice(ops, n).pipe(ops.take(3))), ops.merge(max_concurrent=1)
    ),
    "elements that wait": lambda ops, rx, m, n: m.pipe(
        ops.map(lambda x: twice(ops, n).pipe(ops.take(3))), ops.concat_map(lambda each: each)
    ),
}
"""What makes a shared part for each sequence, in the selector."""


def summed(ops: Any, n: Any) -> Any:
    return n.pipe(ops.scan(lambda total, x: total + x, 0), ops.share())


def twice(ops: Any, n: Any) -> Any:
    shared = summed(ops, n)
    return shared.pipe(ops.merge(shared.pipe(ops.map(lambda x: -x))))


def within(ops: Any, holder: Holder) -> Any:
    """Return what reads one shared part for each of its own elements."""
    return holder.shared.pipe(ops.take(3), ops.flat_map(lambda x: holder.shared.pipe(ops.map(lambda y: (x, y)))))


@pytest.mark.parametrize("run, maker", crossed(ANY, ITSELF, nightly=1))
def test_what_a_selector_makes_is_its_own(maker: str, run: str) -> None:
    """Each sequence has its own: what a selector makes is not taken for what was there before, also if it waits."""
    build = lambda ops, rx, m, n: ITSELF[maker](ops, rx, m, n)  # noqa: E731
    assert ANY[run](build, STREAMS, 20.0) == run_plain(build, STREAMS, 20.0)


@pytest.mark.parametrize("run", ANY)
@pytest.mark.parametrize("read", ["merge_all", "flat_map", "concat_map"])
def test_an_event_that_brings_a_shared_part_is_refused(read: str, run: str) -> None:
    """A part that the program around has made and handed in with an event may come with another one, too.

    Behind a restart nobody could tell, so that the query ends at the first event that brings one.
    """
    n = rx.source("s1")
    given = [Timed(1.0, NEXT, twice(ops, n)), Timed(3.0, NEXT, twice(ops, n)), Timed(7.5, COMPLETED, None)]
    how = {"merge_all": (), "flat_map": (lambda each: each,), "concat_map": (lambda each: each.pipe(ops.take(3)),)}
    build = lambda ops, rx, m, _: m.pipe(getattr(ops, read)(*how[read]))  # noqa: E731
    (found,) = ANY[run](build, [given, STREAMS[1]], 20.0)
    assert found.time_s == 1.0
    assert isinstance(found.value, QueryRefused)
