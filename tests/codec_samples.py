"""Values of every kind that the codec and the digest must take, in a module of their own.

Processes of other hash seeds import it, and nothing else of the tests, which takes twice as long.
"""

from __future__ import annotations

import enum
import re
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import Any
from uuid import UUID

from checkpoint import digest

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Flight:
    carrier: str
    delays: list[float]
    tags: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Slotted:
    at: datetime
    what: Any


class Plain:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Names(set[str]):
    pass


class Text(str):
    pass


class Zone(tzinfo):
    """A zone whose ``str`` is the default one: an address."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, when: datetime | None) -> None:
        return None

    def tzname(self, when: datetime | None) -> str:
        return "odd"


WORDS = [f"word {number}" for number in range(40)]


def samples() -> list[Any]:
    """Values of every kind; made anew at each call, and with sets whose order depends on the hash seed."""
    fails = ValueError("no", 3)
    fails.add_note("seen at the gate")
    return [
        [None, True, 1, -(10**30), 1.5, float("inf"), 2j, "text", "ünï\ud800", b"bytes", ...],
        [set(WORDS), frozenset(WORDS), {("a", 1), ("b", None), 3, "c"}],
        {"key": [1, (2, {"deep": {"x", "y", "z"}})], 2: {}},
        Point(1, {"p", "q", "r"}),
        Flight("UA", [1.0, 2.5], set(WORDS)),
        Slotted(datetime(2013, 1, 1, 5, 15, tzinfo=UTC), (Flight("AA", []),)),
        Plain(name="n", inner=Plain(words=set(WORDS))),
        Slots({"s", "t", "u"}, [Slots(1, 2)]),
        [Colour.RED, Colour.BLUE, Level.HIGH],
        [Decimal("1.50"), Fraction(1, 3), UUID(int=7), range(1, 9, 2), slice],
        [date(2013, 1, 1), time(5, 15), timedelta(days=1, microseconds=3), datetime(2013, 1, 1, fold=1)],
        datetime(2013, 1, 1, tzinfo=timezone(timedelta(hours=-5), "EST")),
        datetime(2013, 1, 1, tzinfo=Zone()),
        [ValueError("no", 3), KeyError("k"), fails, ExceptionGroup("both", [OSError(2, "gone"), fails])],
        [OrderedDict(a=1), Counter("abca"), defaultdict(list, x=[1]), deque([1, 2], maxlen=3)],
        [Names(WORDS), Text("t"), bytearray(b"ba")],
        [len, int, Flight, partial(int, base=2), itemgetter(1), re.compile("a+b")],
    ]


def digests() -> list[str]:
    return [digest([sample]).hex() for sample in samples()]
