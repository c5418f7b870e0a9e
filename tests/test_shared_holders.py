"""A shared part that was made before its query is one for all, or refused at the first event, whatever holds it."""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from itertools import cycle, product
from logging import LoggerAdapter, getLogger
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from threading import local
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import pytest
from conditions import until
from lanes import every_of
from test_shared_late import READS, RUNS
from test_shared_outside import MAKERS as SELECTING
from test_shared_outside import QUEUEING, STREAMS

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.class_of import is_a
from reliable_rx.errors import QueryRefused
from reliable_rx.testing.marbles import ERROR, Timed
from reliable_rx.testing.virtual_time import run_plain

Selector = Callable[..., Any]
FOLLOWED: dict[str, Callable[[Any], Selector]] = {
    "deque": lambda s: (lambda held: lambda value: held[0])(deque([s])),
    "set": lambda s: (lambda held: lambda value: next(iter(held)))({s}),
    "keys": lambda s: (lambda held: lambda value: next(iter(held)))({s: 1}),
    "keys of a counter": lambda s: (lambda held: lambda value: next(iter(held)))(Counter([s])),
    "namespace": lambda s: (lambda held: lambda value: held.part)(SimpleNamespace(part=s)),
    "proxy": lambda s: (lambda held: lambda value: held["part"])(MappingProxyType({"part": s})),
    "ordered dict": lambda s: (lambda held: lambda value: held["part"])(OrderedDict(part=s)),
    "default dict": lambda s: (lambda held: lambda value: held["part"])(defaultdict(list, part=s)),
    "values": lambda s: (lambda held: lambda value: next(iter(held)))({1: s}.values()),
    "items": lambda s: (lambda held: lambda value: next(iter(held))[1])({1: s}.items()),
    "chain map": lambda s: (lambda held: lambda value: held["part"])(ChainMap({}, {"part": s})),
    "user dict": lambda s: (lambda held: lambda value: held["part"])(UserDict(part=s)),
    "user list": lambda s: (lambda held: lambda value: held[0])(UserList([s])),
    "subclass of a dict": lambda s: (lambda held: lambda value: held["part"])(Parts(part=s)),
    "attribute of a foreign object": lambda s: (lambda held: lambda value: held.part)(put(getLogger("parts"), part=s)),
    "method of a dict": lambda s: (lambda held: lambda value: held(0))({0: s}.__getitem__),
    "get of a dict": lambda s: (lambda held: lambda value: held(0))({0: s}.get),
    "method of a list": lambda s: (lambda held: lambda value: held(0))([s].__getitem__),
    "within each other": lambda s: (lambda held: lambda value: held.all[0]["part"])(
        SimpleNamespace(all=deque([MappingProxyType({"part": s})]))
    ),
}
"""Ordinary holders, in which a shared part is found: no such query is refused."""


class Parts(dict[str, Any]):
    """A mapping of the user's own."""


class Hidden:
    """What hands out a part that it has under a name which stands nowhere."""

    def __init__(self, part: Any) -> None:
        vars(self)[hidden()] = part

    def __getattr__(self, name: str) -> Any:
        if name != "anything":
            raise AttributeError(name)
        return vars(self)[hidden()]


def hidden() -> str:
    return "-".join(("a", "part"))


def put(holder: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(holder, name, value)
    return holder


def in_a_module(part: Any) -> Selector:
    """Return what finds *part* in a module, as one finds a plugin."""
    sys.modules["made_parts"] = put(ModuleType("made_parts"), **{hidden(): part})
    return lambda value: vars(sys.modules["made_" + "parts"])[hidden()]


PLACE: Any = None


def globally(holder: Any, read: Any) -> Any:
    """Return what reads a global *holder*, which is stored by its name."""
    global PLACE
    PLACE = holder
    return read


KEPT: list[Any] = []
"""Keeps alive what a weak container has."""


def kept(part: Any) -> Any:
    KEPT[:] = [part]
    return part


def queue_of(part: Any) -> SimpleQueue[Any]:
    held = SimpleQueue[Any]()
    held.put(part)
    return held


def put_back(part: Any) -> Any:
    PLACE.put(part)
    return part


OTHERS: dict[str, Callable[[Any], Selector]] = {
    "dict of many": lambda s: (lambda held: lambda value: held[0])({**dict.fromkeys(range(1, 2000)), 0: s}),
    "list of many": lambda s: (lambda held: lambda value: held[0])([s, *range(2000)]),
    "set of several": lambda s: (lambda held: lambda value: next(part for at, part in held if at == 0))(
        {(at, s if at == 0 else s.pipe(ops.map(lambda x: -x), ops.share())) for at in range(5)}
    ),
    "module": in_a_module,
    "global by a computed name": lambda s: put_globally(s),
    "queue": lambda s: globally(queue_of(s), lambda value: put_back(PLACE.get())),
    "hidden attribute": lambda s: (lambda held: lambda value: held.anything)(Hidden(s)),
    "hidden name of a namespace": lambda s: (lambda held: lambda value: getattr(held, hidden()))(
        SimpleNamespace(**{hidden(): s})
    ),
    "item getter": lambda s: (lambda get, held: lambda value: get(held))(itemgetter(0), [s]),
    "cycle": lambda s: (lambda held: lambda value: next(held))(cycle([s])),
    "generator": lambda s: globally((s for _ in iter(int, 1)), lambda value: next(PLACE)),
    "weak dict": lambda s: globally(WeakValueDictionary({"part": kept(s)}), lambda value: PLACE["part"]),
    "weak set": lambda s: globally(WeakSet([kept(s)]), lambda value: next(iter(PLACE))),
    "local of a thread": lambda s: globally(put(local(), part=s), lambda value: PLACE.part),
    "cache": lambda s: (lambda held: lambda value: held(0))(lru_cache(lambda key: s)),
    "what a library holds": lambda s: (lambda held: lambda value: held.extra["part"])(
        LoggerAdapter(getLogger("parts"), {"part": s})
    ),
    "by a place": lambda s: (lambda held, at: lambda value: held[at[0]])([s], array("i", [0])),
}
"""Holders of which some are not followed."""


def put_globally(part: Any) -> Selector:
    globals()[hidden()] = part
    return lambda value: globals()[hidden()]


HOLDERS = {**FOLLOWED, **OTHERS}
MAKERS = {**SELECTING, **QUEUEING}


def held(holder: str, maker: str, read: str) -> Any:
    """Return what builds a query in which *maker* makes sequences of one sum that *holder* has."""

    def build(ops: Any, rx: Any, m: Any, n: Any) -> Any:
        part = n.pipe(ops.scan(lambda total, x: total + x, 0), ops.share())
        selector = HOLDERS[holder](part)
        return MAKERS[maker](ops, rx, m, lambda value: READS[read](ops, selector(value)))

    return build


def played(run: str, build: Any) -> list[Timed]:
    return RUNS[run](build, STREAMS, 20.0, crash=False).play()


@pytest.mark.parametrize(("holder", "maker", "read"), every_of(61, product(HOLDERS, MAKERS, READS), nightly=10))
def test_what_holds_a_part_changes_no_value(holder: str, maker: str, read: str) -> None:
    """What comes is what `reactivex` gives, or nothing but an error that says why; the same behind kills and stops.

    What an ordinary holder has is found, so that no such query is refused.
    """
    build = held(holder, maker, read)
    given = run_plain(build, STREAMS, 20.0)
    found = {run: played(run, build) for run in RUNS}
    if holder in FOLLOWED or all(each == given for each in found.values()):
        assert found == dict.fromkeys(RUNS, given)
    else:
        for each in found.values():
            assert [notification.kind for notification in each] == [ERROR], (found, given)
            assert is_a(each[0].value, QueryRefused)
            assert "was made outside of the query" in str(each[0].value)
        assert len({each[0].time_s for each in found.values()}) == 1


def kept_while_planned(ops: Any, rx: Any, m: Any, n: Any) -> Any:
    """Return a query whose outer selector puts a part where nothing looks, and whose inner one reads it."""
    globally(SimpleQueue[Any](), None)

    def outer(group: Any) -> Any:
        if PLACE.empty():
            PLACE.put(n.pipe(ops.share()))
        return group.pipe(ops.flat_map(lambda value: put_back(PLACE.get())))

    return m.pipe(ops.group_by(lambda x: x), ops.flat_map(outer))


def imported_late(ops: Any, rx: Any, m: Any, n: Any) -> Any:
    """Return a query whose selector imports what has the part."""
    sys.modules.pop("parts_of_a_module", None)
    return m.pipe(ops.flat_map(lambda value: import_module("parts_of_a_module").MANY[0]))


MODULE = """
import reliable_rx as rx
from reliable_rx import operators as ops
MANY = {number: rx.source("s1").pipe(ops.share()) for number in range(2000)}
"""


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("build", [kept_while_planned, imported_late])
def test_what_no_event_has_made_is_refused_at_the_first(
    build: Any, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that planning has made, here or when a store is opened, or an import, is not the element's own."""
    (tmp_path / "parts_of_a_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = played(run, build)
    assert (found.time_s, found.kind) == (1.0, ERROR)
    assert "was made outside of the query" in str(found.value)


SOURCE = rx.source("n")
MANY = {number: SOURCE.pipe(ops.share()) for number in range(2000)}


async def made_anew(number: int) -> Any:
    return SOURCE.pipe(ops.share())


async def made_before(number: int) -> Any:
    return MANY[number]


async def in_a_group(make: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(make)
    return task.result()


async def in_a_gathering(make: Any) -> Any:
    return (await asyncio.gather(make))[0]


async def in_a_thread(make: Any) -> Any:
    return await asyncio.to_thread(asyncio.run, make)


ASKED: dict[str, Callable[[Any], Any]] = {
    "itself": lambda make: make,
    "in a task": lambda make: asyncio.create_task(make),
    "in a group": in_a_group,
    "gathered": in_a_gathering,
    "with a limit": lambda make: asyncio.wait_for(make, 60),
    "shielded": asyncio.shield,
    "in a thread": in_a_thread,
}
"""Ordinary ways in which a coroutine waits for another."""


def asking(way: str, coroutine: Any) -> Any:
    async def call(number: int) -> Any:
        return await ASKED[way](coroutine(number))

    return call


@pytest.mark.parametrize("way", ASKED)
@pytest.mark.parametrize(("coroutine", "status"), [(made_anew, "running"), (made_before, "failed")])
def test_what_a_coroutine_makes_is_its_own(coroutine: Any, status: str, way: str) -> None:
    """An answer that is a query is read with the parts that the coroutine has made, and refused with others."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("m", ListSource([1], follow=True))
    evaluator.source("n", ListSource([], follow=True))
    evaluator.create("query", rx.source("m").pipe(ops.map_async(asking(way, coroutine)), ops.merge_all()))
    evaluator.start()
    query = evaluator.engine.standing["query"]
    until(lambda: not evaluator.step() and ("n" in evaluator.engine.routes or query.status == "failed"))
    evaluator.close()
    assert query.status == status
