"""Functions that change the element that they are given, and functions that do not: cases of `test_element_changes`.

Each is a function of one argument, a row: a dict with a price, a list of tags, a dict of parts.
"""

from __future__ import annotations

import copy
import heapq
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

Function = Callable[[Any], Any]
RATES = {"EUR": 1.2}
SEEN: list[Any] = []


@dataclass
class Order:
    """What is changed by its attributes."""

    price: float = 1.0
    tags: list[str] = field(default_factory=list)


def gross(row: Any) -> Any:
    row["price"] *= 1.2
    return row


def price_of(row: Any, factor: int) -> Any:
    row["price"] = row["price"] * factor if row["price"] > 2 else 0
    return row


def named(row: Any) -> Any:
    row.update(name="x", other="y")
    return row


def attribute(order: Any) -> Any:
    order.price += 1
    return order


def deletes(row: Any) -> Any:
    del row["price"]
    return row


def deletes_attribute(order: Any) -> Any:
    del order.price
    return order


def aliased(row: Any) -> Any:
    known = row
    known["price"] = 3
    return known


def part_of_it(row: Any) -> Any:
    tags = row["tags"]
    tags.append("new")
    return row


def in_a_loop(row: Any) -> Any:
    for part in row["parts"]:
        part["price"] = 0
    return row


def in_a_comprehension(row: Any) -> Any:
    return [part.pop("price") for part in row["parts"]]


def by_comprehension(row: Any) -> Any:
    _ = [row.setdefault(name, 0) for name in ("a", "b")]
    return row


def in_a_branch(row: Any) -> Any:
    try:
        if row["price"] > 3:
            row["dear"] = True
    except KeyError:
        row["dear"] = None
    return row


def in_a_handler(row: Any) -> Any:
    try:
        return row["price"]
    except KeyError:
        row["price"] = 0
        return 0


def within(row: Any) -> Any:
    def mark(what: str) -> None:
        row[what] = True

    mark("seen")
    return row


def by_a_helper(row: Any) -> Any:
    return gross(row)


def by_a_helper_by_name(row: Any) -> Any:
    return price_of(factor=2, row=row)


def by_two_helpers(row: Any) -> Any:
    return by_a_helper(row)


def sets_by_name(order: Any) -> Any:
    setattr(order, "pri" + "ce", 3)
    return order


def sets_by_operator(row: Any) -> Any:
    operator.setitem(row, "price", 3)
    return row


def onto_a_heap(row: Any) -> Any:
    heapq.heappush(row["tags"], "a")
    return row


def slice_of_it(row: Any) -> Any:
    row["tags"][1:] = []
    return row


def from_get(row: Any) -> Any:
    row.get("tags").append("x")
    return row


def values_of_it(row: Any) -> Any:
    for each in row["by_name"].values():
        each["price"] = 1
    return row


def with_walrus(row: Any) -> Any:
    if (tags := row["tags"]) is not None:
        tags.sort()
    return row


def chosen(row: Any) -> Any:
    row["kind" if row["price"] else "none"] = row["price"] or 2
    return row


class Marks:
    """An object that is called."""

    def __call__(self, row: Any) -> Any:
        row["seen"] = self
        return row

    def method(self, row: Any) -> Any:
        row["seen"] = True
        return row

    @staticmethod
    def static(row: Any) -> Any:
        row["seen"] = True
        return row

    def into_itself(self, row: Any) -> Any:
        self.last = row
        return row


@lru_cache
def cached(row: Any) -> Any:
    row["price"] = 1
    return row


def union_in_place(row: Any) -> Any:
    row |= {"gross": row["price"]}
    return row


def extends_its_list(row: Any) -> Any:
    row["tags"] += ["a", "b", "c"]
    return row


def with_closure(by: Function) -> Function:
    return lambda row: by(row)


def later(row: Any) -> Any:
    def of(part: Any) -> Any:
        return (part, row.pop("price"))

    return [of(part) for part in row["parts"]]


def first_of_more(row: Any) -> Any:
    first, *_ = row["parts"]
    first["price"] = 0
    return row


def last_of_more(row: Any) -> Any:
    _, *_, last = row["parts"]
    last["price"] = 0
    return row


CHANGE: dict[str, Function] = {
    "first of more": first_of_more,
    "last of more": last_of_more,
    "item in place": gross,
    "item": partial(price_of, factor=2),
    "lambda and or": lambda row: row.update(gross=1) or row,
    "lambda and a tuple": lambda row: (row.update(gross=1), row)[1],
    "lambda and pop": lambda row: row.pop("price"),
    "lambda and popitem": lambda row: row.popitem()[1],
    "lambda and clear": lambda row: [row.clear(), 3],
    "update": named,
    "attribute": attribute,
    "deleted item": deletes,
    "deleted attribute": deletes_attribute,
    "another name": aliased,
    "list of it": part_of_it,
    "loop": in_a_loop,
    "comprehension": in_a_comprehension,
    "by comprehension": by_comprehension,
    "branch": in_a_branch,
    "handler": in_a_handler,
    "function within": within,
    "helper": by_a_helper,
    "helper by name": by_a_helper_by_name,
    "two helpers": by_two_helpers,
    "lambda and helper": lambda row: gross(row),
    "closed over": with_closure(gross),
    "setattr": sets_by_name,
    "setitem": sets_by_operator,
    "heap": onto_a_heap,
    "slice": slice_of_it,
    "get": from_get,
    "values": values_of_it,
    "walrus": with_walrus,
    "key with a branch": chosen,
    "union in place": union_in_place,
    "list of it in place": extends_its_list,
    "object": Marks(),
    "method": Marks().method,
    "static method": Marks.static,
    "partial": partial(lambda rate, row: row.update(price=rate) is None and row, 2),
    "cache": cached,
    "function within a comprehension": later,
    "star": lambda row: (lambda *rows: rows)(row.pop("price")),
}


def copied(row: Any) -> Any:
    row = dict(row)
    row["price"] *= 2
    return row


def copied_deeply(row: Any) -> Any:
    new = copy.deepcopy(row)
    new["tags"].append("x")
    return new


def spread_out(row: Any) -> Any:
    new = {**row, "price": 2}
    new["more"] = 3
    new.update(even_more=4)
    return new


def counts(row: Any) -> Any:
    price = row["price"]
    price += 1
    return price


def counts_on(count: Any) -> Any:
    count += 1
    return count


def union_of_a_copy(row: Any) -> Any:
    new = row | {"a": 1}
    new |= {"b": 2}
    return new


def gathers(row: Any) -> Any:
    found = []
    for part in row["parts"]:
        found.append(part)  # noqa: PERF402
    found.sort()
    return found


def by_key(row: Any) -> Any:
    found: dict[str, Any] = {}
    found[row["name"]] = row
    found.setdefault(row["name"], row)
    return found


def sliced(row: Any) -> Any:
    last = row["tags"][1:]
    last.append("x")
    row["tags"][1:].append("y")
    return last


def copied_list(row: Any) -> Any:
    tags = list(row["tags"])
    tags.append("x")
    return {"tags": tags}


def maybe_copied(row: Any) -> Any:
    if row["price"] > 2:
        row = {**row}
        row["price"] = 2
    return row


def of_an_object(order: Any) -> Any:
    new = Order(order.price)
    new.price = 3
    new.tags.extend(order.tags)
    return new


def local_helper(row: Any) -> Any:
    def gross(other: Any) -> Any:
        return other["price"] * 2

    return gross(row)


def keeps_outside(row: Any) -> Any:
    SEEN.append(row)
    return row


def functional(basket: Any) -> Any:
    return basket.add("x").discard("y")


def functional_stored(basket: Any) -> Any:
    after = basket.append("x")
    return {"basket": after}


def reads_helper(row: Any) -> Any:
    return total(row)


def total(row: Any) -> Any:
    all_of_it = 0
    for part in row["parts"]:
        all_of_it += part["price"]
    return all_of_it


def sorts_a_copy(row: Any) -> Any:
    rows = sorted(row["tags"])
    rows.reverse()
    return rows


def comprehends(row: Any) -> Any:
    return [{**part, "price": 1} for part in row["parts"]]


def other_loop(row: Any) -> Any:
    for row in ({"a": 1}, {"b": 2}):
        row["x"] = 1
    return row


def unpacks(row: Any) -> Any:
    (name, price), rest = row["pair"], {}
    rest[name] = price
    return rest


def unpacks_the_rest(row: Any) -> Any:
    first, *rest = row["tags"]
    rest.append(first)
    return rest


def unpacks_all_but_the_ends(row: Any) -> Any:
    _, *others, _ = row.values()
    others.pop()
    return others


def fills_copy_in_branch(row: Any) -> Any:
    new: Any = row if row is None else row.copy()
    new["price"] = 1
    return new


def hides_the_name(row: Any) -> Any:
    return [row for row in [{"a": 1}] if row.update(b=1) is None]


KEEP: dict[str, Function] = {
    "copy first": copied,
    "deep copy": copied_deeply,
    "spread": spread_out,
    "number of it": counts,
    "number in place": counts_on,
    "union of a copy": union_of_a_copy,
    "list of its own": gathers,
    "dict of its own": by_key,
    "slice that is copied": sliced,
    "copied list": copied_list,
    "maybe a copy": maybe_copied,
    "new object": of_an_object,
    "local helper of the same name": local_helper,
    "outside": keeps_outside,
    "persistent collection": functional,
    "persistent and stored": functional_stored,
    "returned": lambda basket: basket.add(1),
    "helper that reads": reads_helper,
    "sorted": sorts_a_copy,
    "comprehension of new ones": comprehends,
    "loop over others": other_loop,
    "unpacked": unpacks,
    "rest that is unpacked": unpacks_the_rest,
    "all between that is unpacked": unpacks_all_but_the_ends,
    "copy in a branch": fills_copy_in_branch,
    "name hidden": hides_the_name,
    "replace": lambda order: replace(order, price=2),
    "union": lambda row: row | {"price": 2},
    "merged": lambda row: {**row, "price": row["price"] * RATES["EUR"]},
    "reads": lambda row: row["price"] * 2,
    "attribute that is read": lambda order: (order.price, len(order.tags)),
    "own object": Marks().into_itself,
    "built-in": len,
    "class": Order,
    "getter": operator.itemgetter("price"),
    "format": lambda row: f"{row['price']:.2f}",
    "dict of it": lambda row: dict(row, price=3),
    "its copy": lambda row: row.copy().update(price=3),
}
