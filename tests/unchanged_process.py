"""An app that declares every kind of thing and never changes: ``unchanged_process.py FOLDER STORE HOW``.

FOLDER gets a library (`CHECKED`) that keeps addresses and sets in what it shows of itself, as validators that are not
written in Python do. The process hosts each kind over three numbers until all have ended, and writes as JSON what each
is called, what became of it, and what its stream holds. HOW: they are declared by a ``module`` or by a ``script``.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import json
import operator
import sys
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.sources.fingerprint import fingerprint_of

CHECKED = '''
"""A library with addresses, counters and sets in what its objects are made of."""
import functools, sys

class Native:
    """Shows an address, and the names that it takes in the order of a set."""
    def __init__(self, kind, names):
        self.kind, self.names = kind, frozenset(names)
    def __reduce_ex__(self, protocol):
        raise TypeError("of another language")
    def __repr__(self):
        shown = ", ".join(map(repr, self.names))
        return f"Native(class: Py(0x{id(self.kind):016x}), names={{{shown}}})"

class Adapter:
    def __init__(self, kind, native=False):
        self.kind = kind
        ref = f"{kind.__module__}.{kind.__qualname__}:{id(kind)}"
        self.schema = {"cls": kind, "ref": ref, "refs": [ref, (hex(id(kind)),)], ref: 1}
        self.native = Native(kind, ("zebra", "adder", "goat", "yak")) if native else None
        self.spaces = [vars(sys.modules[kind.__module__])] if native else []
    def check(self, value):
        return self.kind(value)
    __call__ = check

class Around:
    def __init__(self, function):
        self.function = function
        self.schema = {"ref": f"{function.__qualname__}:{id(function)}", id(function): function}
    def __call__(self, value):
        return self.function(value)

def checked(function):
    called = Around(function).__call__
    @functools.wraps(function)
    def around(value):
        return called(value)
    return around
'''


def generated(kind: Any) -> Any:
    """Give a class a hash that is made from a text: with a number of this process, in a file that a counter names."""
    generated.count += 1  # type: ignore[attr-defined]
    fields = "".join(f"self.{name}, " for name in vars(kind).get("__annotations__", ()))
    text = f"def __hash__(self):\n    return hash(({hash(kind.__qualname__)}, {fields}))"
    space: dict[str, Any] = {"__name__": kind.__module__}
    exec(compile(text, f"<lib generated hash {kind.__qualname__}-{hash(kind.__qualname__)}>", "exec"), space)
    kind.__hash__ = space["__hash__"]
    return kind


generated.count = 0  # type: ignore[attr-defined]


class Threshold:
    ok = frozenset(("zebra", "adder", "goat"))

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.names = {"zebra", "adder", "goat"}

    def __call__(self, x: int) -> bool:
        return x > self.limit or str(x) in self.names or str(x) in self.ok

    over = __call__

    @classmethod
    def made(cls, x: int) -> Threshold:
        return cls(x)

    @staticmethod
    def same(x: int) -> int:
        return x

    @property
    def twice(self) -> int:
        return self.limit * 2

    @functools.cached_property
    def half(self) -> int:
        return self.limit // 2


class Bad(Threshold):
    def __call__(self, x: int) -> Any:
        return 1 / (x - 2)


@dataclasses.dataclass
class Point:
    x: int
    names: set[str] = dataclasses.field(default_factory=lambda: {"zebra", "adder"})


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Frozen:
    x: int


class Level(enum.IntEnum):
    LOW, MIDDLE, HIGH = 1, 2, 3

    @property
    def shown(self) -> str:
        return self.name.lower()


class Flags(enum.Flag):
    A, B, C = 1, 2, 4


class Row(NamedTuple):
    x: int = 0


class Base(abc.ABC):
    @abc.abstractmethod
    def of(self, x: int) -> int: ...


class Derived(Base):
    def of(self, x: int) -> int:
        return sum([y + 1 for y in (x,)])


T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args)


class Registered(metaclass=Meta):
    def __init__(self, x: int) -> None:
        self.x = x


class Odd(Exception):
    def __str__(self) -> str:
        return f"odd {self.args}"


@generated
class Hashed:
    qty: int

    def __init__(self, qty: int = 0) -> None:
        self.qty = qty


@generated
class Empty:
    def __init__(self, _: int) -> None: ...


class At:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: int) -> float:
        return x * self.by


THRESHOLD = Threshold(1)
ADAPTERS: dict[str, Any] = {}


def named_adapter(x: int) -> Any:
    return ADAPTERS["point"].check(x)


def kinds() -> dict[str, Any]:
    """Return what is mapped with, for each kind."""
    import checked  # type: ignore[import-not-found]

    adapter = checked.Adapter(Point)
    return {
        "a callable object": Threshold(1),
        "a bound method": THRESHOLD.over,
        "a class method": Threshold.made,
        "a static method": Threshold.same,
        "a class": Threshold,
        "a dataclass": Point,
        "a frozen dataclass": Frozen,
        "an enum": Level,
        "flags": Flags,
        "a named tuple": Row,
        "an abstract class": Derived().of,
        "a generic class": Box,
        "an alias of a generic class": Box[int],
        "a class with a metaclass": Registered,
        "an error": Odd,
        "a partial": functools.partial(THRESHOLD),
        "a partial of a partial": functools.partial(functools.partial(Threshold.over, Threshold(2))),
        "a builtin": str,
        "a getter": operator.attrgetter("real"),
        "what fails": Bad(1),
        "a generated hash": Hashed,
        "a generated hash of nothing": Empty,
        "a generated hash in a function": lambda x: Hashed(x),
        "a library's adapter": adapter,
        "a library's bound method": adapter.check,
        "a library's adapter in a function": named_adapter,
        "a library's wrapper": checked.checked(lambda x: x),
        "a library's wrapper around one": checked.checked(checked.checked(Threshold.same)),
        "a function": lambda x: x > 1,
        "an object in a function": lambda x: THRESHOLD.over(x),
        "what fails in a function": lambda x: 1 / (x - 2),
    }


def fails(_: Any) -> None:
    raise ValueError("whatever came")


def queries() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return each kind as a query, with what it is created with."""
    n: Any = rx.source("n")
    made: dict[str, tuple[Any, dict[str, Any]]] = {name: (n.map(f).count(), {}) for name, f in kinds().items()}
    made |= {f"{name}, in a query that fails": (n.map(f).map(fails), {}) for name, f in kinds().items()}
    made["a clock"] = n.count(), {"clock": event_time(At(2.0), lateness_s=1.0)}
    made["a clock of a function"] = n.count(), {"clock": event_time(lambda x: x * 2.0, lateness_s=1.0)}
    made["a function on a clock"] = n.map(lambda x: x).count(), {"clock": event_time(At(3.0), lateness_s=1.0)}
    made["reads what fails"] = rx.source("what fails").count(), {}
    return made


class Feed:
    """A source of the app's own."""

    names = frozenset(("zebra", "adder", "goat"))

    def partitions(self) -> list[str]:
        return sorted(self.names)

    def open(self, partition: str, at: int, /) -> Any:
        return ListSource([THRESHOLD.over(1)]).open("0", at)


def sources() -> dict[str, Any]:
    """Return how a source that is given each kind is known, also one of the app's own."""
    made = {name: ListSource([1], timestamp=f) for name, f in kinds().items()}
    found = {name: list(fingerprint_of(each)[0][1:]) for name, each in made.items()}
    return {**found, "a source of its own": list(fingerprint_of(Feed())[0][1:])}


def main(folder: str, store: str) -> None:
    library = Path(folder) / "site-packages"
    library.mkdir(exist_ok=True)
    (library / "checked.py").write_text(CHECKED)
    sys.path.insert(0, str(library))
    import checked

    ADAPTERS["point"] = checked.Adapter(Point, native=__name__ != "__main__")
    with SqliteStore(store) as opened, QueryEvaluator(opened, clock=lambda: 1000.0) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        names = {}
        for name, (query, how) in queries().items():
            names[name] = query.content_hash
            evaluator.create(name, query, **how)
        before = sources()
        evaluator.run()
        said = {
            "sources": [before, sources()],
            "names": names,
            "reports": {name: str(each) for name, each in evaluator.statistics().reports.items()},
            "ends": {name: [evaluator.query(name).status, str(evaluator.query(name).error)] for name in names},
            "streams": {
                name: [[part.first, [str(each) for each in part.values]] for part in evaluator.stream(name).read(0, 99)]
                for name in names
            },
        }
    sys.stdout.write(json.dumps(said, default=dict))


if __name__ == "__main__":
    if sys.argv[3] == "script":
        main(*sys.argv[1:3])
    else:
        import unchanged_process

        unchanged_process.main(*sys.argv[1:3])
