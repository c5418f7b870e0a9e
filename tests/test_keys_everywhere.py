"""The key of a group around, read by every function that a program can write, whenever that may be called.

Three tables are drawn against each other: what is called (each function parameter of each operator and creation
function), when (at a value, a subscription, one more, a completion, an error, a timer, an event of another source, a
subscription to what is shared), and in which sequences (a group, a group of a group, a window or a value of a group).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from copy import copy
from functools import cache, lru_cache, partial, singledispatch
from itertools import product
from typing import Any

import pytest
from conditions import until
from hypothesis import example, given
from hypothesis import strategies as st
from key_cases import CALLED, WHEN, WITHIN, Key, Within
from lanes import crossed, every_of, examples
from test_function_arguments import FUNCTIONS

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import QueryRefused
from reliable_rx import operators as ops
from reliable_rx.testing import HOSTED, RUNNERS, Timed, parse_marbles
from reliable_rx.testing.oracle import compare
from reliable_rx.testing.virtual_time import run_plain

PLAYED = {
    "ends": ("-1-2-4-1-3-2-|", "--5--1---2-|"),
    "fails": ("-2-1-1-2-3-#", "---1-1--#"),
    "goes on": ("-1-1-2-3-5", "--1----4-"),
}


def draw(called: str, when: str, within: str, key: Key | None = None) -> Callable[..., Any]:
    """Return what is drawn as a program; with *key* that is asked, and the group is not."""

    def build(o: Any, r: Any, s: Any, t: Any) -> Any:
        return WITHIN[within](
            o, r, s, lambda each, k: WHEN[when](o, r, each, t, lambda seen: CALLED[called](o, r, seen, key or k))
        )

    return build


def played_as(name: str) -> list[list[Timed]]:
    """Return the streams, the second of them a little later, so that no two events happen at once."""
    first, second = map(parse_marbles, PLAYED[name])
    return [first, [each._replace(time_s=each.time_s + 0.37) for each in second]]


def check(called: str, when: str, within: str, played: str) -> None:
    """Compare with plain RxPY what each host makes of one draw.

    What is otherwise without keys as well (an index that RxPY goes on counting when it is subscribed to again, an
    order of what happens at once) is for the tests of those operators.
    """
    streams, build = played_as(played), draw(called, when, within)
    for who in HOSTED:
        if not agrees(who, build, streams):
            known = [draw(called, when, within, lambda key=key: key) for key in (0, 1)]
            if all(agrees(who, each, streams) for each in known):
                name = f"{called} {when} in a {within}, {who}"
                compare(name, streams, run_plain(build, streams, 20.0), RUNNERS[who](build, streams, 20.0))


def agrees(who: str, build: Callable[..., Any], streams: list[list[Timed]]) -> bool:
    try:
        compare(who, streams, run_plain(build, streams, 20.0), RUNNERS[who](build, streams, 20.0))
    except AssertionError:
        return False
    return True


BUFFER_WHEN = ("buffer_when.closing_mapper", "at its values", "group", "ends")
OF_ANOTHER = ("sum.key_mapper", "of another source", "window of a group", "ends")


@given(*map(st.sampled_from, (list(CALLED), list(WHEN), list(WITHIN), list(PLAYED))))
@example(*BUFFER_WHEN)
@example("delay_with_mapper.subscription_delay", "at its values", "group", "goes on")
@example("defer.factory", "paired with it", "group", "ends")
@example("defer.factory", "compared with it", "group", "fails")
@example(*OF_ANOTHER)
@example("window_when.closing_mapper", "of a failure", "group", "goes on")
@examples(60)
def test_the_key_is_known_wherever_it_is_read(called: str, when: str, within: str, played: str) -> None:
    """Hosted, recovered after every turn, and with a clock that leaps: what plain RxPY makes of it."""
    check(called, when, within, played)


NO_HOST = "it cannot be hosted"
ELSEWHERE = {
    "finally_action.action": "test_the_key_of_what_is_let_go_of",
    "map_async.coroutine": "test_the_key_in_a_call",
    "from_callable.supplier": NO_HOST,
    "group_by.subject_mapper": NO_HOST,
    "group_by_until.subject_mapper": NO_HOST,
    "multicast.subject_factory": "it only says which hub it is",
    "multicast.mapper": "publish.mapper",
    "to_future.future_ctor": NO_HOST,
    "join_within.key": "RxPY has none; it is called for each value, as that of distinct",
    "join_within.other_key": "the same",
    "tap.on_next": "another name of do_action",
    "tap.on_error": "another name of do_action",
    "tap.on_completed": "another name of do_action",
    "where_key.key_mapper": "it routes events of a source, before there are groups",
}


def test_every_function_is_called() -> None:
    """A new operator with a function must be put into the table, or it is said why not."""
    assert {str(each) for each in FUNCTIONS} == {name for name in CALLED if " " not in name} | ELSEWHERE.keys()


ENDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "group by group": lambda o, r, s: s,
    "all at once": lambda o, r, s: s.pipe(o.take(3)),
    "by another": lambda o, r, s: s.pipe(o.take_until(r.timer(6.5))),
    "by an error": lambda o, r, s: s.pipe(o.map(lambda v: 1 // (v[1] - 3))),
}
RELEASED: list[int] = []


@pytest.mark.parametrize("within, end, played", crossed(WITHIN, ENDS, PLAYED))
def test_the_key_of_what_is_let_go_of(end: str, within: str, played: str) -> None:
    """A final action knows whose it is, also where all groups are let go of while one of them is at work."""

    def build(o: Any, r: Any, s: Any, t: Any) -> Any:
        def released(each: Any, k: Key) -> Any:
            return each.pipe(o.map(lambda v: (k(), v)), o.finally_action(lambda: RELEASED.append(k())))

        return ENDS[end](o, r, WITHIN[within](o, r, s, released))

    RELEASED.clear()
    run_plain(build, played_as(played), 20.0)
    expected = RELEASED.copy()
    RELEASED.clear()
    RUNNERS["hosted"](build, played_as(played), 20.0)
    assert sorted(RELEASED) == sorted(expected)


READS_LATER: dict[str, Callable[[Any, Callable[[Any, Any], Any]], Any]] = {
    "group": lambda g, ask: g.pipe(ops.map_async(partial(ask, lambda: g.key))),
    "of another coroutine": lambda g, ask: g.pipe(ops.map_async(partial(both, partial(ask, lambda: g.key)))),
    "group of a group": lambda g, ask: g.pipe(
        ops.group_by(lambda v: v % 2),
        ops.flat_map(lambda h: h.pipe(ops.map_async(partial(ask, lambda: (g.key, h.key))))),
    ),
    "window of a group": lambda g, ask: g.pipe(
        ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.map_async(partial(ask, lambda: g.key))))
    ),
    "value of a group": lambda g, ask: g.pipe(
        ops.flat_map(lambda v: rx.of(v).pipe(ops.map_async(partial(ask, lambda: g.key))))
    ),
}


async def ask_twice(key: Callable[[], Any], value: int) -> Any:
    """Read the key before and after others are at work."""
    before = key()
    for _ in range(value % 4):
        await asyncio.sleep(0)
    return (before, await asyncio.to_thread(key), key(), value)


async def both(ask: Callable[[Any], Any], value: int) -> Any:
    return await asyncio.gather(ask(value), ask(value))


def is_over(evaluator: QueryEvaluator) -> bool:
    evaluator.step()
    return evaluator.query("q").status != "running"


@pytest.mark.parametrize("within", READS_LATER)
def test_the_key_in_a_call(within: str) -> None:
    """A coroutine, which goes on while other groups are at work and is begun again after a kill, knows whose it is."""

    def query(source: Any) -> Any:
        grouped = source.pipe(ops.group_by(lambda v: v % 3))
        return grouped.pipe(ops.flat_map(lambda g: READS_LATER[within](g, ask_twice)))

    expected = query(rx.of(*range(18))).to_list().run()
    store: Any = MemoryStore()
    for steps in (1, 2, 5, 0):
        with QueryEvaluator(store, background=False, batch_events_max=4, checkpoint_interval_s=1e9) as evaluator:
            evaluator.source("n", ListSource(list(range(18))))
            evaluator.create("q", query(rx.source("n")))
            for _ in range(steps):
                evaluator.step()
            if steps:
                evaluator.abandon()
            else:
                until(partial(is_over, evaluator))
                assert not evaluator.query("q").error
                found = [value for portion in evaluator.stream("q").read(0, 100) for value in portion.values]
        store = store.reopen()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


class Labels:
    """A callable that holds a group."""

    def __init__(self, group: Any) -> None:
        self.group = group

    def __call__(self, value: Any) -> Any:
        return (self.group.key, value)

    def label(self, value: Any) -> Any:
        return (self.group.key, value)


class Counted:
    """One for each group: it says how many values it has seen, and remembers the key."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.keys: list[Any] = []

    def __call__(self, value: Any) -> Any:
        self.keys = self.keys or [self.group.key]
        return (self.keys, value)


class Slotted:
    __slots__ = ("group",)

    def __init__(self, group: Any) -> None:
        self.group = group

    def __call__(self, value: Any) -> Any:
        return (self.group.key, value)


def made_here(group: Any) -> Any:
    class Here:
        def __call__(self, value: Any) -> Any:
            return (group.key, value)

    return Here()


class Odd(type):
    """A class of classes that cannot be hashed."""

    def __eq__(cls, other: object) -> bool:
        return cls is other

    __hash__ = None  # type: ignore[assignment]


def made_by_an_odd_class(group: Any) -> Any:
    class Here(metaclass=Odd):
        def read(self, value: Any) -> Any:
            return (group.key, value)

    return Here().read


def found_in(held: Any) -> Callable[[Any], Any]:
    return lambda value: (held["groups"][0].key, value)


def nested(group: Any) -> Callable[[Any], Any]:
    def read(held: Any) -> Any:
        while isinstance(held, list):
            (held,) = held
        return held.key

    held: Any = group
    for _ in range(20):
        held = [held]
    return lambda value: (read(held), value)


@cache
def label(group: Any) -> str:
    return f"{group.key}"


@lru_cache(10)
def pair(group: Any, value: Any) -> Any:
    return (group.key, value)


@singledispatch
def told(group: Any) -> Any:
    return group.key


LABELS: dict[Any, Any] = {}


def by_group(group: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if group not in LABELS:
            LABELS[group] = group.key
        return (LABELS[group], value)

    return read


def remembers(group: Any) -> Callable[[Any], Any]:
    known: dict[Any, Any] = {}

    def read(value: Any) -> Any:
        return (known.setdefault(value // 3, group.key), value)

    return read


def remembers_apart(group: Any) -> Callable[[Any], Any]:
    known: list[Any] = []

    def first(key: Any) -> Any:
        known.append(key)
        return known[0]

    return lambda value: (first(group.key), value)


def assigns(group: Any) -> Callable[[Any], Any]:
    known: Any = None

    def key() -> Any:
        nonlocal known
        known = known if known is not None else group.key
        return known

    return lambda value: (key(), value)


def assigns_later(group: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not hasattr(read, "known"):
            read.known = group.key  # type: ignore[attr-defined]
        return (read.known, value)  # type: ignore[attr-defined]

    return read


def by_default(group: Any) -> Callable[[Any], Any]:
    def read(value: Any, known: Any = {}) -> Any:
        return (known.setdefault("key", group.key), value)

    return read


def by_word(group: Any) -> Callable[[Any], Any]:
    def read(value: Any, *, known: Any = {}) -> Any:
        return (known.setdefault("key", group.key), value)

    return read


def beside_in_a_tuple(group: Any) -> Callable[[Any], Any]:
    pair: Any = (1, {})
    return lambda value: (pair[1].setdefault("key", group.key), value)


def beside_bound(group: Any) -> Callable[[Any], Any]:
    known = dict[str, Any]().setdefault
    return lambda value: (known("key", group.key), value)


def in_a_local_class(group: Any) -> Callable[[Any], Any]:
    class Memo:
        known: Any = None

    def read(value: Any) -> Any:
        Memo.known = Memo.known if Memo.known is not None else group.key
        return (Memo.known, value)

    return read


def in_the_dict_of(beside: Any) -> Callable[[Any], Callable[[Any], Any]]:
    """Remember a key in the attributes of what *beside* makes for each selector, which no assignment shows."""

    def selector(group: Any) -> Callable[[Any], Any]:
        made = beside()
        return lambda value: (made.__dict__.setdefault("key", group.key), value)

    return selector


def in_the_attributes_of(beside: Any) -> Callable[[Any], Callable[[Any], Any]]:
    def selector(group: Any) -> Callable[[Any], Any]:
        made = beside()
        return lambda value: (vars(made).setdefault("key", group.key), value)

    return selector


def set_by_name(group: Any) -> Callable[[Any], Any]:
    made: Any = function_beside()

    def read(value: Any) -> Any:
        if not hasattr(made, "key"):
            setattr(made, "key", group.key)
        return (made.key, value)

    return read


def in_defaults_beside(group: Any) -> Callable[[Any], Any]:
    made: Any = function_beside()

    def read(value: Any) -> Any:
        made.__kwdefaults__.setdefault("key", group.key)
        return (made(), value)

    return read


def function_beside() -> Any:
    return lambda *, key=None: key


def partial_beside() -> Any:
    return partial(int)


class Memo:
    """Answers with the first that it was asked for."""

    def first(self, key: Any) -> Any:
        self.__dict__.setdefault("known", key)
        return self.known  # type: ignore[attr-defined]


def by_an_object(group: Any) -> Callable[[Any], Any]:
    first = Memo().first
    return lambda value: (first(group.key), value)


def within(group: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        return [label(each) for each in [group]]

    return read


def in_a_class(group: Any) -> Callable[[Any], Any]:
    kind = type("Kind", (), {"group": group})
    return lambda value: (kind.group.key, value)  # type: ignore[attr-defined]


HOLDS: dict[str, Callable[[Any], Any]] = {
    "an object": Labels,
    "a method": lambda g: Labels(g).label,
    "slots": Slotted,
    "a class of its own": made_here,
    "an odd class of its own": made_by_an_odd_class,
    "a dict": lambda g: found_in({"groups": [g]}),
    "lists in lists": nested,
    "an argument": lambda g: partial(lambda group, value: (group.key, value), g),
    "a default": lambda g: lambda value, group=g: (group.key, value),
    "a cache": lambda g: cache(lambda value: (g.key, value // 3)),
    "a cache of nothing": lambda g: partial(lambda key, value: (key(), value), cache(lambda: g.key)),
    "an object with a state": Counted,
    "a cached function": lambda g: lambda value: (label(g), value),
    "a cached function of two": lambda g: lambda value: pair(g, value // 3),
    "a function of its kind": lambda g: lambda value: (told(g), value),
    "a dict of the module": by_group,
    "a dict beside": remembers,
    "a list apart": remembers_apart,
    "a variable": assigns,
    "an attribute of its own": assigns_later,
    "a default that changes": by_default,
    "a named default": by_word,
    "a dict in a tuple": beside_in_a_tuple,
    "a method of a dict": beside_bound,
    "a local class": in_a_local_class,
    "an object beside": by_an_object,
    "the dict of a function beside": in_the_dict_of(function_beside),
    "the dict of a partial beside": in_the_dict_of(partial_beside),
    "the attributes of a function beside": in_the_attributes_of(function_beside),
    "the attributes of a partial beside": in_the_attributes_of(partial_beside),
    "an attribute that is set by its name": set_by_name,
    "defaults of a function beside": in_defaults_beside,
    "arguments that change": lambda g: partial(lambda known, value: (known.setdefault("key", g.key), value), {}),
    "within a function": within,
    "a class made of it": in_a_class,
    "a copy": lambda g: lambda value: (copy(g).key, value),
    "its hash": lambda g: lambda value: ({g: g.key}[g], value),
    "much else": lambda g: partial(lambda held, value: (held[-1].key, value), [*([n] for n in range(5000)), g]),
}


PLACES: dict[str, Within] = {
    **WITHIN,
    "what a group publishes": lambda o, r, s, f: s.pipe(
        o.group_by(lambda v: v % 2), o.flat_map(lambda g: g.pipe(o.publish(lambda p: f(p, lambda: g.key))))
    ),
}


class Keyed:
    """What has a key: a group of groups has one of both."""

    def __init__(self, read: Key) -> None:
        self.read = read

    @property
    def key(self) -> int:
        return self.read()


@pytest.mark.parametrize("way, place", every_of(39, product(HOLDS, PLACES), commits=13))
def test_however_a_function_holds_its_group(way: str, place: str) -> None:
    """The key is known to whatever object is called, and what keeps something has one of its own in each group."""

    def build(o: Any, r: Any, s: Any, t: Any) -> Any:
        if place == "group":
            return s.pipe(o.group_by(lambda v: v % 2), o.flat_map(lambda g: g.pipe(o.map(HOLDS[way](g)))))
        return PLACES[place](o, r, s, lambda each, k: each.pipe(o.map(HOLDS[way](Keyed(k)))))

    streams = played_as("ends")
    for who in HOSTED:
        compare(who, streams, run_plain(build, streams, 20.0), RUNNERS[who](build, streams, 20.0))


def test_a_key_outside_of_its_group_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that finds a group where its selector has left it fails the query with what to do, and no riddle."""
    monkeypatch.setattr(logging.root, "left", [], raising=False)

    def build(o: Any, r: Any, s: Any, t: Any) -> Any:
        def select(group: Any) -> Any:
            logging.root.left.append(group)  # type: ignore[attr-defined]
            return group.pipe(o.count())

        grouped = s.pipe(o.group_by(lambda v: v % 2), o.flat_map(select))
        return grouped.pipe(o.map(lambda v: logging.root.left[0].key))  # type: ignore[attr-defined]

    *_, last = RUNNERS["hosted"](build, played_as("ends"), 20.0)
    assert isinstance(last.value, QueryRefused)
    assert "outside its own sub-query; emit its key with the value" in str(last.value)
