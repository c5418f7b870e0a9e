"""Classes whose fields change while values of them are stored."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABC
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.codec import decode, decode_data, encode
from checkpoint.named_fields import FieldsDiffer
from checkpoint.salvage import Unreadable, unreadable_in
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import CheckpointRefused

Field = tuple[Any, ...]
Maker = Callable[[list[Field]], type]
MODULE = "classes_of_test_named_fields"


def named_tuple(fields: list[Field]) -> type:
    names = [name for name, *_ in fields]
    return namedtuple("Item", names, defaults=[default() for _, default in fields if default])


def typed_tuple(fields: list[Field]) -> type:
    space: dict[str, Any] = {"__annotations__": {name: Any for name, _ in fields}, "__module__": MODULE}
    space |= {name: default() for name, default in fields if default}
    lines = [
        f"    {name}: object" + (f" = DEFAULTS[{name!r}]" if name in space else "") for name in space["__annotations__"]
    ]
    around: dict[str, Any] = {"NamedTuple": NamedTuple, "DEFAULTS": space, "__name__": MODULE}
    exec("\n".join(["class Item(NamedTuple):", *lines]), around)
    made: type = around["Item"]
    return made


def data(**options: Any) -> Maker:
    def make(fields: list[Field]) -> type:
        return dataclasses.make_dataclass(
            "Item",
            [(name, Any, *([field(default_factory=default)] if default else [])) for name, default in fields],
            **options,
        )

    return make


def below(base: Maker, *, slots: bool) -> Maker:
    def make(fields: list[Field]) -> type:
        space: dict[str, Any] = {"doubled": lambda self: self.qty * 2}
        return type("Item", (base(fields),), space | ({"__slots__": ()} if slots else {}))

    return make


def on_abstract(fields: list[Field]) -> type:
    made = [(name, Any, *([field(default_factory=default)] if default else [])) for name, default in fields]
    return dataclasses.make_dataclass("Item", made, bases=(ABC,), frozen=True, slots=True)


KINDS: dict[str, Maker] = {
    "of a namedtuple": below(named_tuple, slots=False),
    "of a namedtuple, slots": below(named_tuple, slots=True),
    "of a NamedTuple": below(typed_tuple, slots=False),
    "of a dataclass": below(lambda fields: data()(fields), slots=False),
    "of one with slots": below(lambda fields: data(frozen=True, slots=True)(fields), slots=False),
    "of an abstract class": on_abstract,
    "namedtuple": named_tuple,
    "NamedTuple": typed_tuple,
    "dataclass": data(),
    "frozen": data(frozen=True),
    "slots": data(slots=True),
    "frozen, slots": data(frozen=True, slots=True),
    "ordered": data(slots=True, order=True, kw_only=True),
}
BEFORE: list[Field] = [("qty", None), ("price", None), ("name", None)]


def seven() -> int:
    return 7


FITS: dict[str, tuple[list[Field], dict[str, Any]]] = {
    "the same": (BEFORE, {}),
    "moved": ([BEFORE[2], BEFORE[0], BEFORE[1]], {}),
    "one more": ([*BEFORE, ("more", seven)], {"more": 7}),
    "more, and moved": ([BEFORE[2], BEFORE[1], BEFORE[0], ("more", seven), ("other", seven)], {"more": 7, "other": 7}),
    "one less": ([BEFORE[0], BEFORE[2]], {}),
    "one alone": ([BEFORE[1]], {}),
}
REFUSED: dict[str, tuple[list[Field], str]] = {
    "renamed": ([BEFORE[0], BEFORE[2], ("cost", seven)], "has a field|have a field 'price' and no 'cost'"),
    "renamed, without a default": ([BEFORE[0], ("cost", None), BEFORE[2]], "have a field 'price' and no 'cost'"),
    "one more, without a default": ([*BEFORE, ("more", None)], "no field 'more': give it a default"),
}


@pytest.fixture
def module() -> Iterator[Any]:
    sys.modules[MODULE] = found = ModuleType(MODULE)
    yield found
    del sys.modules[MODULE]


def put(module: Any, kind: str, fields: list[Field]) -> Any:
    made = KINDS[kind](fields)
    made.__module__ = MODULE
    module.Item = made
    return made


def held(value: Any) -> dict[str, Any]:
    return {
        name: getattr(value, name)
        for name in (getattr(value, "_fields", None) or [f.name for f in dataclasses.fields(value)])
    }


@pytest.mark.parametrize("as_code", [False, True], ids=["data", "code"])
@pytest.mark.parametrize("change", FITS)
@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_found_by_their_names(kind: str, change: str, as_code: bool, module: Any) -> None:
    """Wherever they have moved; what has come with a default has it, what has gone is gone; also beside a lambda."""
    item = put(module, kind, BEFORE)
    value = {"one": item(qty=1, price=2.5, name="x"), "more": [(item(qty=n, price=n, name=n),) for n in range(3)]}
    stored = encode(defaultdict(lambda: None, value) if as_code else value)
    fields, more = FITS[change]
    put(module, kind, fields)
    found = decode(stored)
    names = [name for name, _ in fields]
    old = {"qty": 1, "price": 2.5, "name": "x"} | more
    assert type(found["one"]) is module.Item
    assert held(found["one"]) == {name: old[name] for name in names}
    assert [held(each) for (each,) in found["more"]] == [{name: more.get(name, n) for name in names} for n in range(3)]
    assert decode(encode(dict(found))) == dict(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_may_say_what_its_fields_were_called(kind: str, module: Any) -> None:
    """Then a field that is renamed keeps its value, wherever it stands."""
    stored = encode(put(module, kind, BEFORE)(qty=1, price=2.5, name="x"))
    item = put(module, kind, [("name", None), ("cost", None), ("qty", None), ("more", seven)])
    item.__renamed_fields__ = {"price": "cost"}
    assert held(decode(stored)) == {"name": "x", "cost": 2.5, "qty": 1, "more": 7}


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_another_field_is_refused(kind: str, change: str, module: Any) -> None:
    """No value is guessed: the error names the class and the field, and what to do."""
    stored = encode(put(module, kind, BEFORE)(qty=1, price=2.5, name="x"))
    fields, message = REFUSED[change]
    try:
        put(module, kind, fields)
    except TypeError:
        return  # Python takes no field without a default behind one with
    with pytest.raises(ValueError, match=message):
        decode(stored)


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_stands_for_itself_alone(kind: str, module: Any) -> None:
    """Each value whose fields do not fit, or whose class is gone, is unreadable; what lies beside it is read."""
    item = put(module, kind, BEFORE)
    one = item(qty=1, price=2.5, name="x")
    stored = encode([one, "beside", (one, item(qty=2, price=2.5, name="y"))])
    put(module, kind, [*BEFORE, ("cost", None)])
    found, lost = decode_data(stored)
    assert found[1] == "beside" and len(lost) == 2
    assert {type(each) for each in (found[0], *found[2])} == {Unreadable} and found[0] is found[2][0]
    assert all("no field 'cost'" in each.reason and "Item" in each.kind for each in lost)
    del module.Item
    found, lost = decode_data(stored)
    assert found[1] == "beside" and [each.kind for each in unreadable_in(found)] == [f"{MODULE}.Item"] * 2 and lost


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_whose_state_may_be_another_is_told(kind: str, module: Any) -> None:
    """Its state is neither guessed nor given up: the start is refused, by class and field, until it is mended."""
    store = MemoryStore()
    run(store, module, kind, BEFORE, [3, 9])
    put(module, kind, [*BEFORE, ("cost", None)])
    store = store.reopen()
    with pytest.raises(CheckpointRefused, match=r"'least' is of an earlier class.*Item have no field 'cost'"):
        opened(store, strict=True)
    store = store.reopen()
    put(module, kind, BEFORE)
    assert run(store, module, kind, BEFORE, [3, 9, 5])[-1]["qty"] == 9
    put(module, kind, [*BEFORE, ("cost", None)])
    assert opened(store.reopen(), strict=False) == ("failed", "running")


def opened(store: MemoryStore, *, strict: bool) -> tuple[str, str]:
    with QueryEvaluator(store, background=False, strict=strict) as evaluator:
        evaluator.source("n", ListSource([3, 9, 5], follow=True))
        evaluator.start()
        return evaluator.query("least").status, evaluator.query("shown").status


def run(store: MemoryStore, module: Any, kind: str, fields: list[Field], values: list[int]) -> list[Any]:
    """Have the dearest so far of *values*; return what came out."""
    made = put(module, kind, fields)
    more = {name: 1 for name, default in fields if name not in ("qty", "price", "name") and not default}
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        items = rx.source("n").map(lambda n: {"qty": n, "price": -n, "name": str(n)}).map(Make())
        evaluator.create("least", items.scan(lambda least, each: each if each.price < least.price else least).map(held))
        evaluator.create("shown", rx.source("n").pairwise().map(sum))
        while evaluator.step():
            pass
        evaluator.stop()
        evaluator.run()
        del made, more
        return [value for part in evaluator.stream("least").read(0, 100) for value in part.values]


class Make:
    """Makes an item of what its class has by now: its code does not change when the class does."""

    def __call__(self, row: dict[str, Any]) -> Any:
        kind: Any = sys.modules[MODULE].Item
        names = getattr(kind, "_fields", None) or [each.name for each in dataclasses.fields(kind)]
        return kind(**{name: row[name] for name in names if name in row})


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_goes_on_with_what_its_state_holds(kind: str, module: Any) -> None:
    """Behind a clean stop old values of a state have their fields where the class has them now."""
    store = MemoryStore()
    run(store, module, kind, BEFORE, [3, 9])
    found = run(store := store.reopen(), module, kind, FITS["more, and moved"][0], [3, 9, 5])
    assert found[-1] == {"qty": 9, "price": -9, "name": "9", "more": 7, "other": 7}
    found = run(store.reopen(), module, kind, FITS["one less"][0] + [BEFORE[1]], [3, 9, 5, 1])
    assert found[-1] == {"qty": 9, "price": -9, "name": "9"}


class Positive:
    """A field that is kept under another name, as in Python's own documentation."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> int:
        return 0 if instance is None else int(getattr(instance, self.name))

    def __set__(self, instance: Any, value: int) -> None:
        setattr(instance, self.name, value)


def turned(before: str, after: str, module: Any) -> tuple[Any, Any]:
    """Return a value and what is read of it when its class is another."""
    space = {"dataclass": dataclasses.dataclass, "field": field, "NamedTuple": NamedTuple, "Positive": Positive}
    space["cached_property"] = cached_property
    made: list[Any] = []
    for text in (before, after):
        exec(text, around := space | {"__name__": MODULE})
        module.Item = around["Item"]
        if not made:
            value = module.Item(qty=3, price=2.5)
            _ = getattr(value, "total", None)
            made = [value, encode(value)]
    return made[0], decode(made[1])


DATA = "@dataclass\nclass Item:\n    qty: int\n    price: float\n"
KEPT_ELSEWHERE = "@dataclass\nclass Item:\n    qty: int = Positive()\n    price: float = 1.0\n"
TURNS = {
    "what was read once is a property": (
        f"{DATA}    @cached_property\n    def total(self): return self.qty * self.price",
        f"{DATA}    @property\n    def total(self): return self.qty * self.price",
    ),
    "a class of one's own": (DATA, "class Item:\n    def __init__(self, qty, price): pass"),
    "slots": (DATA, DATA.replace("@dataclass", "@dataclass(slots=True)")),
    "no slots": (DATA.replace("@dataclass", "@dataclass(slots=True)"), DATA),
    "frozen": (DATA, DATA.replace("@dataclass", "@dataclass(frozen=True, slots=True)")),
    "not frozen": (DATA.replace("@dataclass", "@dataclass(frozen=True, slots=True)"), DATA),
    "a field that is kept elsewhere": (
        DATA.replace("qty: int", "qty: int = Positive()").replace("price: float", "price: float = 1.0"),
        DATA.replace("qty: int", "qty: int = Positive()").replace(
            "price: float", "price: float = 1.0\n    more: int = 7"
        ),
    ),
    "a field that is not set yet": (
        f"{DATA}    memo: int = field(init=False)",
        f"{DATA}    memo: int = field(init=False)\n    more: int = 7",
    ),
}


@pytest.mark.parametrize("turn", TURNS)
def test_what_goes_by_name_anyway_goes_on(turn: str, module: Any) -> None:
    """What a class holds beside its fields, how it keeps them, and whether it is a dataclass, may change."""
    _, found = turned(*TURNS[turn], module)
    assert (found.qty, found.price) == (3, 2.5) and getattr(found, "more", 7) == 7


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True, "slots": True}, {"frozen": True}], ids=str)
@pytest.mark.parametrize("base", [dict, list])
def test_what_a_dataclass_is_beside_its_fields_stays(base: type, options: dict[str, Any], module: Any) -> None:
    """One that is a list or a dict as well keeps what it holds."""
    made = dataclasses.make_dataclass("Item", [("qty", int)], bases=(base,), eq=False, **options)
    made.__module__, module.Item = MODULE, made
    value: Any = made(3)
    value.update(a=1) if base is dict else value.append("a")
    found = decode(encode([value]))[0]
    assert (base(found), found.qty, type(found)) == (base(value), 3, made) and found


def test_a_named_tuple_that_is_none_any_more_is_refused(module: Any) -> None:
    """It has no fields under which its values could be put."""
    with pytest.raises(FieldsDiffer, match="Item are named tuples: make it one again"):
        turned("class Item(NamedTuple):\n    qty: int\n    price: float", DATA, module)
