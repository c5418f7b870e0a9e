"""How values are taken apart is part of the format of a store: who changes it needs a new number.

``python tests/test_value_format.py`` writes `tests/golden/format_NUMBER/values.txt` for one that has none.
"""

from __future__ import annotations

import pickletools
import sys
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from enum import Enum, Flag, auto
from pathlib import Path
from typing import Any, NamedTuple

from checkpoint.format.codec import encode
from checkpoint.format.envelope import FORMAT

FILE = Path(__file__).parent / "golden" / f"format_{FORMAT}" / "values.txt"


class Named(NamedTuple):
    price: float
    qty: int


class Open(namedtuple("Open", "price qty")):
    """One with a dict beside its fields."""


@dataclass
class Plain:
    price: float
    qty: int


@dataclass(frozen=True, slots=True)
class Slots:
    price: float
    qty: int


@dataclass(frozen=True, slots=True)
class Basket(dict[str, int]):
    price: float


class Colour(Enum):
    RED = auto()


class Rights(Flag):
    READ = auto()
    WRITE = auto()


class Hand:
    __slots__ = ("price",)

    def __init__(self, price: float) -> None:
        self.price = price


class Own:
    def __init__(self, price: float) -> None:
        self.price = price

    def __getstate__(self) -> Any:
        return (self.price,)

    def __setstate__(self, state: Any) -> None:
        (self.price,) = state


def filled(basket: Any) -> Any:
    basket["a"] = 1
    return basket


VALUES = {
    "named tuple": Named(9.5, 3),
    "named tuple with a dict": Open(9.5, 3),
    "dataclass": Plain(9.5, 3),
    "frozen dataclass with slots": Slots(9.5, 3),
    "frozen dataclass that is a dict": filled(Basket(9.5)),
    "member": Colour.RED,
    "flags": Rights.READ | Rights.WRITE,
    "slots": Hand(9.5),
    "own state": Own(9.5),
    "error": ValueError("bad"),
    "object": object(),
    "containers": [(1, 2.5), {"a": b"x"}, frozenset([1]), deque([1])],
    "ordered": OrderedDict(a=None),
}


def written(value: Any) -> str:
    """Return what is stored of *value* in the words of pickle."""
    steps = pickletools.genops(encode(value))
    return " ".join(
        f"{code.name}({arg!r})" if arg is not None else code.name
        for code, arg, _ in steps
        if code.name not in ("FRAME", "MEMOIZE")
    ).replace("__main__", Path(__file__).stem)


def test_values_are_stored_as_they_were() -> None:
    """Of each kind as the file of this format says."""
    assert [f"{name}: {written(value)}" for name, value in VALUES.items()] == FILE.read_text().splitlines()


if __name__ == "__main__":
    if FILE.exists():
        sys.exit(f"{FILE} is there: give what is stored otherwise a new FORMAT")
    FILE.write_text("".join(f"{name}: {written(value)}\n" for name, value in VALUES.items()))
