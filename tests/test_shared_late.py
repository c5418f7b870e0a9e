"""What comes of a shared part that is made at a selector's first call does not follow from what was called before."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from copy import copy
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any

import pytest
from lanes import every_of
from test_shared_outside import MAKERS as OUTSIDE
from test_shared_outside import QUEUEING, STREAMS

import reliable_rx as rx
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Events, Fail
from reliable_rx.errors import QueryRefused
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.marbles import ERROR
from reliable_rx.testing.virtual_time import run_plain

Make = Callable[[], Any]
Selector = Callable[..., Any]
GLOBAL: Any = None
TABLE: dict[str, Any] = {}


class Lazy:
    """What makes a shared part for the first who asks, and keeps it."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.part: Any = None

    @cached_property
    def cached(self) -> Any:
        return self.make()

    def read(self, value: Any = None) -> Any:
        if self.part is None:
            self.part = self.make()
        return self.part


def by_global(make: Make) -> Selector:
    global GLOBAL
    GLOBAL = None

    def selector(value: Any) -> Any:
        global GLOBAL
        GLOBAL = make() if GLOBAL is None else GLOBAL
        return GLOBAL

    return selector


def by_table(make: Make) -> Selector:
    TABLE.clear()
    return lambda value: TABLE.setdefault("part", None) or TABLE.__setitem__("part", make()) or TABLE["part"]


def by_cell(make: Make) -> Selector:
    part: Any = None

    def selector(value: Any) -> Any:
        nonlocal part
        part = make() if part is None else part
        return part

    return selector


def by_dict(make: Make) -> Selector:
    held: dict[str, Any] = {}

    def selector(value: Any) -> Any:
        if "part" not in held:
            held["part"] = make()
        return held["part"]

    return selector


def by_default(make: Make) -> Selector:
    def selector(value: Any, held: Any = []) -> Any:
        if not held:
            held.append(make())
        return held[0]

    selector.__defaults__ = ([],)
    return selector


def by_own_attribute(make: Make) -> Selector:
    def selector(value: Any) -> Any:
        if not hasattr(selector, "part"):
            selector.part = make()  # type: ignore[attr-defined]
        return selector.part  # type: ignore[attr-defined]

    return selector


def by_cache(make: Make) -> Selector:
    cached = lru_cache(make)
    return lambda value: cached()


LATE: dict[str, Callable[[Make], Selector]] = {
    "global": by_global,
    "table of a module": by_table,
    "cell": by_cell,
    "dict": by_dict,
    "default": by_default,
    "attribute of the function": by_own_attribute,
    "attribute": lambda make: Lazy(make).read,
    "attribute in a function": lambda make: (lambda lazy: lambda value: lazy.read().map(lambda x: x))(Lazy(make)),
    "cached property": lambda make: (lambda lazy: lambda value: lazy.cached)(Lazy(make)),
    "cache": by_cache,
    "partial": lambda make: partial(lambda lazy, value: lazy.read(), Lazy(make)),
}
FRESH: dict[str, Callable[[Make], Selector]] = {
    "fresh": lambda make: lambda value: make(),
    "fresh, read twice": lambda make: lambda value: (lambda part: part.merge(part.map(lambda x: -x)))(make()),
    "cached for each": lambda make: lru_cache(maxsize=None)(lambda value: make()),
    "early": lambda make: (lambda part: lambda value: part)(make()),
    "evaluated": lambda make: lambda value: eval("make()", {"make": make}),
    "executed": lambda make: lambda value: (lambda held: exec("part = make()", held) or held["part"])({"make": make}),
    "body of a class": lambda make: lambda value: type("Made", (), {"part": make()}).part,
    "copied": lambda make: lambda value: copy(make()),
    "in a context": lambda make: lambda value: copy_context().run(make),
}
FORMS = {**LATE, **FRESH}
MAKERS: dict[str, Callable[..., Any]] = {
    **OUTSIDE,
    "groups that ask at once": lambda ops, rx, m, f: m.pipe(
        ops.group_by(lambda x: x),
        ops.flat_map(lambda g: (lambda key: f(g).pipe(ops.map(lambda x: (key, x))))(g.key)),
    ),
}
ONCE = ("groups", "groups that ask for their key", "groups in groups")
"""Makers whose selectors are called at planning, so that what these keep can be known then: no such query fails."""
READS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda ops, part: part,
    "mapped": lambda ops, part: part.pipe(ops.map(lambda y: (y,))),
}


class Killed(HostedRun):
    """In a new process after every turn: the app begins as it did before, and the query goes on as it was stored."""

    def take(self, turn: Any) -> None:
        super().take(turn)
        try:
            copy_of(self.engine)
        except QueryRefused as refused:  # as an evaluator ends a query whose state cannot be stored
            HostedRun.take(self, Fail("query", refused, self.engine.clock))
        start_afresh()
        query = self.build(rx.operators, rx, *[rx.source(f"s{number}") for number in range(len(self.streams))])
        self.engine = copy_of(self.engine)
        self.declare(turn, query)

    def declare(self, turn: Any, query: Any) -> None: ...


class Stopped(Killed):
    """The same behind a clean stop: the query goes on as the app has declared it again."""

    def declare(self, turn: Any, query: Any) -> None:
        if type(turn) is Events and self.engine.standing["query"].status == "running":
            HostedRun.take(self, self.engine.creation("query", query, time=self.engine.clock))


def start_afresh() -> None:
    """Forget what a module has come to hold, as another process has."""
    global GLOBAL
    GLOBAL = None
    TABLE.clear()


RUNS: dict[str, type[HostedRun]] = {"once": HostedRun, "killed": Killed, "stopped": Stopped}
BEFORE: dict[str, Callable[[Any, Any], None]] = {
    "first": lambda query, selector: None,
    "planned": lambda query, selector: query.explain() and None,
    "called": lambda query, selector: selector(0) and None,
    "called at first": lambda query, selector: None,
}
"""What the app has done before it declares its query."""


def late(form: str, maker: str, read: str, before: str) -> Any:
    """Return what builds a query in which *maker* makes sequences of one sum that *form* makes late."""

    built: list[Any] = []

    def build(ops: Any, rx: Any, m: Any, n: Any) -> Any:
        selector = FORMS[form](lambda: n.pipe(ops.scan(lambda total, x: total + x, 0), ops.share()))
        query = {**MAKERS, **QUEUEING}[maker](ops, rx, m, lambda value: READS[read](ops, selector(value)))
        BEFORE[before](query, selector)
        if before == "called at first" and not built:
            selector(0)
        built.append(query)
        return query

    return build


WAYS = [*product(FORMS, {**MAKERS, **QUEUEING}, RUNS, READS, BEFORE)]


@pytest.mark.parametrize(("form", "maker", "run", "read", "before"), every_of(179, WAYS, nightly=40))
def test_what_was_called_before_changes_nothing(form: str, maker: str, run: str, read: str, before: str) -> None:
    """What comes is what `reactivex` gives, or the query ends and says why: no value is another one."""
    start_afresh()
    build = late(form, maker, read, before)
    plainly = late(form, maker, read, "first" if before == "planned" else before)
    found = RUNS[run](build, STREAMS, 20.0, crash=False).play()
    start_afresh()
    given = run_plain(plainly, STREAMS, 20.0)
    start_afresh()
    if (
        (form in LATE or form == "cached for each")
        and found
        and found[-1].kind == ERROR
        and found[-1].value is not None
    ):
        assert type(found[-1].value).__name__ == "QueryRefused", found[-1]
        del found[-1]
        given = given[: len(found)]
    assert found == given
