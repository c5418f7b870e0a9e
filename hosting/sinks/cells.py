"""Values as rows of SQLite: which columns there are, and what goes into each.

What SQLite would refuse when the row is inserted is refused when the value is written, since then it is known which
value it is: text that UTF-8 cannot hold, and rows longer than SQLite takes.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hosting.sinks.plain import field_names, to_plain
from hosting.sinks.text import digits, to_json

Get = Callable[[Any], Any]
Columns = Mapping[str, Get] | Sequence[str] | None

NAMED_MAX = 20
LONG = 1 << 16
"""Cells of at most so many characters never make a row too long: SQLite has at most 2,000 columns by default."""
_CELL_OVERHEAD = 9
_DIRECT = {float, bool, type(None)}


class Cells:
    """Turns values into rows of at most *row_bytes_max*."""

    def __init__(self, row_bytes_max: int) -> None:
        self.row_bytes_max = row_bytes_max
        self._has_long = False

    def rows(
        self, before: tuple[Any, ...], ids: Sequence[int], values: Sequence[Any], getters: Mapping[str, Get]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of *values*. *Raises* whatever a getter raises; `TypeError` or `ValueError` for the rest."""
        self._has_long = False
        gets, cell = list(getters.values()), self.cell
        rows = [(*before, n, *[cell(get(value)) for get in gets]) for n, value in zip(ids, values, strict=True)]
        if self._has_long:
            for row in rows:
                self._check_length(row)
        return rows

    def cell(self, value: Any) -> Any:
        """Turn *value* into what SQLite holds; integers past 64 bits become text."""
        kind = type(value)
        if kind is str:
            return value if value.isascii() and len(value) <= LONG else self._text(value)
        if kind in _DIRECT:
            return value
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else digits(value)
        if kind is bytes:
            self._has_long = self._has_long or len(value) > LONG
            return value
        return self._plain(value)

    def _text(self, value: str) -> str:
        size = len(value.encode())  # raises for what UTF-8 cannot hold
        self._has_long = self._has_long or size > LONG
        return value

    def _plain(self, value: Any) -> Any:
        plain = to_plain(value)
        if isinstance(plain, str):
            return self.cell(str.__str__(plain))
        for kind in (bool, int, float):
            if isinstance(plain, kind):
                return self.cell(kind(plain))
        return self.cell(to_json(plain)) if isinstance(plain, (dict, list)) else plain

    def _check_length(self, row: tuple[Any, ...]) -> None:
        sizes = (
            len(each.encode() if isinstance(each, str) else each) for each in row if isinstance(each, (str, bytes))
        )
        size = sum(sizes) + _CELL_OVERHEAD * len(row)
        if size > self.row_bytes_max:
            raise ValueError(f"its row has {size:,} bytes, and SQLite takes {self.row_bytes_max:,}")


def getters_of(columns: Columns, keys: Sequence[str]) -> dict[str, Get] | None:
    """Return the function for each column that was asked for. *Raises* `ValueError` for names that clash."""
    if columns is None:
        return None
    getters = dict(columns) if isinstance(columns, Mapping) else {name: field(name) for name in columns}
    _check_names([*columns], keys)
    return getters


def fields_of(value: Any, keys: Sequence[str]) -> dict[str, Get]:
    """Return the function for each column of a table whose first value is *value*."""
    names = field_names(value)
    getters: dict[str, Get] = {"value": as_json} if names is None else {str(name): field(str(name)) for name in names}
    _check_names([*getters], keys)
    return getters


def _check_names(columns: Sequence[str], keys: Sequence[str]) -> None:
    names = [name.lower() for name in columns]
    if not names:
        raise ValueError("a table needs a column beside its id; give columns=")
    if set(keys) & set(names) or len(set(names)) < len(names):
        remedy = "give columns={'name': function of the value, …} with other names"
        raise ValueError(
            f"the columns {', '.join(columns)} repeat a name or the table's own {' and '.join(keys)}; {remedy}"
        )
    for name in columns:
        if not name.isascii():
            name.encode()  # raises for what UTF-8 cannot hold
        if "\0" in name:
            raise ValueError(f"{name!r} cannot name a column; give columns= with other names")


def quoted(name: str) -> str:
    """Return *name* as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def ways_to(table: str, columns: Sequence[str], keys: Sequence[str], wanted: Collection[str]) -> str:
    """Say how *table*, with *columns* of which the first are *keys*, comes to have the *wanted* ones behind those.

    >>> ways_to("t", ["id", "a"], ["id"], ["a", "b"])
    'add what it lacks, and nothing is lost: ALTER TABLE "t" ADD COLUMN "b"'
    """
    there, needed = ({each.lower() for each in names} for names in (columns, wanted))
    more = [each for each in columns[len(keys) :] if each.lower() not in needed]
    lacks = [each for each in wanted if each.lower() not in there]
    adds = "; ".join(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(each)}" for each in lacks)
    drops = "; ".join(f"ALTER TABLE {quoted(table)} DROP COLUMN {quoted(each)}" for each in more)
    ways = [f"add what it lacks, and nothing is lost: {adds}"] if adds else []
    if more:
        ways.append(f"name {', '.join(more)} in columns= again, or give their values up: {drops}")
    return "; and ".join(ways)


def field(name: str) -> Get:
    """Return what gets the field or key *name* of a value."""

    def get(value: Any) -> Any:
        try:
            return value[name] if isinstance(value, Mapping) else getattr(value, name)
        except (KeyError, AttributeError):
            check_has(value, name)
            raise

    return get


def check_has(value: Any, name: str) -> None:
    """*Raises* `TypeError` for a value whose fields are known, and have not this *name*."""
    names = field_names(value)
    if names is not None and name not in names:
        known = [str(each) for each in names]
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"no {name!r}, the value has {', '.join(known[:NAMED_MAX]) or 'none'}{guess}")


def as_json(value: Any) -> str:
    """Write *value* as JSON text."""
    return to_json(to_plain(value))
