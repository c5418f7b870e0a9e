"""Which sink of a stream goes on from which stored position, also where an app declares others than the last one did.

A checkpoint holds positions under the numbers of sinks and a label of each: where it writes, or what it calls. An app
may have removed a sink, moved one, or put them in another order. So a declared sink takes number and position of its
label, and that of one which is not declared stays until somebody lets it go, since it may come back, or until it is
found to have moved (`hosting.edges.moved_sinks`). Nothing is guessed in favour of loss: a sink that nobody knows may be
one that was moved, so it begins where the lowest of those that are not declared stays, and gets again what it may have
had. So do sinks of one label, unless their fingerprints tell them apart (`hosting.edges.sink_fingerprint`); of more
than there were any may be the new one. Rejected: the number alone (the next sink took over the position of one that was
removed), labels as the only names (a moved file would begin anew), handing the position of a sink that is not declared
to any new one (it came back without it), and numbers in the order of the declarations (what the log named was another
sink in the store until the next checkpoint).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
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


Label = tuple[str, bool, str, str]
"""What a checkpoint has of a sink besides its position: label, whether it is declared, class and fingerprint."""
Labels = dict[str, Label]
"""What tells the sinks of a stream from one another, by their holders."""


class Known(NamedTuple):
    """The position of a sink, what tells it from others of its stream, and whether the last app declared it."""

    position: int
    label: str
    was_declared: bool = True
    kind: str = ""
    fingerprint: str = ""
    number: int = 0

    @property
    def name(self) -> tuple[str, str]:
        """What it is told by."""
        return self.label, self.fingerprint

    def is_called(self, name: tuple[str, str]) -> bool:
        """Whether it is told by *name*; one that was never opened has no label, and is told by its fingerprint."""
        return self.name == name or (self.label in (UNMADE, UNOPENED) and self.fingerprint == name[1] != "")

    def stored(self, *, is_gone: bool) -> Label:
        """Return what a checkpoint has of it, which nobody declares now: it *is_gone* if that is certain."""
        return self.label, self.was_declared and not is_gone, self.kind, self.fingerprint

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


def matched(known: Sequence[Known], declared: Sequence[tuple[str, str]]) -> list[Known]:
    """Return what is known of the sinks *declared* now, by label and fingerprint, and behind them of the others.

    Each that is known keeps its number.

    >>> [each.position for each in matched([Known(10, "a"), Known(2, "b", number=1)], [("b", "")])]
    [2, 10]
    >>> found = matched([Known(10, "a"), Known(2, "b", number=1)], [("b", ""), ("moved", "")])
    >>> [(each.position, each.number) for each in found]
    [(2, 1), (10, 2), (10, 0)]
    """
    left, found, groups = list(known), dict[int, Known](), list[list[int]]()
    for is_exact in (True, False):
        for group in _alike(declared, found, is_exact=is_exact):
            name = declared[group[0]]
            some = [each for each in left if (each.is_called(name) if is_exact else each.label == name[0])]
            if is_exact and len(some) != len(group):
                continue  # which of them is which, is new, or has been edited cannot be told
            kept, gone = _shared_out(some, len(group))
            left = [each for each in left if each not in some] + gone
            found |= zip(group, kept, strict=False)
            groups += [group] if len(kept) < len(group) else []
    left = [each._replace(was_declared=False) for each in left]
    lowest = min((each.position for each in left), default=0)
    fresh = (number for number in itertools.count() if number not in {each.number for each in known})
    for group in groups:  # any of them may be the new one
        position = min([lowest, *(found[at].position for at in group if at in found)])
        for at in group:
            number = found[at].number if at in found else next(fresh)
            found[at] = Known(position, declared[at][0], number=number)
    return [found[at] for at in range(len(declared))] + sorted(left)


def _alike(declared: Sequence[tuple[str, str]], found: Mapping[int, Known], *, is_exact: bool) -> Iterable[list[int]]:
    """Return which of those *declared*, that are not *found* yet, are of one label, or of one fingerprint as well."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, (label, fingerprint) in enumerate(declared):
        if at not in found:
            groups.setdefault((label, fingerprint) if is_exact else (label,), []).append(at)
    return groups.values()


def _shared_out(some: Sequence[Known], count: int) -> tuple[list[Known], list[Known]]:
    """Return which of *some*, that nothing tells apart, *count* are taken for, and the others, not declared now.

    First come those that the last app declared, and of these the furthest ahead, as each goes on where the furthest
    behind was that it may be: so the places of the others are not above where these may be.
    """
    ordered = sorted(some, key=lambda each: (not each.was_declared, -each.position))
    here = [each.position for each in some if each.was_declared]
    position = min(here if count <= len(here) else [each.position for each in some], default=0)
    return [each._replace(position=position) for each in ordered[:count]], ordered[count:]


def late_place(
    left: Mapping[str, Known], away: Mapping[str, Known], here: Mapping[str, tuple[str, str]], name: tuple[str, str]
) -> tuple[str, int | None]:
    """Return the holder of a sink called *name* that is declared after a start, and where it goes on, if one knows.

    *left* are all that the start found and did not match, *away* those of them that nobody has taken or let go; *here*
    what the others of the stream are called. One that nothing tells from others goes on where the lowest of these is,
    under the holder of the highest: who is declared later may be any of the others, and needs what is kept for it.

    >>> left = {"sink 0": Known(2, "f", fingerprint="ann"), "sink 1": Known(9, "f", fingerprint="bob")}
    >>> late_place(left, left, {}, ("f", "bob")), late_place(left, left, {}, ("f", "bob, edited"))
    (('sink 1', 9), ('sink 1', 2))
    >>> late_place(left, {"sink 0": left["sink 0"]}, {"sink 1": ("f", "bob, edited")}, ("f", "ann"))
    ('sink 0', 2)
    """
    exact = [holder for holder, each in left.items() if each.is_called(name) and (holder in away or holder in here)]
    alike = sorted((each.position, holder) for holder, each in away.items() if each.label == name[0])
    new = next(holder for holder in map(holder_of, itertools.count()) if holder not in here and holder not in left)
    if len(exact) == 1 and name not in here.values():
        free = exact[0] if exact[0] in away else alike[-1][1] if alike else new
        return free, left[exact[0]].position
    if alike:
        return alike[-1][1], alike[0][0]
    return new, min((each.position for each in away.values()), default=None)


def read_known(holders: Mapping[str, int], labels: Labels) -> list[Known]:
    """Return the sinks among those who held a stream, in the order of their numbers."""
    numbers = sorted(int(each.removeprefix(SINK)) for each in holders if is_sink(each))
    known = [(n, Known(holders[holder_of(n)], *labels.get(holder_of(n), ("", True)))) for n in numbers]
    return [each._replace(number=n) for n, each in known]
