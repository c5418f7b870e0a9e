"""Classes whose fields change while values of them are stored."""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import http
import inspect
import signal
import socket
import ssl
import sys
from abc import ABC
from collections import defaultdict, namedtuple
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from functools import cached_property, partial
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest
from lanes import crossed, every_of, examples

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode, decode_data, encode
from checkpoint.format.named_members import FieldsDiffer
from checkpoint.format.salvage import Unreadable, salvage, unreadable_in
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import CheckpointRefused, StoredError

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


def placed(module: Any, kind: Any) -> Any:
    kind.__module__, module.Item = MODULE, kind
    return kind


def held(value: Any) -> dict[str, Any]:
    return {
        name: getattr(value, name)
        for name in (getattr(value, "_fields", None) or [f.name for f in dataclasses.fields(value)])
    }


@pytest.mark.parametrize("kind, change, among", every_of(5, product(KINDS, FITS, ["data", "code"]), commits=1))
def test_fields_are_found_by_their_names(kind: str, change: str, among: str, module: Any) -> None:
    """Wherever they have moved; what has come with a default has it, what has gone is gone; also beside a lambda."""
    item = put(module, kind, BEFORE)
    value = {"one": item(qty=1, price=2.5, name="x"), "more": [(item(qty=n, price=n, name=n),) for n in range(3)]}
    stored = encode(defaultdict(lambda: None, value) if among == "code" else value)
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
def test_what_an_error_holds_goes_by_names_too(kind: str, module: Any) -> None:
    """Also in a group of errors, as an attribute, and in what led to the error."""
    value = put(module, kind, BEFORE)(qty=1, price=2.5, name="x")
    led, error = KeyError(value), ValueError(value)
    error.__cause__, error.noted = led, [value]  # type: ignore[attr-defined]
    stored = encode([error, ExceptionGroup("some", [error])])
    fields, more = FITS["more, and moved"]
    put(module, kind, fields)
    found, group = decode(stored)
    expected = {"qty": 1, "price": 2.5, "name": "x"} | more
    for each in (found, *group.exceptions):
        assert type(each) is ValueError
        assert [held(value) for value in (each.args[0], each.noted[0], each.__cause__.args[0])] == [expected] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_may_say_what_its_fields_were_called(kind: str, module: Any) -> None:
    """Then a field that is renamed keeps its value, wherever it stands."""
    stored = encode(put(module, kind, BEFORE)(qty=1, price=2.5, name="x"))
    item = put(module, kind, [("name", None), ("cost", None), ("qty", None), ("more", seven)])
    item.__renamed_fields__ = {"price": "cost"}
    assert held(decode(stored)) == {"name": "x", "cost": 2.5, "qty": 1, "more": 7}


EXCHANGED = {
    "two": {"qty": "price", "price": "qty"},
    "three": {"qty": "price", "price": "name", "name": "qty"},
}


@pytest.mark.parametrize("moved", [False, True], ids=["as they stood", "moved"])
@pytest.mark.parametrize("said", EXCHANGED)
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_fields_have_exchanged_are_refused(kind: str, said: str, moved: bool, module: Any) -> None:
    """Values of before and of behind have the same names, so none is guessed, and the error says what to do."""
    stored = encode(put(module, kind, BEFORE)(qty=1, price=2.5, name="x"))
    put(module, kind, BEFORE[::-1] if moved else BEFORE).__renamed_fields__ = EXCHANGED[said]
    with pytest.raises(FieldsDiffer, match=r"is an old name and a new one: .*call one of them otherwise"):
        decode(stored)


@pytest.mark.parametrize("kind, change", crossed(KINDS, REFUSED, nightly=1))
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


def with_attribute(value: Any) -> Any:
    def function() -> None: ...

    function.held = value  # type: ignore[attr-defined]
    return function


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "closure": lambda value: lambda: value,
    "closure of a closure": lambda value: (lambda inner: lambda: inner)(lambda: value),
    "default": lambda value: lambda each=value: each,
    "keyword default": lambda value: lambda *, each=value: each,
    "attribute of a function": with_attribute,
    "partial": lambda value: partial(lambda each: each, value),
    "method": lambda value: [value].append,
    "iterator": lambda value: iter([value]),
    "array": lambda value: numpy.array([value, None]),
    "slice": lambda value: slice(value),
    "query": lambda value: rx.of(1).map(lambda _: value),
    "query that has it": lambda value: rx.of(value),
    "error": lambda value: ValueError([value]),
    "key": lambda value: {(value,): 1},
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_cannot_be_read_is_found_wherever_it_lies(holder: str, module: Any) -> None:
    """A state with it is no state: in what a function was made with, too."""
    item = put(module, "frozen", BEFORE)
    stored = encode([HOLDERS[holder](item(qty=1, price=2.5, name="x"))])
    put(module, "frozen", [*BEFORE, ("cost", None)])
    found = salvage(stored, code=True)
    if holder == "error":
        assert type(found.value[0]) is StoredError  # its data stands for it
    else:
        assert len(found.unreadable) == 1 and list(unreadable_in(found.value)) == [*found.unreadable]


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


@pytest.mark.parametrize("kind", ["namedtuple", "NamedTuple", "dataclass", "frozen, slots", "of a dataclass"])
def test_a_class_that_is_edited_again_and_again(kind: str, module: Any) -> None:
    """What any version stored, each later one reads right or refuses; what its forerunner stored, it reads.

    Unless what is said of names is not clear: then it may refuse that, too.
    """

    @hypothesis.given(edits_of_a_class())
    @examples(240)
    def play(versions: list[tuple[dict[str, int], dict[str, str]]]) -> None:
        stored: list[tuple[bytes, dict[str, int]]] = []
        for fields, said in versions:
            item = put(module, kind, [(name, partial(int, -each)) for name, each in fields.items()])
            item.__renamed_fields__ = said
            for data, then in stored:
                if then.keys() == fields.keys() and then != fields:
                    continue  # all names again, and of other fields: nobody can tell
                try:
                    found = held(decode(data))
                except FieldsDiffer:
                    assert data is not stored[-1][0] or not is_clear(fields, said)
                else:
                    had = set(then.values())
                    assert found == {name: each if each in had else -each for name, each in fields.items()}
            stored.append((encode(item(**fields)), fields))

    play()


def is_clear(fields: Collection[str], said: dict[str, str]) -> bool:
    """Whether no old name of a field that has gone, or has been renamed twice, is another's."""
    news = list(said.values())
    return not any(old in fields and (new not in fields or news.count(new) > 1) for old, new in said.items())


@st.composite
def edits_of_a_class(draw: st.DrawFn) -> list[tuple[dict[str, int], dict[str, str]]]:
    """Draw versions of a class: its fields, each with a number of its own, and what it says of their names.

    A field that comes may have the name that another had before it was renamed, but none of a field that has gone.
    """
    fields, said, gone = {"a": 1, "b": 2, "c": 3}, dict[str, str](), set[str]()
    versions = [(fields, said)]
    for number in range(draw(st.integers(1, 6))):
        fields, said = dict(fields), dict(said)
        edit = draw(st.sampled_from(["rename", "rename", "come", "go", "move"]))
        free = [name for name in "abcdefgh" if name not in fields and name not in gone]
        fresh = [name for name in free if name not in said]
        if edit == "rename" and fresh and (able := [name for name in fields if name not in said]):
            old, new = draw(st.sampled_from(able)), draw(st.sampled_from(fresh))
            fields = {new if name == old else name: each for name, each in fields.items()}
            said = {each: new if now == old else now for each, now in said.items()} | {old: new}
        elif edit == "come" and free:
            fields[draw(st.sampled_from(free))] = 10 + number
        elif edit == "go" and len(fields) > 1:
            name = draw(st.sampled_from(sorted(fields)))
            gone |= {each for version, _ in versions for each, uid in version.items() if uid == fields[name]}
            del fields[name]
        else:
            fields = dict(draw(st.permutations(list(fields.items()))))
        versions.append((fields, said))
    return versions


ENUMS: dict[str, tuple[str, str]] = {
    "one more in front": (
        "class Item(Enum):\n    A = auto()\n    B = auto()",
        "class Item(Enum):\n    Z = auto()\n    A = auto()\n    B = auto()",
    ),
    "other values": ("class Item(Enum):\n    A = 1\n    B = 2", "class Item(Enum):\n    A = 'b'\n    B = 'a'"),
    "of numbers": ("class Item(IntEnum):\n    A = 1\n    B = 2", "class Item(IntEnum):\n    B = 1\n    A = 2"),
    "of texts": (
        "class Item(StrEnum):\n    A = auto()\n    B = 'x'",
        "class Item(str, Enum):\n    B = 'a'\n    A = 'x'",
    ),
    "called something else": (
        "class Item(Enum):\n    A = 1\n    B = 2",
        "class Item(Enum):\n    New = 1\n    B = 2\n    A = New",
    ),
    "flags": (
        "class Item(Flag):\n    A = auto()\n    B = auto()",
        "class Item(Flag):\n    Z = auto()\n    B = auto()\n    A = auto()",
    ),
    "flags that are numbers": (
        "class Item(IntFlag):\n    A = 1\n    B = 4",
        "class Item(IntFlag):\n    B = 1\n    A = 16\n    C = 32",
    ),
}


@pytest.mark.parametrize("as_code", [False, True], ids=["data", "code"])
@pytest.mark.parametrize("change", ENUMS)
def test_members_of_an_enumeration_are_found_by_their_names(change: str, as_code: bool, module: Any) -> None:
    """Whatever their values are by now; flags together, too, and with bits that have no name."""
    before, after = ENUMS[change]
    space = {name: getattr(enum, name) for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "auto")}
    is_flags = "Flag" in before

    def defined(text: str) -> Any:
        exec(text, around := space | {"__name__": MODULE})
        module.Item = around["Item"]
        return module.Item

    def made(item: Any) -> list[Any]:
        several = [item.A | item.B, item(0)] if is_flags else []
        return [item.A, {item.B: [item.A]}, *several]

    value = made(defined(before))
    if change == "flags that are numbers":
        value.append(module.Item(1 | 64))
    stored = encode(defaultdict(lambda: None, {0: value}) if as_code else {0: value})
    assert decode(stored)[0] == value and decode(stored)[0][0] is value[0]
    expected = made(item := defined(after))
    if change == "flags that are numbers":
        expected.append(item.A | item(64))
    found = decode(stored)[0]
    assert found == expected and found[0] is item.A


@pytest.mark.parametrize(
    "after",
    ["class Item(Enum):\n    A, B = 1, 2", "class Item(StrEnum):\n    A, B = 'a', 'b'", "class Item:\n    A, B = 1, 2"],
)
def test_several_members_that_are_one_kind_no_more_are_refused(after: str, module: Any) -> None:
    """The class says what it was; nothing is guessed."""
    space = {name: getattr(enum, name) for name in ("Enum", "StrEnum", "Flag")} | {"__name__": MODULE}
    exec("class Item(Flag):\n    A, B = 1, 2", space)
    module.Item = space["Item"]
    stored = encode(module.Item.A | module.Item.B)
    exec(after, space)
    module.Item = space["Item"]
    with pytest.raises(FieldsDiffer, match=r"enumeration (again|: make it one)|enumeration: make it one again"):
        decode(stored)


@pytest.mark.parametrize(
    "text", ["class Item(Enum):\n    B = 1", "class Item:\n    A = 1", "class Item(NamedTuple):\n    A: int"]
)
def test_a_member_that_is_none_any_more_is_refused(text: str, module: Any) -> None:
    """It is no other one, and the query that holds it says what to do."""
    space: dict[str, Any] = {"Enum": enum.Enum, "NamedTuple": NamedTuple, "__name__": MODULE}
    exec("class Item(Enum):\n    A = 1", space)
    module.Item = space["Item"]
    stored = encode(module.Item.A)
    exec(text, space)
    module.Item = space["Item"]
    with pytest.raises(FieldsDiffer, match=r"Item (have a member 'A', which|are members of an enumeration: make)"):
        decode(stored)


@pytest.mark.parametrize(
    "after", ["class Item(NamedTuple):\n    qty: int\n    price: float", "class Item(Enum):\n    A = 1"]
)
def test_a_class_of_another_kind_is_told(after: str, module: Any) -> None:
    """What was no named tuple and no enumeration does not become one; the value alone is unreadable, and says why."""
    space: dict[str, Any] = {
        "Enum": enum.Enum,
        "NamedTuple": NamedTuple,
        "__name__": MODULE,
        "dataclass": dataclasses.dataclass,
    }
    exec(DATA, space)
    module.Item = space["Item"]
    stored = encode([module.Item(1, 2.5), "beside"])
    exec(after, space)
    module.Item = space["Item"]
    found, lost = decode_data(stored)
    assert (
        found[1] == "beside"
        and "FieldsDiffer: stored values of" in lost[0].reason
        and "make it what it was" in lost[0].reason
    )


ONE = "class Item:\n    def __init__(self, n): self.n = n\n"
NAMESAKES: dict[str, str] = {
    "a class below its namesake": f"{ONE}Old = Item\nclass Item(Old): pass",
    "records made of a header": "Old, Item = namedtuple('Item', 'n note', defaults=[0]), namedtuple('Item', 'price n')",
    "a decorator": f"{ONE}Old = Item\nOld.__qualname__ = 'Item'\nclass Item(Old): pass",
    "a plugin": f"{ONE}Old = Item\nOld.__qualname__, Old.__module__ = 'Item', 'no_such_module'\nItem = 1",
    "without a module": f"{ONE}Old = Item\nOld.__qualname__, Old.__module__ = 'Item', ''\nItem = 1",
}


@pytest.mark.parametrize("case", NAMESAKES)
def test_a_class_that_nobody_replaced_goes_by_its_code(case: str, module: Any) -> None:
    """Two classes may have one name all along: values of the one are none of the other behind a restart."""
    exec(NAMESAKES[case], space := {"namedtuple": namedtuple, "__name__": MODULE})
    module.Item = space["Item"]
    value = space["Old"](n=3)
    found = decode(encode(value))
    assert type(found) is not module.Item and found.n == 3 and getattr(found, "note", 0) == 0
    assert [name for name in ("price",) if hasattr(found, name)] == []


class Mask(enum.IntFlag):
    ONE, TWO, OPCODE, BOTH, ALL = 1, 2, 0x70, 3, -1


class Bits(enum.Flag):
    READ_WRITE, EXECUTE = 6, 8


@pytest.mark.parametrize(
    "value",
    [Mask(0), Mask.ONE | Mask.TWO, Mask.BOTH, Mask.OPCODE, Mask(0x10), Mask(0x80 | 1), Mask.ALL, ~Mask.ONE,
     Bits.READ_WRITE, Bits.READ_WRITE | Bits.EXECUTE, Bits(0), ~Bits.EXECUTE],
    ids=repr,
)  # fmt: skip
def test_any_flag_is_stored(value: Any) -> None:
    """Bits without a name, masks of several, none, and all of them."""
    found = decode(encode(value))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    "value", [http.HTTPStatus(413), socket.AddressFamily(2), signal.SIGTERM, inspect.Parameter.VAR_POSITIONAL]
)
def test_members_of_pythons_own_enumerations_go_by_value(value: Any) -> None:
    """Another release of Python may call them otherwise (413 was renamed in 3.13), and has the same values."""
    assert decode(encode(value)) is value
    assert value.name.encode() not in encode(value)


def test_a_module_of_ones_own_may_be_called_as_one_of_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its enumerations go by the names of their members, and Python's own that has other values than plain ones too."""
    before = "class Tier(enum.Enum):\n    SILVER = enum.auto()"
    after = "class Tier(enum.Enum):\n    BRONZE = enum.auto()\n    SILVER = enum.auto()"
    own = ModuleType("profile")
    own.__file__ = "/srv/profile.py"
    monkeypatch.setitem(sys.modules, "profile", own)
    exec(f"import enum\n{before}", vars(own))
    data = encode(own.Tier.SILVER)
    exec(after, vars(own))
    assert decode(data) is own.Tier.SILVER
    assert decode(encode(ssl.Purpose.SERVER_AUTH)) is ssl.Purpose.SERVER_AUTH


def test_what_is_no_field_keeps_its_name(module: Any) -> None:
    """A property that was computed and is called as a field is called by now is not taken for that."""
    before = dataclasses.make_dataclass("Item", ["a", "b"], namespace={"x": cached_property(lambda self: 77)})
    placed(module, before)
    value = before(1, 2)
    assert value.x == 77  # type: ignore[attr-defined]
    stored = encode(value)
    after = dataclasses.make_dataclass("Item", ["x", "b"], namespace={"__renamed_fields__": {"a": "x"}})
    placed(module, after)
    assert decode(stored) == after(1, 2)


def test_a_class_and_its_base_both_say_what_was_renamed(module: Any) -> None:
    """Neither hides what the other says."""
    stored = encode(placed(module, dataclasses.make_dataclass("Item", ["a", "b"]))(1, 2))
    base = dataclasses.make_dataclass("Base", ["x"], namespace={"__renamed_fields__": {"a": "x"}})
    after = placed(
        module, dataclasses.make_dataclass("Item", ["y"], bases=(base,), namespace={"__renamed_fields__": {"b": "y"}})
    )
    assert decode(stored) == after(1, 2)


Version = tuple[dict[str, int], dict[str, str]]
"""The fields of a class, each with a number of its own, and what it says of their names."""


@pytest.mark.parametrize("options", [{}, {"frozen": True, "slots": True}], ids=str)
def test_a_class_and_its_base_are_edited_again_and_again(options: dict[str, Any], module: Any) -> None:
    """Each says what its own fields were called, and may use a name that the other's had: none gets another's value.

    What its forerunner stored each version reads, unless an old name stands for two fields, or for one that has gone.
    """

    @hypothesis.given(edits_of_a_class_and_its_base())
    @examples(600)
    def play(versions: list[tuple[Version, Version]]) -> None:
        stored: list[tuple[bytes, dict[str, int]]] = []
        for (below, said_below), (own, said) in versions:
            base = data(**options)([(name, partial(int, -each)) for name, each in below.items()])
            made = [(name, Any, field(default_factory=partial(int, -each))) for name, each in own.items()]
            base.__renamed_fields__ = said_below  # type: ignore[attr-defined]
            item = placed(module, dataclasses.make_dataclass("Item", made, bases=(base,), **options))
            item.__renamed_fields__ = said
            fields = below | own
            for data_then, then in stored:
                if then.keys() == fields.keys() and then != fields:
                    continue  # all names again, and of other fields: nobody can tell
                try:
                    found = held(decode(data_then))
                except FieldsDiffer:
                    assert data_then is not stored[-1][0] or not are_clear(fields, said_below, said)
                else:
                    had = set(then.values())
                    assert found == {name: each if each in had else -each for name, each in fields.items()}
            stored.append((encode(item(**fields)), fields))

    play()


def are_clear(fields: Collection[str], *said: dict[str, str]) -> bool:
    """Whether what two classes say is clear, of each and of both together."""
    pairs = [(old, new) for each in said for old, new in each.items()]
    olds, news = [old for old, _ in pairs], [new for _, new in pairs]
    gone = any((old in fields or olds.count(old) > 1) and new not in fields for old, new in pairs)
    return not gone and len(set(news)) == len(news) and not any(old in news and new in olds for old, new in pairs)


@st.composite
def edits_of_a_class_and_its_base(draw: st.DrawFn) -> list[tuple[Version, Version]]:
    """Draw versions of a class and its base; no name is given again that a field had which has gone."""
    now: list[Version] = [({"a": 1, "b": 2}, {}), ({"c": 3, "d": 4}, {})]
    versions, gone = [(now[0], now[1])], set[str]()
    for number in range(draw(st.integers(1, 6))):
        of = draw(st.integers(0, 1))
        fields, said = dict(now[of][0]), dict(now[of][1])
        free = [each for each in "abcdefgh" if each not in now[0][0] | now[1][0] and each not in gone]
        fresh = [name for name in free if name not in said]
        edit = draw(st.sampled_from(["rename", "rename", "come", "go"]))
        if edit == "rename" and fresh and (able := [name for name in fields if name not in said]):
            old, new = draw(st.sampled_from(able)), draw(st.sampled_from(fresh))
            fields = {new if name == old else name: each for name, each in fields.items()}
            said = {each: new if then == old else then for each, then in said.items()} | {old: new}
        elif edit == "come" and free:
            fields[draw(st.sampled_from(free))] = 10 + number
        elif edit == "go" and len(fields) > 1:
            name = draw(st.sampled_from(sorted(fields)))
            gone |= {
                each for version in versions for there, _ in version for each in there if there[each] == fields[name]
            }
            del fields[name]
        now[of] = (fields, said)
        versions.append((now[0], now[1]))
    return versions


def test_a_name_that_a_base_has_given_up_is_free(module: Any) -> None:
    """What the base says of it is about its own field: that of the subclass may have been renamed to it."""
    base = {"namespace": {"__renamed_fields__": {"a": "b"}}}
    values = [
        encode(
            placed(module, dataclasses.make_dataclass("Item", ["c"], bases=(dataclasses.make_dataclass("B", ["a"]),)))(
                1, 2
            )
        ),
        encode(
            placed(
                module,
                dataclasses.make_dataclass("Item", ["c"], bases=(dataclasses.make_dataclass("B", ["b"], **base),)),
            )(1, 2)
        ),
    ]
    below = dataclasses.make_dataclass("B", ["b"], **base)
    after = placed(
        module, dataclasses.make_dataclass("Item", ["a"], bases=(below,), namespace={"__renamed_fields__": {"c": "a"}})
    )
    assert [decode(each) for each in (*values, encode(after(1, 2)))] == [after(1, 2)] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_is_registered_goes_as_that_says(kind: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies beside it: alone, with a function, and in an error."""
    item = put(module, kind, BEFORE)
    monkeypatch.setitem(copyreg.dispatch_table, item, lambda value: (Make(), ({"qty": 0, "price": 0, "name": "0"},)))
    value, one = item(qty=1, price=1, name="1"), item(qty=0, price=0, name="0")
    assert decode(encode([value])) == [one]
    assert decode(encode([value, lambda: 1]))[0] == one
    assert decode(encode(ValueError(value))).args == (one,)
