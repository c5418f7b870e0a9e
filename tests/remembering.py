"""Functions that remember something outside of the state of their query, and functions that do not.

Cases of `test_memories`, run under each Python that is here; it needs nothing that is not in the packages.
"""

from __future__ import annotations

import json
import operator
import sys
from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import count as count_from
from typing import Any

import reliable_rx as rx
from reliable_rx.functions.memories import memories
from reliable_rx.runtime.plan import Plan

n = rx.source("n")
seen: set[Any] = set()
count = [0]
table: dict[Any, Any] = {}
counter: Counter[Any] = Counter()
last: deque[Any] = deque()
total = 0
lazy: Any = None
filled: Any = [1]
previous: Any = None
is_ready = False
RATES = {"EUR": 1.2}
OPS: dict[str, Any] = {"add": operator.add, "pop": operator.sub}
add = [1, 2]


class Detector:
    """Remembers in an attribute."""

    last: Any = None
    known: Any = ()

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def __call__(self, value: Any) -> bool:
        found, self.last = value != self.last, value
        return bool(found)

    def method(self, value: Any) -> bool:
        found, self.last = value != self.last, value
        return bool(found)

    def asks_first(self, value: Any) -> bool:
        if self.last is not None and value == self.last:
            return False
        self.last = value
        return True

    def guarded(self, value: Any) -> bool:
        if self.last is None:
            self.last = value
            return True
        found, self.last = value != self.last, value
        return bool(found)

    def first(self, value: Any) -> Any:
        if self.last is None:
            self.last = value
        return value - self.last

    def first_of_all(self, value: Any) -> Any:
        if self.last is not None:
            return value - self.last
        self.last = value
        return 0

    def first_made(self, value: Any) -> Any:
        row = {"value": value}
        found = float(row["value"])
        if not hasattr(self, "known_first"):
            self.known_first = (
                1,
                found,
            )
        return value - self.known_first[1]

    def first_of_two(self, value: Any) -> Any:
        if self.last is None:
            known, self.last = 1, value
            return known
        return value - self.last

    def first_twice(self, value: Any) -> Any:
        if self.last is None:
            found = self.last = value
            return found
        return value - self.last

    def first_or(self, value: Any) -> Any:
        self.last = self.last or value
        return value - self.last

    def within(self, value: Any) -> list[Any]:
        return [self.seen.add(each) or len(self.seen) for each in value]  # type: ignore[func-returns-value]

    def pure(self, value: Any) -> bool:
        return bool(value == self.last)


class Model:
    """Loads what it needs at its first call."""

    def __init__(self) -> None:
        self._weights: Any = None
        self._table: dict[Any, Any] = {}
        self._is_loaded = False

    def __call__(self, value: Any) -> Any:
        if self._weights is None:
            self._weights = [1, 2]
        return self._weights[0] * value

    def early(self, value: Any) -> Any:
        return self._got()[0] * value

    def _got(self) -> Any:
        if self._weights is not None:
            return self._weights
        self._weights = [1, 2]
        return self._weights

    def returning(self, value: Any) -> Any:
        if self._weights is not None:
            return self._weights[0] * value
        self._weights = [1, 2]
        return self._weights[0] * value

    def by_flag(self, value: Any) -> Any:
        if not self._is_loaded:
            self._table.update({1: 2})
            self._is_loaded = True
        return self._table.get(value)

    def by_name(self, value: Any) -> Any:
        if not hasattr(self, "_names"):
            self._names = [1, 2]
        return self._names[0] * value

    def with_or(self, value: Any) -> Any:
        self._weights = self._weights or [1, 2]
        return self._weights[0] * value

    def showing(self, value: Any) -> Any:
        if self._weights is None:
            json.dumps({"loads for": value})
            self._weights = [1, 2]
        return self._weights[0] * value

    def by_default(self, value: Any, path: Any = "weights") -> Any:
        name = path + ".json"
        if self._weights is None:
            self._weights = [name, 2]
        return self._weights[1] * value

    def from_path(self, path: Any, value: Any) -> Any:
        if self._weights is None:
            self._weights = [path, 2]
        return self._weights[1] * value


class Rows:
    """Makes a row for each that is asked for."""

    def get(self, key: Any) -> dict[str, Any]:
        return {"key": key}


state = Detector()
model = Model()
rows = Rows()


def is_new(value: Any) -> bool:
    if value in seen:
        return False
    seen.add(value)
    return True


def numbered(value: Any) -> Any:
    count[0] += 1
    return count[0], value


def tallied(value: Any) -> Any:
    table[value] = table.get(value, 0) + 1
    return table[value]


def counted(value: Any) -> Any:
    counter.update([value])
    return counter[value]


def latest(value: Any) -> Any:
    last.append(value)
    return last[0]


def latest_of_some(value: Any) -> Any:
    if last and last[-1] == value:
        return None
    last.append(value)
    return value


def added(value: Any) -> Any:
    global total
    total += value
    return total


def changed(value: Any) -> Any:
    global previous
    found, previous = value != previous, value
    return found


def first_global(value: Any) -> Any:
    global previous
    if previous is None:
        previous = value
    return value - previous


def first_in_a_list(value: Any) -> Any:
    if not last:
        last.append(value)
    return value - last[0]


def first_in_a_dict(value: Any) -> Any:
    if not table:
        table["first"] = value
    return value - table["first"]


def limited(value: Any) -> bool:
    global previous
    if previous is None or value - previous > 5:
        previous = value
        return True
    return False


def by_turns(value: Any) -> bool:
    global is_ready
    is_ready = not is_ready
    return is_ready


def highest(value: Any) -> Any:
    for _ in range(2):
        if not count or count[-1] < value:
            count.append(value)
    return count[-1]


def by_default(value: Any, known: Any = {}) -> Any:
    known[value] = 1
    return len(known)


def by_name(value: Any, *, known: Any = []) -> Any:
    known.append(value)
    return len(known)


def attribute(value: Any) -> Any:
    state.last = value
    return value


def nonlocal_counter() -> Callable[[Any], Any]:
    k = 0

    def step(value: Any) -> Any:
        nonlocal k
        k += 1
        return k

    return step


def first_around(within: bool = False) -> Callable[[Any], Any]:
    first: Any = None

    def step(value: Any) -> Any:
        nonlocal first
        if first is None:
            first = value
        return value - first

    def around(value: Any) -> Any:
        def inner() -> None:
            nonlocal first
            if first is None:
                first = value

        inner()
        return value - first

    return around if within else step


def closed_over(within: bool = False) -> Callable[[Any], Any]:
    known: list[Any] = []

    def step(value: Any) -> Any:
        known.append(value)
        return len(known)

    def around(value: Any) -> Any:
        return [known.append(each) for each in value]  # type: ignore[func-returns-value]

    return around if within else step


def in_a_function(value: Any) -> Any:
    def inner(each: Any) -> None:
        seen.add(each)

    inner(value)
    return len(seen)


def item_in_a_function(value: Any) -> Any:
    def inner(each: Any) -> None:
        table[each] = 1

    inner(value)
    return len(table)


def global_in_a_function(value: Any) -> Any:
    def inner() -> None:
        global total
        total += 1

    inner()
    return value, total


def in_a_generator(value: Any) -> Any:
    return all(each in seen or seen.add(each) for each in value)  # type: ignore[func-returns-value]


def default_in_a_generator(value: Any, known: Any = []) -> Any:
    return max(known.append(each) or len(known) for each in value)  # type: ignore[func-returns-value]


def two_locals(value: Any, known: Any = []) -> Any:
    other = value
    return other, known.append(other)


def reads(value: Any) -> Any:
    return value * RATES["EUR"], value in seen, len(table)


def builds(value: Any) -> Any:
    known: list[Any] = []
    found = {}
    for each in range(value):
        known.append(each)
        found[each] = 1

    def inner() -> None:
        nonlocal found
        found = {}
        known.append(1)

    inner()
    return known, found


def given(known: list[Any], value: Any = 3) -> Any:
    return [*known, value]


@lru_cache
def cached(value: Any) -> Any:
    return value * 2


def through_cache(value: Any) -> Any:
    return cached(value)


def loads(value: Any) -> Any:
    global lazy
    if lazy is None:
        lazy = [1, 2]
    return lazy[0] + value


def loaded_before(value: Any) -> Any:
    global filled
    if filled is None:
        filled = [1, 2]
    return filled[0] + value


def loads_by_flag(value: Any) -> Any:
    global is_ready
    if not is_ready:
        RATES.update(USD=1.0)
        is_ready = True
    return RATES["USD"] * value


def loads_when_empty(value: Any) -> Any:
    if not table:
        table.update(a=1)
    return table["a"] * value


def weights_of(path: Any) -> Any:
    global lazy
    if lazy is None:
        lazy = [path, 2]
    return lazy


def loads_by_a_helper(value: Any) -> Any:
    return weights_of("weights.json")[1] * value


def loaded_around() -> Callable[[Any], Any]:
    got: Any = None

    def step(value: Any) -> Any:
        nonlocal got
        if got is None:
            got = [1, 2]
        return got[0] * value

    return step


def copied_first(value: Any, base: Any = {}) -> Any:
    row = dict(base)
    row.update(value=value)
    row["other"] = value
    return row


def copied_under_its_name(value: Any, base: Any = {}) -> Any:
    base = dict(base)
    base.update(value=value)
    return base


def copied_if_none(value: Any, seen: Any = None) -> Any:
    seen = set() if seen is None else set(seen)
    seen.add(value)
    return seen, [each in table for each in seen]


def shadowed(value: Any) -> Any:
    def inner(seen: set[Any]) -> None:
        seen.add(value)

    mine: set[Any] = set()
    inner(mine)
    return mine, (lambda: len(seen))()


def fills(value: Any, *, into: Any = {}) -> Any:
    into[value] = 1
    return into


def fills_own(value: Any) -> Any:
    return fills(value, into={})


def row_of(value: Any) -> Any:
    row = rows.get(value)
    row["other"] = 1
    return row


ids = count_from(0)


def numbering() -> Any:
    numbers = count_from(0)
    return lambda value: (value, next(numbers))


def by_next(value: Any, numbers: Any = count_from(0)) -> Any:
    return next(numbers), value


def next_of_its_own(value: Any) -> Any:
    ids = iter([value])
    return next(ids)


REMEMBER: dict[str, Any] = {
    "set": is_new, "list": numbered, "dict": tallied, "counter": counted, "deque": latest, "global": added,
    "default": by_default, "default by name": by_name, "attribute of an object": attribute, "object": Detector(),
    "method": Detector().method, "nonlocal": nonlocal_counter(), "closed over": closed_over(),
    "by a helper": lambda value: is_new(value), "partial": partial(is_new),
    "in an expression": lambda value: not (value in seen or seen.add(value)),  # type: ignore[func-returns-value]
    "asked for, then set": Detector().asks_first, "set first, then each time": Detector().guarded,
    "asked for its last": latest_of_some, "global that is None at first": changed,
    "comprehension": lambda value: [seen.add(each) for each in value],  # type: ignore[func-returns-value]
    "set comprehension": lambda value: {count.append(each) for each in value},  # type: ignore[func-returns-value]
    "lambda within": lambda value: sorted(value, key=lambda each: seen.add(each)),  # type: ignore[func-returns-value]
    "function within": in_a_function, "item within": item_in_a_function, "global within": global_in_a_function,
    "generator": in_a_generator, "default in a generator": default_in_a_generator,
    "limited": limited, "by turns": by_turns, "highest": highest,
    "closed over, in a comprehension": closed_over(within=True), "own set in a comprehension": Detector().within,
    "two locals": two_locals, "bound": seen.add, "bound append": count.append, "bound of a deque": last.appendleft,
    "first": Detector().first, "first, returning": Detector().first_of_all, "first, made": Detector().first_made,
    "next": lambda value: (next(ids), value), "its next": lambda value: ids.__next__(),
    "next, closed over": numbering(), "next of a default": by_next,
    "first of two": Detector().first_of_two, "first twice": Detector().first_twice, "first or": Detector().first_or,
    "first, global": first_global, "first in a list": first_in_a_list, "first in a dict": first_in_a_dict,
    "first around": first_around(), "first around, within": first_around(within=True),
    "first, by a helper": lambda value: first_global(value),
    "first of a part": lambda row: (first_in_a_list(row["n"]), first_in_a_list(1)),
    "first in a lambda": lambda value: value - (last or last.extend([value]) or last)[0],
    "bound setdefault": table.setdefault, "bound update": counter.update, "bound, partial": partial(table.pop, 1),
}  # fmt: skip
KEEP: dict[str, Any] = {
    "reads": reads, "builds": builds, "given": given, "lru_cache": cached, "through lru_cache": through_cache,
    "loaded once": loads, "pure method": Detector().pure, "of the language": len, "class": Detector,
    "a new dict": lambda row: {**RATES, "a": row}, "sorted": lambda row: sorted(seen),
    "constant key": lambda value: OPS["add"](value, 1), "constant key in a function": lambda v: [OPS["pop"](v, 1)],
    "zip": lambda value: list(zip(table, add, strict=False)), "pair": lambda value: (table, add),
    "copied first": copied_first, "copied under its name": copied_under_its_name, "copied if None": copied_if_none,
    "shadowed": shadowed, "default of a helper": fills_own, "row that is made": row_of,
    "loaded before": loaded_before, "loaded by a flag": loads_by_flag, "loaded when empty": loads_when_empty,
    "loaded around": loaded_around(), "lazy attribute": Model(), "lazy attribute, early": Model().early,
    "lazy attribute, returning": Model().returning, "lazy by a flag": Model().by_flag,
    "lazy by its name": Model().by_name, "lazy with or": Model().with_or,
    "of another object": lambda value: model.returning(value), "local set": lambda value: set(value).pop(),
    "loaded by a helper": loads_by_a_helper, "lazy attribute, shown": Model().showing,
    "lazy attribute, default": Model().by_default, "lazy attribute, path": partial(Model().from_path, "weights"),
    "loaded in a lambda": lambda value: (last or last.extend([2]) or last)[0] * value,
    "bound get": RATES.get, "bound of a text": "abc".count, "bound contains": seen.__contains__,
    "next of a local": lambda value: next(iter(value)), "next of its own": next_of_its_own,
    "local comprehension": lambda value: [seen.add(1) for seen in value],
}  # fmt: skip
PLACES: dict[str, Callable[[Any], Any]] = {
    "map": n.map, "filter": n.filter, "distinct": n.distinct, "group_by": lambda f: n.group_by(f).flat_map(lambda g: g),
    "within": lambda f: n.group_by(len).flat_map(lambda g: g.map(f)), "flat_map": n.flat_map,
}  # fmt: skip


async def counting(value: Any) -> Any:
    RATES[value] = RATES.get(value, 0) + 1
    return value


def each_counting(value: Any) -> Any:
    async def count(value: Any) -> Any:
        seen.add(value)

    return rx.of(value).map_async(count)


CALLS: dict[str, Any] = {
    "plain": n.map_async(counting), "one by one": n.concat_map(lambda value: rx.of(value).map_async(counting).retry(3)),
    "in groups": n.group_by(len).flat_map(lambda group: group.map_async(counting)),
    "made within": n.flat_map(each_counting),
}  # fmt: skip
"""What a call remembers decides no output: its answer is recorded."""


def remembers(query: Any) -> bool:
    return bool(memories(Plan(query.node, symbolic=True)))


def told() -> dict[str, list[str]]:
    """Return, by what is claimed, the cases in which it does not hold."""
    cases = [(name, at, place) for at, place in PLACES.items() for name in (*REMEMBER, *KEEP)]
    found = {(name, at): remembers(place({**REMEMBER, **KEEP}[name])) for name, at, place in cases}
    return {
        "remembers": [f"{name}, {at}" for (name, at), is_told in found.items() if name in REMEMBER and not is_told],
        "keeps": [f"{name}, {at}" for (name, at), is_told in found.items() if name in KEEP and is_told],
        "calls": [name for name, query in CALLS.items() if remembers(query)],
        "for effects": [name for name, f in REMEMBER.items() if remembers(n.do_action(f))],
    }


if __name__ == "__main__":
    json.dump(told(), sys.stdout)
