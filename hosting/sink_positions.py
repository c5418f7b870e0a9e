"""Which sink of a stream goes on from which stored position, also where an app declares others than the last one did.

A checkpoint holds positions under the numbers of sinks and a label of each: where it writes, or what it calls. An app
may have removed a sink, moved one, or put them in another order. So a declared sink takes the position of its label,
and that of one which is not declared stays until somebody lets it go, since it may come back. Nothing is guessed in
favour of loss: a sink that nobody knows may be one that was moved, so it begins where the lowest of those that are not
declared stays, and gets again what it may have had; and so do sinks of one label, which nothing tells apart. Rejected:
the number alone (the next sink took over the position of one that was removed), labels as the only names (a moved file
would begin anew), and handing the position of a sink that is not declared to a new one (it came back without it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reliable_rx.names import SINK


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


class Known(NamedTuple):
    """The position of a sink, what tells it from others of its stream, and whether the last app declared it."""

    position: int
    label: str
    was_declared: bool = True


def matched(known: Sequence[Known], declared: Sequence[str]) -> list[Known]:
    """Return what is known of the sinks *declared* now, by their labels, and behind them of those that are not.

    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b")], ["b"])]
    [2, 10]
    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b")], ["b", "moved"])]
    [2, 10, 10]
    """
    places: dict[str, list[Known]] = {label: [] for label in declared}
    for each in known:
        places.setdefault(each.label, []).append(each)
    found: dict[str, int] = {}
    left: list[Known] = []
    for label, some in places.items():
        count = declared.count(label)
        here, away = ([each.position for each in some if each.was_declared is was] for was in (True, False))
        if some and count:  # which of several is which cannot be told
            found[label] = min(here if count <= len(here) else here + away)
        if gone := max(0, len(some) - count):
            position = min(here + away if count < len(here) else away)
            left += [Known(position, label, was_declared=False)] * gone
    lowest = min((each.position for each in left), default=0)
    return [Known(found.get(label, lowest), label) for label in declared] + sorted(left)


def read_known(holders: Mapping[str, int], labels: Mapping[str, tuple[str, bool]]) -> list[Known]:
    """Return the sinks among those who held a stream, in the order of their numbers."""
    numbers = sorted(int(each.removeprefix(SINK)) for each in holders if is_sink(each))
    return [Known(holders[holder_of(n)], *labels.get(holder_of(n), ("", True))) for n in numbers]
