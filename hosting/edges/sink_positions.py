"""Which sink of a stream goes on from which stored position, also where an app declares others than the last one did.

A checkpoint holds positions under the numbers of sinks and a label of each: where it writes, or what it calls. An app
may have removed a sink, moved one, or put them in another order. So a declared sink takes number and position of its
label, and that of one which is not declared stays until somebody lets it go, since it may come back, or until it is
found to have moved (`hosting.edges.moved_sinks`). Nothing is guessed in favour of loss: a sink that nobody knows may be
one that was moved, so it begins where the lowest of those that are not declared stays, and gets again what it may have
had; and so do sinks of one label, which nothing tells apart. Rejected: the number alone (the next sink took over the
position of one that was removed), labels as the only names (a moved file would begin anew), handing the position of a
sink that is not declared to any new one (it came back without it), and numbers in the order of the declarations (what
the log named was another sink in the store until the next checkpoint).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hosting.sinks.guard import sink_itself
from reliable_rx.class_of import qualname_of
from reliable_rx.names import SINK

UNMADE = "(not made)"
"""The label of what stands in the place of a sink that could not be made or opened, and may be one that is known."""
UNOPENED = "(never opened)"
"""The same where no other is known that it could be: its place is its own."""


class StandIn:
    """What stands in the place of a sink: *stands_for* is the name of its class."""

    stands_for = "sink"


def holder_of(number: int) -> str:
    """Return the name under which sink *number* of a stream holds it."""
    return f"{SINK}{number}"


def is_sink(holder: str) -> bool:
    return holder.startswith(SINK)


def label_of(sink: Any) -> str:
    """Return what tells *sink* from others of its stream: its `label`, its `target`, or its class."""
    for name in ("label", "target"):
        found = getattr(sink, name, None)
        if isinstance(found, str) and found:
            return found
    return type(sink).__qualname__


def target_of(sink: Any) -> str | None:
    """Return what no other sink may write, if *sink* says what that is."""
    found = getattr(sink, "target", None)
    return found if isinstance(found, str) and found else None


def check_apart(name: str, source: Any, stream: str, sink: Any) -> None:
    """*Raises* `ValueError` if the source *name* would read what *sink* writes: what it gives would come in again."""
    target, finds = target_of(sink), getattr(source, "finds", None)
    if target is not None and finds is not None and finds(target):
        raise ValueError(
            f"source {name!r} finds {target}, which the sink of stream {stream!r} writes, so that outputs would come "
            f"in as events, maybe without end: write it where the source does not look, or have a query read the "
            f"stream by its name, rx.source({stream!r})"
        )


def kind_of(sink: Any) -> str:
    """Return the name of the class of *sink*, or of the one that it guards or stands for."""
    if isinstance(sink, StandIn):
        return sink.stands_for
    return qualname_of(type(sink_itself(sink)))


class Known(NamedTuple):
    """The position of a sink, what tells it from others of its stream, and whether the last app declared it."""

    position: int
    label: str
    was_declared: bool = True
    kind: str = ""
    number: int = 0

    def __str__(self) -> str:
        return described(self.kind, self.label)


def described(kind: str, label: str) -> str:
    """Say what a sink is.

    >>> described("JsonLinesSink", "/tmp/out"), described("Mail", "Mail"), described("", "/tmp/out")
    ('a JsonLinesSink to /tmp/out', 'a Mail', 'a sink to /tmp/out')
    >>> described("JsonLinesSink", UNOPENED)
    'a JsonLinesSink that was never opened'
    """
    name = kind.rpartition(".")[2] or "sink"
    if label in (UNMADE, UNOPENED):
        return f"a {name} that was never opened"
    return f"a {name}" if label in ("", kind) else f"a {name} to {label}"


def matched(known: Sequence[Known], declared: Sequence[str]) -> list[Known]:
    """Return what is known of the sinks *declared* now, by their labels, and behind them of those that are not.

    Each that is known keeps its number.

    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b", number=1)], ["b"])]
    [2, 10]
    >>> [each[::4] for each in matched([Known(10, "a"), Known(2, "b", number=1)], ["b", "moved"])]
    [(2, 1), (10, 2), (10, 0)]
    """
    places: dict[str, list[Known]] = {label: [] for label in declared}
    for each in known:
        places.setdefault(each.label, []).append(each)
    found: dict[str, int] = {}
    numbers: dict[str, list[int]] = {}
    left: list[Known] = []
    for label, some in places.items():
        count = declared.count(label)
        here, away = ([each.position for each in some if each.was_declared is was] for was in (True, False))
        ordered = sorted(some, key=lambda each: not each.was_declared)
        numbers[label] = [each.number for each in ordered[:count]]
        if some and count:  # which of several is which cannot be told
            found[label] = min(here if count <= len(here) else here + away)
        if gone := ordered[count:]:
            position = min(here + away if count < len(here) else away)
            left += [each._replace(position=position, was_declared=False) for each in gone]
    lowest = min((each.position for each in left), default=0)
    used = {each.number for each in known}
    fresh = (number for number in itertools.count() if number not in used)
    return [
        Known(found.get(label, lowest), label, number=numbers[label].pop(0) if numbers[label] else next(fresh))
        for label in declared
    ] + sorted(left)


def read_known(holders: Mapping[str, int], labels: Mapping[str, tuple[str, bool, str]]) -> list[Known]:
    """Return the sinks among those who held a stream, in the order of their numbers."""
    numbers = sorted(int(each.removeprefix(SINK)) for each in holders if is_sink(each))
    return [Known(holders[holder_of(n)], *labels.get(holder_of(n), ("", True, "")), number=n) for n in numbers]
