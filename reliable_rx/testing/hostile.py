"""Hostile draws: values, errors, functions, accumulators, names and records that are legal Python, and nasty.

What a library was never given it was never tested with. These are given to hosted queries, sources, sinks and stores:
whatever comes of it must be one query's, one event's or one sink's problem, told in words, and all the rest goes on.
`VALUES`, `ERRORS`, `FUNCTIONS`, `FICKLE`, `ACCUMULATORS`, `NAMES` and `RECORDS` are plain tuples, to be used as
parameters of tests; the functions of the same names in lower case are strategies for those who have Hypothesis.
Everything is made anew by each call (`make`), since some of it can be used once, and pickles by name, if at all.
"""

from __future__ import annotations

import contextlib
import threading
from collections import UserDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from reliable_rx.testing import hostile_odd
from reliable_rx.testing.hostile_classes import (
    DEEP,
    Agreeable,
    Bare,
    Colour,
    Deadly,
    DeadlyError,
    DeadlyWhenFilled,
    DeadlyWhenStored,
    Falsely,
    Holding,
    InterruptingError,
    InterruptsWhenCompared,
    InterruptsWhenFilled,
    InterruptsWhenRead,
    InterruptsWhenStored,
    LeavesWhenRead,
    LeavesWhenStored,
    LeavingError,
    NeverCopied,
    NeverEqual,
    NeverFloat,
    NeverHashed,
    NeverOrdered,
    NeverRead,
    NeverStored,
    Number,
    Refused,
    Slotted,
    Speechless,
    StopsWhenRead,
    Telling,
    Text,
    Unequal,
    Wordless,
    chained,
    coroutine,
    counting,
    doubled,
    entangled,
    itself,
    nested,
    round_about,
)
from reliable_rx.testing.needed import need_hypothesis

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

STORABLE, UNREADABLE, UNSTORABLE = "storable", "unreadable", "unstorable"


@dataclass(frozen=True)
class Hostile:
    """Something nasty: its *name* for a report, how to *make* one, and whether a store can have it back.

    It is ``storable`` (it goes into bytes and back), ``unreadable`` (into bytes only) or ``unstorable``.
    """

    name: str
    make: Callable[[], Any]
    kind: str = STORABLE

    def __repr__(self) -> str:
        return self.name


# -- values

VALUES: tuple[Hostile, ...] = (
    Hostile("NaN", lambda: float("nan")),
    Hostile("minus zero", lambda: -0.0),
    Hostile("infinite", lambda: float("-inf")),
    Hostile("5,000 digits", lambda: 10**5000),
    Hostile("too large for a float", lambda: 10**400),
    Hostile("a subclass of float", lambda: NeverFloat(7.0)),
    Hostile("agreeable", Agreeable),
    Hostile("a boolean", lambda: True),
    Hostile("no value", lambda: None),
    Hostile("a surrogate", lambda: "\ud800"),
    Hostile("a null byte", lambda: "a\0b"),
    Hostile("lines", lambda: "a\r\nb\u2028c"),
    Hostile("long", lambda: "x" * 200_000),
    Hostile("bytes", lambda: b"\xff\0"),
    Hostile("a byte array", lambda: bytearray(b"\xff")),
    Hostile("a complex number", lambda: complex(1, float("nan"))),
    Hostile("a subclass of str", lambda: Text("text")),
    Hostile("a subclass of int", lambda: Number(7)),
    Hostile("a decimal NaN", lambda: Decimal("sNaN")),
    Hostile("a fraction", lambda: Fraction(1, 3)),
    Hostile("an enum", lambda: Colour.RED),
    Hostile("a class", lambda: Bare),
    Hostile("a naive time", lambda: datetime(1, 1, 1)),
    Hostile("an odd zone", lambda: datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-23, seconds=1)))),
    Hostile("a time", lambda: datetime(2020, 1, 1, tzinfo=UTC)),
    Hostile("a set", lambda: {1, "a", None, (2,)}),
    Hostile("a dict with odd keys", lambda: {None: 1, (1,): 2, 1.5: 3, "": 4}),
    Hostile("a deque", lambda: deque([1, 2], maxlen=2)),
    Hostile("a user's dict", lambda: UserDict({"a": 1})),
    Hostile("a range", lambda: range(10**12)),
    Hostile("a slice", lambda: slice(1, 2)),
    Hostile("not implemented", lambda: NotImplemented),
    Hostile("an object", Bare),
    Hostile("slots", Slotted),
    Hostile("a namespace", lambda: SimpleNamespace(a=1)),
    Hostile("an error as a value", lambda: Refused("here", 3)),
    Hostile("a cycle", itself),
    Hostile("never equal", NeverEqual),
    Hostile("never hashed", NeverHashed),
    Hostile("never shown", Speechless),
    Hostile("never ordered", NeverOrdered),
    Hostile("never copied", NeverCopied),
    Hostile("never judged", Falsely),
    Hostile("never read", NeverRead, UNREADABLE),
    Hostile("leaves when read", LeavesWhenRead, UNREADABLE),
    Hostile("interrupts when compared", InterruptsWhenCompared),
    Hostile("interrupts when read", InterruptsWhenRead, UNREADABLE),
    Hostile("interrupts when filled", InterruptsWhenFilled, UNREADABLE),
    Hostile("stops when read", StopsWhenRead, UNREADABLE),
    Hostile("deadly when filled", DeadlyWhenFilled, UNREADABLE),
    Hostile("never stored", NeverStored, UNSTORABLE),
    Hostile("leaves when stored", LeavesWhenStored, UNSTORABLE),
    Hostile("interrupts when stored", InterruptsWhenStored, UNSTORABLE),
    Hostile("deadly when stored", DeadlyWhenStored, UNSTORABLE),
    Hostile("a lock", threading.Lock, UNSTORABLE),
    Hostile("a lock inside", lambda: {"a": [(threading.Lock(),)]}, UNSTORABLE),
    Hostile("a generator", counting, UNSTORABLE),
    Hostile("a coroutine", coroutine, UNSTORABLE),
    Hostile("deep", nested, UNSTORABLE),
    *(Hostile(*each) for each in hostile_odd.VALUES),
)


# -- errors

ERRORS: tuple[Hostile, ...] = (
    Hostile("Refused", lambda: Refused("here", 3)),
    Hostile("Holding", Holding, UNSTORABLE),
    Hostile("Wordless", Wordless),
    Hostile("Unequal", Unequal),
    Hostile("LeavingError", LeavingError, UNSTORABLE),
    Hostile("InterruptingError", InterruptingError, UNSTORABLE),
    Hostile("DeadlyError", DeadlyError, UNREADABLE),
    Hostile("Telling", Telling),
    Hostile("chained", chained),
    Hostile("round about", round_about),
    Hostile("a group", lambda: ExceptionGroup("both", [Refused("here", 3), Holding()])),
    Hostile("groups of groups", doubled),
    Hostile("entangled", entangled),
    Hostile("a surrogate", lambda: ValueError("\ud800")),
    Hostile("long", lambda: ValueError("x" * 200_000)),
    Hostile("StopIteration", StopIteration),
    Hostile("StopAsyncIteration", StopAsyncIteration),
    Hostile("RecursionError", lambda: RecursionError("deep")),
    Hostile("MemoryError", MemoryError),
    Hostile("AssertionError", AssertionError),
    Hostile("SystemExit", lambda: SystemExit(3)),
    Hostile("GeneratorExit", GeneratorExit),
    Hostile("KeyboardInterrupt", KeyboardInterrupt),
    Hostile("Deadly", lambda: Deadly("no Exception")),
    *(Hostile(*each) for each in hostile_odd.ERRORS),
)

_VALUES = {each.name: each for each in VALUES}
_ERRORS = {each.name: each for each in ERRORS}


# -- functions of one argument


@dataclass(frozen=True)
class Emits:
    """Return the value called *name* in the place of every number that leaves the rest *at* behind *every*."""

    name: str
    every: int = 5
    at: int = 4

    def __call__(self, value: Any) -> Any:
        return _VALUES[self.name].make() if _is_turn(value, self.every, self.at) else value


@dataclass(frozen=True)
class Raises:
    """Raise the error called *name* for every number that leaves the rest *at* behind *every*."""

    name: str
    every: int = 5
    at: int = 4

    def __call__(self, value: Any) -> Any:
        if _is_turn(value, self.every, self.at):
            raise _ERRORS[self.name].make()
        return value


def _is_turn(value: Any, every: int, at: int) -> bool:
    return type(value) is int and value % every == at


def falls(value: Any) -> Any:
    """Call itself without end."""
    return falls(value)


def generates(value: Any) -> Any:
    """Return a generator, where a value was meant."""
    yield value


FUNCTIONS: tuple[Hostile, ...] = (
    *(Hostile(f"emits {each.name}", partial(Emits, each.name), each.kind) for each in VALUES),
    *(Hostile(f"raises {each.name}", partial(Raises, each.name)) for each in ERRORS),
    Hostile("falls", lambda: falls),
    Hostile("generates", lambda: generates, UNSTORABLE),
    Hostile("an odd proxy", hostile_odd.OddProxy, UNSTORABLE),
)
"""Each `make` gives a function of one argument; its kind is that of what the function emits."""


@dataclass(frozen=True)
class Fickle:
    """Return what is given the first *calls* times, and do then what *function* does: no function at all."""

    function: Callable[[Any], Any]
    calls: int = 1
    counts: dict[Any, int] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, value: Any) -> Any:
        self.counts[value] = seen = self.counts.get(value, 0) + 1
        return value if seen <= self.calls else self.function(value)


def _fickle(function: Callable[[Any], Any], calls: int) -> Fickle:
    return Fickle(function, calls)


_CHANGES: tuple[Callable[[Any], Any], ...] = (
    *map(Raises, ("Refused", "Wordless", "SystemExit", "KeyboardInterrupt", "StopIteration")),
    *map(Emits, ("NaN", "5,000 digits", "no value", "a time", "a set", "never ordered", "never shown", "agreeable")),
)

FICKLE: tuple[Hostile, ...] = tuple(
    Hostile(f"{each} from call {calls + 1} on", partial(_fickle, each, calls)) for each in _CHANGES for calls in (1, 2)
)
"""Each `make` gives a function of one argument that is fine at first: for times, keys and sizes, called by nobody
knows whom how often."""


# -- accumulators: functions of a state and a value, with a seed


def grows(total: Any, value: Any) -> Any:
    """Change the state in its place, and return it again and again."""
    with contextlib.suppress(TypeError, AttributeError):
        total.append(value)
    return total


@dataclass(frozen=True)
class Becomes:
    """Make the value called *name* the state, once a number leaves the rest *at* behind *every*."""

    name: str
    every: int = 5
    at: int = 4

    def __call__(self, total: Any, value: Any) -> Any:
        return _VALUES[self.name].make() if _is_turn(value, self.every, self.at) else total


def _becoming(name: str) -> tuple[Becomes, int]:
    return Becomes(name), 0


ACCUMULATORS: tuple[Hostile, ...] = (
    Hostile("grows", lambda: (grows, [])),
    *(Hostile(f"becomes {each.name}", partial(_becoming, each.name), each.kind) for each in VALUES),
)
"""Each `make` gives an accumulator and its seed; its kind is that of the state."""


# -- names and records

NAMES: tuple[Any, ...] = (
    "", " ", ".", "..", "a/b", "a\\b", "../up", "/root", "a\0b", "a\nb", "\ud800", "é", "e\u0301", "名前", "\u202e",
    "x" * 300, "x" * 70_000, "q.dead_letters", "q.late", "top", "plan", "subject", "%s", "{}", "$HOME",
    "'; drop table x; --", "-rf", "CON", "a:b", "a b", "*", "?", Text("text"), 7, None, b"bytes", ("a",),
)  # fmt: skip
"""What a user may call a source, a query, a partition or a store; most must be refused, by name."""

RECORDS: tuple[bytes, ...] = (
    b"", b"\n", b"\r\n", b"\xef\xbb\xbf1", b"\xff\xfe1\0", b"\xff", b"\0", b"nonsense", b"{", b'{"a": 1',
    b'{"a": 1}{"a": 2}',
    b"[" * DEEP, b"[" * DEEP + b"]" * DEEP, b"NaN", b"-Infinity", b"1e999", b"9" * 5000,
    b'"\\ud800"', b'{"a": 1, "a": 2}',
    b"null", b'""', b'"unclosed', b"a,b,c,d,e,f", b'"a\nb",c', b'"' + b"x" * 200_000 + b'"', b"x" * 200_000,
    b"\x1a", b"#",
)  # fmt: skip
"""Lines as a file or a topic may have them, where JSON, CSV or text was expected."""


# -- strategies


def values(*kinds: str) -> SearchStrategy[Any]:
    """Return a strategy for hostile values, of all *kinds* if none is given, alone and within others.

    >>> from reliable_rx.testing import hostile
    >>> strategy = hostile.values(hostile.STORABLE)
    """
    need_hypothesis()
    from hypothesis import strategies as st

    single = _made(VALUES, kinds)
    return st.one_of(
        single,
        st.lists(single, max_size=3),
        st.tuples(single, st.integers()),
        st.dictionaries(st.text(max_size=3), single, max_size=2),
        st.builds(SimpleNamespace, inside=single),
    )


def errors() -> SearchStrategy[BaseException]:
    """Return a strategy for errors that are hard to keep."""
    return _made(ERRORS, ())


def functions(*kinds: str) -> SearchStrategy[Callable[[Any], Any]]:
    """Return a strategy for functions of one argument that emit or raise what is hostile."""
    return _made(FUNCTIONS, kinds)


def accumulators(*kinds: str) -> SearchStrategy[tuple[Callable[[Any, Any], Any], Any]]:
    """Return a strategy for pairs of an accumulator and its seed."""
    return _made(ACCUMULATORS, kinds)


def names() -> SearchStrategy[Any]:
    """Return a strategy for names, most of which must be refused."""
    need_hypothesis()
    from hypothesis import strategies as st

    return st.one_of(st.sampled_from(NAMES), st.text(st.characters(), max_size=5))


def records() -> SearchStrategy[bytes]:
    """Return a strategy for lines of odd bytes."""
    need_hypothesis()
    from hypothesis import strategies as st

    return st.one_of(st.sampled_from(RECORDS), st.binary(max_size=20))


def keys() -> SearchStrategy[Hashable]:
    """Return a strategy for hostile values that can be hashed."""
    return values().filter(_is_key)


def _is_key(value: Any) -> bool:
    try:
        hash(value)
    except (Exception, KeyboardInterrupt):
        return False
    return True


def _made(table: tuple[Hostile, ...], kinds: tuple[str, ...]) -> SearchStrategy[Any]:
    need_hypothesis()
    from hypothesis import strategies as st

    fit = [each for each in table if each.name not in hostile_odd.UNDRAWN]
    chosen = [each for each in fit if not kinds or each.kind in kinds]
    return st.sampled_from(chosen).map(lambda each: each.make())
