"""Which sink of a stream goes on from which stored position, also where an app declares others than the last one did.

A checkpoint holds positions under the numbers of sinks and a label of each: where it writes, or what it calls. An app
may have removed a sink, moved one, or put them in another order. So a declared sink takes number and position of its
label, and that of one which is not declared stays until somebody lets it go, since it may come back, or until it is
found to have moved (`hosting.edges.moved_sinks`). One that nobody knows begins at 0, or, if the last app had one of its
class in its place, where that was: it may have been renamed. Two sinks of a stream have two labels, or the second is
refused. Rejected: the number alone (the next sink took over the position of one that was removed), labels as the only
names (a moved file would begin anew), handing the position of a sink that is not declared to any new one (it came back
without it), a new one where the lowest of all was that are not declared (a mistyped path decided for each later sink),
numbers in the order of the declarations (what the log named was another sink in the store until the next checkpoint),
and sinks of one label, told apart by what they were made with (an edit or another Python changes that, and then one
took the place of another).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from hosting.sinks.guard import sink_itself
from reliable_rx.class_of import qualname_of
from reliable_rx.names import SINK
from reliable_rx.operators.contract.arguments import cut

UNMADE = "(not made)"
"""The label of what stands in the place of a sink that could not be made: it may be one that is known."""


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
        if isinstance(found, str) and (text := str.__str__(found)):
            return text  # a member of an enumeration, say, is kept as a text
    return type(sink).__qualname__


def target_of(sink: Any) -> str | None:
    """Return what no other sink may write, if *sink* says what that is."""
    found = getattr(sink, "target", None)
    return str.__str__(found) or None if isinstance(found, str) else None


def check_label(stream: str, label: str, labels: Collection[str]) -> None:
    """*Raises* `ValueError` if a sink of *stream* is called *label*, as one of *labels*, those of its others, is."""
    if label in labels and label != UNMADE:
        raise ValueError(
            f"stream {stream!r} has a sink with the label {cut(label)} already, so that a start could not tell which "
            f"of the two goes on where: give each a label of its own (CallbackSink takes label=, a class of yours has "
            f"an attribute label); where a cell of a notebook was run again, the first one goes on"
        )


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
    sink = sink_itself(sink)
    return sink.stands_for if isinstance(sink, StandIn) else qualname_of(type(sink))


Label = tuple[str, bool | None, str]
"""What a checkpoint has of a sink besides its position: label, whether it is declared, and class.

None: it is not certain, as it may be one that could not be made.
"""
Labels = dict[str, Label]
"""What tells the sinks of a stream from one another, by their holders."""


class Named(Protocol):
    """A sink that is told from others of its stream by its label; *kind* is the name of its class."""

    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> str: ...


class Known(NamedTuple):
    """The position of a sink, what tells it from others of its stream, and whether the last app declared it.

    None: it may have been one that could not be made.
    """

    position: int
    label: str
    was_declared: bool | None = True
    kind: str = ""
    number: int = 0

    def stored(self, *, is_gone: bool | None) -> Label:
        """Return what a checkpoint has of it, which nobody declares now: it *is_gone*; None: that is not certain."""
        if is_gone or self.was_declared is False:
            return self.label, False, self.kind
        return self.label, None if is_gone is None else self.was_declared, self.kind

    def __str__(self) -> str:
        return described(self.kind, self.label)


def described(kind: str, label: str) -> str:
    """Say what a sink is.

    >>> described("JsonLinesSink", "/tmp/out"), described("Mail", "Mail"), described("", "/tmp/out")
    ('a JsonLinesSink to /tmp/out', 'a Mail', 'a sink to /tmp/out')
    >>> described("JsonLinesSink", UNMADE)
    'a JsonLinesSink that could not be made'
    """
    name = kind.rpartition(".")[2] or "sink"
    if label == UNMADE:
        return f"a {name} that could not be made"
    return f"a {name}" if label in ("", kind) else f"a {name} to {label}"


def matched(known: Sequence[Known], declared: Sequence[Named]) -> list[Known]:
    """Return what is known of the sinks *declared* now, by their labels, and behind them of those that are not.

    Each that is known keeps its number.

    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b", number=1)], [Known(0, "b")])]
    [2, 10]
    >>> found = matched([Known(10, "a"), Known(2, "b", number=1)], [Known(0, "b"), Known(0, "renamed")])
    >>> [(each.position, each.number) for each in found]
    [(2, 1), (10, 2), (10, 0)]
    """
    alike = map(partial(_as_low_as_any_alike, known), known)
    left, found = sorted(alike, key=attrgetter("position", "number")), dict[int, Known]()
    for at, sink in enumerate(declared):
        some = [each for each in left if each.label == sink.label]
        if some:  # several that stand in the place of others have one label
            found[at] = some[0]
            left.remove(some[0])
    new = {at: sink for at, sink in enumerate(declared) if at not in found}
    kinds = [each.kind for each in new.values()]
    all_are_made = UNMADE not in {each.label for each in declared}
    fresh = (number for number in itertools.count() if number not in {each.number for each in known})
    for at, sink in new.items():
        position = 0 if sink.label == UNMADE else begins_at(sink.kind, left, kinds.count(sink.kind) * all_are_made)
        found[at] = Known(position, sink.label, number=next(fresh))
    return [found[at] for at in range(len(declared))] + [each._replace(was_declared=False) for each in left]


def begins_at(kind: str, left: Collection[Known], new: int) -> int:
    """Return where a new sink of class *kind* begins: where the lowest of those *left* is that it may be, or at 0.

    It may be one that could not be made. Of the *new* sinks of its class it may be a renamed one, if the last app had
    no fewer of that class which are not declared now; 0 *new* ones if nothing can be said of that.

    >>> left = [Known(7, "f", kind="K"), Known(3, "g", kind="L"), Known(5, "h", was_declared=False, kind="K")]
    >>> begins_at("K", left, 1), begins_at("K", left, 2), begins_at("K", left, 0), begins_at("M", left, 1)
    (7, 0, 0, 0)
    """
    unmade = [each for each in left if each.label == UNMADE]
    renamed = [each for each in left if each.kind == kind and each.was_declared and each not in unmade]
    return min([each.position for each in (*unmade, *(renamed if 0 < new <= len(renamed) else ()))], default=0)


def _as_low_as_any_alike(known: Sequence[Known], each: Known) -> Known:
    """Return *each* where the lowest of *known* is that has its label: in an older store several sinks had one."""
    if each.label == UNMADE:
        return each
    return each._replace(position=min(one.position for one in known if one.label == each.label))


def read_known(holders: Mapping[str, int], labels: Labels) -> list[Known]:
    """Return the sinks among those who held a stream, in the order of their numbers."""
    numbers = sorted(int(each.removeprefix(SINK)) for each in holders if is_sink(each))
    known = [(n, Known(holders[holder_of(n)], *labels.get(holder_of(n), ("", True)))) for n in numbers]
    return [each._replace(number=n) for n, each in known]
