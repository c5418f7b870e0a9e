"""What queries emit by mistake, seen when it is to be stored: a list that goes on changing, a coroutine, a group.

All are legal Python and raise nothing. A value that is changed after it was emitted is another one for every reader,
and a replay would give other outputs than the first run. Only the first few of a checkpoint are looked at: who makes
this mistake makes it from the first event on. A run that ends before the next checkpoint looks at its end. Rejected: a
look at each value (it is the hottest path there is), and failing the query (what it has emitted up to here is durable).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

from reactivex import Observable

from hosting.engine.turns import Output
from hosting.reports.incidents import Incidents
from reliable_rx.class_of import defines, ids_of, is_a, name_of
from reliable_rx.query.query import Inner, Query

if TYPE_CHECKING:
    from hosting.edges.streams import Streams

LOOKED_AT = 32
STREAMS_MAX = 1000
"""How many streams are looked at when a run ends."""
CHANGEABLE = (list, dict, set, bytearray, deque)
CONTAINERS = (tuple, list, dict)
ATOMS = ids_of((int, float, str, bytes, bool, type(None)))
ONCE_ONLY = (("__await__",), ("__iter__", "__next__"), ("__aiter__", "__anext__"))
"""What the class of a value defines that can be used only once."""
KIND = "emitted"


def look(incidents: Incidents, stream: str, segments: Sequence[Output]) -> None:
    """Report what is wrong with what *stream* has emitted since the last checkpoint."""
    if not segments:
        return
    fault = fault_of(first_of(segments))
    if fault is None:
        incidents.resolve(KIND, stream)
    else:
        incidents.report(KIND, stream, fault, level=logging.WARNING)


class EarlyLooks:
    """Looks at what streams have emitted, before the next checkpoint does: a run may end without one."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self.seen = Counter[str]()
        """How many values of each stream were looked at since the last checkpoint."""

    def look(self, streams: Streams) -> None:
        """Report what is wrong with values that nobody has looked at; none of a stream of which enough were."""
        for name in islice(streams.changed, STREAMS_MAX):
            if self.seen[name] >= LOOKED_AT:
                continue
            values = first_of(streams[name].unstored())
            if len(values) > self.seen[name] and (fault := fault_of(values)) is not None:
                self._incidents.report(KIND, name, fault, level=logging.WARNING)
            self.seen[name] = len(values)


def first_of(segments: Sequence[Output]) -> list[Any]:
    return list(islice(chain.from_iterable(each.values for each in segments), LOOKED_AT))


def fault_of(values: Sequence[Any]) -> str | None:
    """Say what is wrong with what was emitted.

    >>> fault_of([[1], [1, 2]]) is None
    True
    """
    if any(one is other and is_a(one, CHANGEABLE) for one, other in pairwise(values)):
        return (
            "it emits the same object again: if a function changes it in between, whoever has an earlier value sees it "
            "change; let it return a new one, such as acc + [x] or {**acc, key: value} (if none does, nothing is wrong)"
        )
    for value in values:
        if id(type(value)) in ATOMS:
            continue
        if is_once_only(value):
            return unusable(value, "")
        odd = next((each for each in inside(value) if is_once_only(each)), None)
        if odd is not None:
            return unusable(odd, f" inside a {name_of(type(value))}")
    return None


def is_once_only(value: Any) -> bool:
    return any(defines(type(value), *names) for names in ONCE_ONLY)


def inside(value: Any) -> Iterator[Any]:
    """Yield the first members of a container, by its own type's way: a class of the user's may do anything there.

    They are taken at once, as the loop's thread may change it meanwhile.
    """
    kind = next((each for each in CONTAINERS if is_a(value, each)), None)
    members = dict.values(value) if is_a(value, dict) else kind.__iter__(value) if kind is not None else ()
    yield from list(islice(members, LOOKED_AT))


def unusable(odd: Any, where: str) -> str:
    """Say what is wrong with a value that nobody subscribes to, or that can be used only once."""
    if is_a(odd, Observable):
        kind = "group or window" if is_a(odd, Inner) else "query" if is_a(odd, Query) else name_of(type(odd))
        return (
            f"it emits a {kind}{where}, a sequence that nobody subscribes to: write flat_map for map, or "
            f"give merge, concat and the like their sequences one by one, as in merge(a, b)"
        )
    how = "use map_async(...) for what is to be awaited" if defines(type(odd), "__await__") else "emit a list"
    return f"it emits a {name_of(type(odd))}{where}, which can be used only once and not be stored: {how}"
