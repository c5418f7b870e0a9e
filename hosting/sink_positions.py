"""Which sink of a stream goes on from which stored position, also where an app declares others than the last one did.

A checkpoint holds positions under the numbers of sinks and a label of each: where it writes, or what it calls. An app
may have removed a sink, moved one, or put them in another order. So a declared sink takes the position of its label.
What is left over is never guessed in favour of loss: a sink that nobody knows takes the lowest position of those that
nobody claims, and gets again what it may have had. Rejected: the number alone (the next sink took over the position of
one that was removed), and labels as the only names (a moved file would begin anew).
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
    """The position of a sink, and what tells it from others of its stream."""

    position: int
    label: str


def matched(known: Sequence[Known], declared: Sequence[str]) -> list[Known]:
    """Return what is known of the sinks *declared* now, by their labels, and behind them of those that are not.

    >>> matched([Known(10, "a"), Known(2, "b")], ["b"])
    [Known(position=2, label='b'), Known(position=10, label='a')]
    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b")], ["b", "moved"])]
    [2, 10]
    """
    before: dict[str, list[int]] = {}
    for each in known:
        before.setdefault(each.label, []).append(each.position)
    found: dict[int, int] = {}
    for label in dict.fromkeys(declared):
        places, positions = [n for n, each in enumerate(declared) if each == label], before.get(label, [])
        if positions:  # which of several is which cannot be told
            positions = sorted(positions)
            positions = [positions[0]] * len(places) + positions[len(places) :]
        found.update(zip(places, positions, strict=False))
        before[label] = positions[len(places) :]
    left = sorted(Known(position, label) for label, some in before.items() for position in some)
    new = [n for n in range(len(declared)) if n not in found]
    if left:
        found.update(dict.fromkeys(new, left[0].position))
        left = left[len(new) :]
    return [Known(found.get(n, 0), label) for n, label in enumerate(declared)] + left


def read_known(holders: Mapping[str, int], labels: Mapping[str, str]) -> list[Known]:
    """Return the sinks among those who held a stream, in the order of their numbers."""
    numbers = sorted(int(each.removeprefix(SINK)) for each in holders if is_sink(each))
    return [Known(holders[holder_of(n)], labels.get(holder_of(n), "")) for n in numbers]
