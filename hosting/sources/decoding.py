"""From raw records to the values that queries see: split by key, choose columns, convert, parse.

Everything works on a whole chunk: columns are converted column by column (`map` over a tuple), and rows become
dictionaries in one comprehension. Only when something fails is the chunk walked record by record, to say which one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosting.engine.blame import blamed
from hosting.sources.bad_records import ADDRESS, reason_of
from reliable_rx.class_of import name_of
from reliable_rx.errors import SourceFailed
from reliable_rx.names import check_name
from reliable_rx.shown import bounded_repr, cut_end

SHOWN_MAX = 200
SEPARATORS = (";", "\t", "|")
"""By what else than commas files of this kind are separated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the records of a file become values, and partitions."""

    format: str | None = None
    columns: tuple[str, ...] | None = None
    types: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    parse: Callable[[Any], Any] | None = None
    partition_by: str | Callable[[Any], Any] | None = None
    follow: bool = False
    fails: bool = True
    """Whether a record that cannot be read fails the source; else it is left out, and told."""

    def columns_read(self) -> tuple[str, ...] | None:
        """Name the columns that must be read to hand out `columns`, or None for all."""
        if self.columns is None:
            return None
        return tuple(name for _, name in self.columns_named())

    def columns_named(self) -> Iterator[tuple[str, str]]:
        """Yield each column that an argument names, behind the name of that."""
        for name in self.columns or ():
            yield "columns", name
        for name in self.types:
            yield "types", name
        if isinstance(self.partition_by, str):
            yield "partition_by", self.partition_by


class Decoder:
    """Decodes the records of one file, whose column *names* are known (None: each record is a JSON value)."""

    def __init__(self, reading: Reading, path: Path, names: tuple[str, ...] | None) -> None:
        self._reading = reading
        self._path = path
        self._names = names
        self._columns = reading.columns if names is None else reading.columns or names
        if names is not None:
            check_columns(reading, path, names)
        self._plan = self._make_plan(names)

    def split(self, rows: Sequence[Any]) -> Mapping[str, Sequence[Any]] | None:
        """Return the rows of each key, None if one has none; with a key function, they are already values."""
        key = self._reading.partition_by
        if key is None:
            return {"": rows}
        key_of, values = (self._key_of_raw(key), rows) if isinstance(key, str) else (key, self._decoded(rows))
        if values is None:
            return None
        split: defaultdict[str, list[Any]] = defaultdict(list)
        try:
            for value in values:
                split[str(key_of(value))].append(value)
            for name in split:
                check_key(name)
        except BaseException as raised:
            blamed(raised)
            return None
        return split

    def decode(self, rows: Sequence[Any]) -> Sequence[Any] | None:
        """Return the values of the rows of one key, None if one cannot be decoded."""
        return rows if callable(self._reading.partition_by) else self._decoded(rows)

    def keyed(self, row: Any) -> tuple[str, Any, str]:
        """Return the key of a row, and the row (with a key function its value), or why it has none."""
        key = self._reading.partition_by
        if key is None:
            return "", row, ""
        item, reason = (row, "") if isinstance(key, str) else self._one(row)
        if reason:
            return "", item, reason
        try:
            return check_key(str((self._key_of_raw(key) if isinstance(key, str) else key)(item))), item, ""
        except BaseException as raised:
            return "", item, reason_of(blamed(raised))

    def value(self, item: Any) -> tuple[Any, str]:
        """Return the value of what `keyed` has returned, or why it cannot be decoded."""
        return (item, "") if callable(self._reading.partition_by) else self._one(item)

    def _make_plan(self, names: tuple[str, ...] | None) -> list[tuple[int, Callable[[Any], Any] | None]] | None:
        """Say from which column of the row each value comes and what converts it; None: rows are right as they are."""
        if names is None or (self._columns == names and not self._reading.types):
            return None
        return [(names.index(c), self._reading.types.get(c)) for c in self._columns or ()]

    def _key_of_raw(self, column: str) -> Callable[[Any], Any]:
        index: Any = column if self._names is None else self._names.index(column)
        return lambda row: row[index]

    def _decoded(self, rows: Sequence[Any]) -> Sequence[Any] | None:
        try:
            return self._values(rows)
        except BaseException as raised:
            blamed(raised)
            return None

    def _one(self, row: Any) -> tuple[Any, str]:
        try:
            (value,) = self._values([row])
        except BaseException as raised:
            return None, reason_of(self._explain(row, blamed(raised)))
        return value, ""

    def _values(self, rows: Sequence[Any]) -> list[Any]:
        values = self._converted(rows)
        if len(values) != len(rows):  # it would end a `map` in silence
            raise RuntimeError("a function that reads records has raised StopIteration")
        return values

    def _converted(self, rows: Sequence[Any]) -> list[Any]:
        names = self._columns
        if self._names is None or names is None:
            values = self._convert_records(rows)
        else:
            values = [dict(zip(names, row)) for row in self._convert_rows(rows)]  # noqa: B905 (widths are checked)
        return values if self._reading.parse is None else list(map(self._reading.parse, values))

    def _convert_rows(self, rows: Sequence[Any]) -> Sequence[Any]:
        if self._plan is None or not rows:
            return rows
        columns = list(zip(*rows))  # noqa: B905
        chosen = [columns[i] if convert is None else map(convert, columns[i]) for i, convert in self._plan]
        return list(zip(*chosen, strict=True))

    def _convert_records(self, rows: Sequence[Any]) -> list[Any]:
        columns, types = self._reading.columns, self._reading.types
        if columns is not None:
            rows = [{name: row[name] for name in columns} for row in rows]
        elif types:
            rows = [dict(row) for row in rows]  # the raw record is needed again if a conversion fails
        for name, convert in types.items():
            for row in rows:
                row[name] = convert(row[name])
        return list(rows)

    def raw(self, row: Any) -> Any:
        """Return a record as it is told that cannot be decoded: with the names of its columns."""
        return row if self._names is None else dict(zip(self._names, row, strict=True))

    def _explain(self, row: Any, error: Exception) -> Exception:
        """Say which column cannot be converted, if that is the reason."""
        for name, convert in self._reading.types.items():
            if self._names is None and not (isinstance(row, dict) and name in row):
                return error
            text = row[name if self._names is None else self._names.index(name)]
            try:
                convert(text)
            except BaseException as raised:
                reason = reason_of(blamed(raised))
                return ValueError(f"column {name!r} holds {shown(text)}, which its type refuses ({reason})")
        return error


def check_columns(reading: Reading, path: Path, names: tuple[str, ...]) -> None:
    """*Raises* `SourceFailed` for a column that is named by *reading* and is not among *names*, all that there are."""
    argument, name = next((each for each in reading.columns_named() if each[1] not in names), ("", ""))
    if argument:
        other = next((each for each in SEPARATORS if len(names) == 1 and each in names[0]), None)
        how = f"name those in {argument}=" if other is None else f"it separates by {other!r}: write it with commas"
        there = ", ".join(names) or "none"
        raise SourceFailed(f"{path} has no column {name!r}; it has {there}; {how}", source=str(path))


def check_key(text: str) -> str:
    """Return the text of a key, which names a partition. *Raises* `ValueError` for one that is not stored or found.

    >>> check_key("JFK")
    'JFK'
    """
    if ADDRESS.search(text):
        raise ValueError("its key is an object whose text is another one in the next process; let it be a str")
    return check_name("partition", text)


def shown(value: Any) -> str:
    """Return *value* as a message shows it."""
    try:
        text = bounded_repr(value, SHOWN_MAX)
    except BaseException as raised:
        blamed(raised)
        return f"a {name_of(type(value))} that cannot be shown"
    return cut_end(text, SHOWN_MAX)
