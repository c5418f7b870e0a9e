"""Marbles: streams in virtual time, written as text and back.

``--a-b-|`` is easier to read in a test than three tuples. One character is one tick: ``-`` nothing, a letter or digit
a value, ``|`` the end, ``#`` an error, ``(ab)`` several at the tick of the parenthesis; a space is not even a tick.
Rejected: `reactivex`'s own parser, which reads ``ab`` as one value, so that values in consecutive ticks cannot be
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from reliable_rx.errors import type_of
from reliable_rx.shown import bounded_repr

SHOWN_MAX = 2000
NEXT, ERROR, COMPLETED, RAISED = "N", "E", "C", "R"
"""What a recorded notification is; RAISED is an exception that came out of the query instead of going through it."""


class Timed(NamedTuple):
    """One notification at a virtual time: of kind ``"N"`` (a value), ``"E"`` (an error) or ``"C"`` (the end)."""

    time_s: float
    kind: str
    value: Any = None

    def __str__(self) -> str:
        try:
            value = bounded_repr(self.value, SHOWN_MAX)
        except (Exception, KeyboardInterrupt) as error:  # of a value that is drawn to be nasty
            value = f"<cannot be shown: {type_of(error)}>"
        what = {NEXT: value, COMPLETED: "|", ERROR: f"#{value}", RAISED: f"raised {value}"}
        return f"{what[self.kind]} @ {self.time_s:g}"


def parse_marbles(
    text: str, *, values: Mapping[str, Any] | None = None, error: Exception | None = None, tick_s: float = 1.0
) -> list[Timed]:
    """Read marbles; digits are numbers, other characters stand for themselves unless *values* says what they are.

    >>> [str(each) for each in parse_marbles("-a-(1b)|", values={"b": None})]
    ["'a' @ 1", '1 @ 3', 'None @ 3', '| @ 7']

    *Raises* `ValueError` for unbalanced parentheses and for marbles behind the end.
    """
    timed: list[Timed] = []
    for tick, mark in _ticks(text):
        if timed and timed[-1].kind != NEXT:
            raise ValueError(f"marbles end with | or #, but {mark!r} follows in {text!r}")
        timed.append(_notification(tick * tick_s, mark, values or {}, error))
    return timed


def _ticks(text: str) -> Iterator[tuple[int, str]]:
    """Yield every marble with its tick; those of a group share the group's first."""
    group: int | None = None
    for tick, mark in enumerate(text.replace(" ", "")):
        if mark == "(" and group is None:
            group = tick
        elif mark == ")" and group is not None:
            group = None
        elif mark in "()":
            raise ValueError(f"unbalanced parentheses in marbles {text!r}")
        elif mark != "-":
            yield (tick if group is None else group), mark
    if group is not None:
        raise ValueError(f"unbalanced parentheses in marbles {text!r}")


def _notification(time_s: float, mark: str, values: Mapping[str, Any], error: Exception | None) -> Timed:
    if mark == "|":
        return Timed(time_s, COMPLETED)
    if mark == "#":
        return Timed(time_s, ERROR, error or Exception("error"))
    return Timed(time_s, NEXT, values[mark] if mark in values else int(mark) if mark.isdigit() else mark)


def draw_marbles(timed: Iterable[Timed], *, values: Mapping[str, Any] | None = None, tick_s: float = 1.0) -> str:
    """Write a stream as marbles: the other way round from `parse_marbles`.

    >>> draw_marbles(parse_marbles("-a-(1b)|"))
    '-a-(1b)|'

    *Raises* `ValueError` when a value has no character, or a notification no tick of its own.
    """
    text = ""
    for time_s, together in groupby(timed, key=lambda each: each.time_s):
        marks = "".join(_mark(each, values or {}) for each in together)
        tick = round(time_s / tick_s)
        if tick < len(text) or tick * tick_s != time_s:
            raise ValueError(f"{time_s:g} s is not a free tick of {tick_s:g} s behind {text!r}: take a smaller tick_s")
        text += "-" * (tick - len(text)) + (marks if len(marks) == 1 else f"({marks})")
    return text


def _mark(each: Timed, values: Mapping[str, Any]) -> str:
    if each.kind != NEXT:
        return "|" if each.kind == COMPLETED else "#"
    mark = next((mark for mark, value in values.items() if value == each.value), str(each.value))
    if len(mark) != 1 or mark in "-|#() ":
        raise ValueError(f"{each.value!r} has no marble: name one in values={{'x': ...}}")
    return mark


def draw_columns(streams: Sequence[Sequence[Timed]], *, tick_s: float = 1.0) -> list[str]:
    """Write streams below each other, one column a tick, each column as wide as its longest value.

    >>> rows = [parse_marbles("-a-b|"), [Timed(1.0, NEXT, [1, 2]), Timed(4.0, COMPLETED)]]
    >>> for row in draw_columns(rows): print(row)
    -a------b|
    -[1, 2]--|
    """
    cells = [_cells(stream, tick_s) for stream in streams]
    ticks = sorted({tick for row in cells for tick in row})
    widths = {tick: max(len(row.get(tick, "")) for row in cells) for tick in ticks}
    return [_row(row, widths) for row in cells]


def _cells(stream: Sequence[Timed], tick_s: float) -> dict[int, str]:
    cells: dict[int, list[str]] = {}
    for each in stream:
        tick = round(each.time_s / tick_s)
        if tick * tick_s != each.time_s:
            raise ValueError(f"{each.time_s:g} s is not a tick of {tick_s:g} s: take a smaller tick_s")
        mark = {COMPLETED: "|", ERROR: "#"}.get(each.kind) or str(each.value)
        cells.setdefault(tick, []).append(mark)
    return {tick: marks[0] if len(marks) == 1 else f"({' '.join(marks)})" for tick, marks in cells.items()}


def _row(row: dict[int, str], widths: dict[int, int]) -> str:
    over = [tick for tick, text in row.items() if text.endswith(("|", "#", "|)", "#)"))]
    last = max(over, default=max(widths, default=0))
    before = "".join(row.get(tick, "").ljust(widths.get(tick, 1), "-") for tick in range(last))
    return before + row.get(last, "-" * widths.get(last, 1))


class Drawing(str):
    """A text that a console shows as it is."""

    __slots__ = ()
    __repr__ = str.__str__
