"""Functions that ask a clock, chance or a service are told of when their query is created, and no others."""

from __future__ import annotations

import datetime as dt
import random
import secrets
import sys
import time
import urllib.request
import uuid
from datetime import date, datetime
from functools import partial
from random import choice
from typing import Any
from uuid import uuid4 as fresh

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.admission import mutations
from hosting.reports import observing

N: Any = rx.source("n")
SEEDED = random.Random(7)


class Stamp(datetime):
    """A class of dates of the user's own."""


def stamped(n: int) -> tuple[int, float]:
    return n, time.time()


def by_helper(n: int) -> Any:
    return stamped(n)


def by_import(n: int) -> Any:
    import time as clock
    from uuid import uuid1 as mine

    return clock.time_ns(), mine, n


def by_submodule(n: int) -> Any:
    import urllib.request

    return urllib.request.urlopen(str(n))


def closing_over(ask: Any) -> Any:
    return lambda n: (n, ask())


class Enricher:
    def __call__(self, n: int) -> Any:
        return n, datetime.now()


def keyed(n: int, salt: Any) -> Any:
    return [salt, secrets.token_hex(4), n]


ASK: dict[str, Any] = {
    "time.time": N.map(stamped),
    "a helper's": N.map(by_helper),
    "imported within": N.map(by_import),
    "datetime.now": N.map(lambda n: (n, datetime.now())),
    "of its module": N.map(lambda n: (n, dt.datetime.utcnow())),
    "date.today": N.filter(lambda n: date.today().day > n),
    "a class of dates": N.map(lambda n: Stamp.now()),
    "random": N.filter(lambda n: random.random() < 0.5),
    "by name": N.map(lambda n: choice([n, n + 1])),
    "uuid": N.map(lambda n: {"id": str(fresh()), "n": n}),
    "of its module, too": N.map(lambda n: uuid.uuid4().hex),
    "closed over": N.map(closing_over(time.time)),
    "a function in it": N.map(lambda n: [time.time() for _ in range(n)]),
    "an object": N.map(Enricher()),
    "partial": N.map(partial(keyed, salt=1)),
    "a key": N.group_by(lambda n: random.randint(0, 3)).flat_map(lambda g: g.count()),
    "an accumulator": N.scan(lambda total, n: total + n * random.random(), 0),
    "a service": N.map(lambda n: urllib.request.urlopen(f"http://127.0.0.1/{n}").read()),
    "in a group": N.group_by(lambda n: n).flat_map(lambda g: g.map(lambda n: time.time())),
    "given itself": N.to_list().map(choice),
    "a submodule imported within": N.map(by_submodule),
    "made for each": N.flat_map(lambda n: rx.of(n) if random.random() < 2 else rx.empty()),
}


async def called(n: int) -> float:
    return time.time()


class Day(date):
    @classmethod
    def now(cls, n: int) -> Day:
        return cls(2020, 1, n)


def shadowed(n: int) -> Any:
    def within() -> Any:
        import time as clock

        return clock

    clock = Day
    return within and clock.now(n)


DO_NOT: dict[str, Any] = {
    "a call in a group": N.group_by(lambda n: n).flat_map(lambda g: g.map_async(called)),
    "a call for each": N.flat_map(lambda n: rx.of(n).map_async(called)),
    "an effect in a group": N.group_by(lambda n: n).flat_map(lambda g: g.do_action(lambda n: time.time())),
    "an effect for each": N.flat_map(lambda n: rx.of(n).do_action(lambda n: time.time())),
    "a name of one's own": N.map(Day.now),
    "the name of another's import": N.map(shadowed),
    "an effect": N.do_action(lambda n: time.time()),
    "an end": N.finally_action(lambda: time.time()),
    "a call": N.map_async(called),
    "a date made": N.map(lambda n: datetime.fromtimestamp(n)),
    "measured": N.map(lambda n: (time.perf_counter(), n)[1]),
    "formatted": N.map(lambda n: time.strftime("%H", time.gmtime(n))),
    "seeded": N.map(lambda n: random.Random(n).random()),
    "a generator of one's own": N.map(lambda n: SEEDED.random() * 0 + n),
    "a name of an event": N.map(lambda event: event.time.now() if event is None else event),
    "a parameter": N.map(lambda time: time.time if time is None else time),
    "uuid5": N.map(lambda n: uuid.uuid5(uuid.NAMESPACE_DNS, str(n))),
}


def told(query: Any) -> list[str]:
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([]))
        evaluator.create("q", query)
        evaluator.start()
        return [each.message for each in evaluator.incidents.open() if each.kind == "impurity"]


@pytest.mark.parametrize("kind", ASK)
def test_what_asks_is_told(kind: str) -> None:
    """By operator, call, file, line and remedy."""
    (message,) = told(ASK[kind])
    assert "test_impurities.py, line" in message or kind == "given itself"
    assert "; " in message and "replay" in message, message


@pytest.mark.parametrize("kind", DO_NOT)
def test_what_a_replay_repeats_is_not_told(kind: str) -> None:
    """Nor what is there for its effects, nor what only seems to ask by its name."""
    assert told(DO_NOT[kind]) == []


def test_an_edit_ends_it() -> None:
    """One warning at the creation; an edit resolves it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", N.map(stamped))
        evaluator.run()
        (found,) = [each for each in evaluator.statistics().incidents if each.kind == "impurity"]
        assert (found.subject, found.level, found.count) == ("q", "warning", 1)
        assert "the mapper of /map asks a clock (time.time in " in found.message
        evaluator.create("q", N.timestamp())
        assert not [each for each in evaluator.statistics().incidents if each.kind == "impurity"]


@pytest.mark.parametrize("stands", [None, object()])
def test_a_module_that_cannot_be_imported_is_none(monkeypatch: pytest.MonkeyPatch, stands: Any) -> None:
    """Whatever keeps one from being imported keeps nothing else from being told."""
    for name in ("requests", "random"):
        monkeypatch.setitem(sys.modules, name, stands)
    (message,) = told(N.map(stamped))
    assert "time.time" in message


def test_a_look_that_fails_keeps_no_other_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes elements is told where what asks cannot be looked for."""
    monkeypatch.setattr(observing, "RAISES", False)
    monkeypatch.setattr(mutations, "impurities", lambda plan: 1 // 0)
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([]))
        evaluator.create("q", N.map(lambda row: row.update(a=1) or row))
        evaluator.start()
        assert {each.kind for each in evaluator.incidents.open()} == {"look", "mutation"}
