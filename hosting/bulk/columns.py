"""Values as columns: which there are is fixed by the first events, and every later value is held to it.

Records (mappings, dataclasses, NamedTuples) become a column per field; everything else one column ``value`` of JSON.
Which Python types a column takes is decided here and not left to pyarrow, which cuts 1.5 down to 1 for a column of
integers and drops the keys that a struct does not have. What is nested, or has several types, is JSON text: it can
hold whatever comes. A field that was None all through the first events takes its type from the annotations of its
class; without these it has none, and the first value is refused with what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hosting.engine.blame import blamed
from hosting.sinks.plain import field_names, to_plain
from hosting.sinks.text import error_text, to_json
from hosting.sinks.text import shown as shown_text
from reliable_rx.errors import InternalError, SourceFailed
from reliable_rx.interrupts import let_through

PARTITION, POSITION, VALUE = "_partition", "_position", "value"
FORMAT = 1
COLUMNS_MAX = 10_000
SHOWN_CHARACTERS_MAX = 60
Kind = str
T = TypeVar("T")


class Misfit(Exception):
    """A value that its column does not take; *index* is where it stands among those that were given."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index, self.why = index, why


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of column: the type that it takes as it is, what people call it, its type in Arrow, and how to fit in."""

    native: type | None
    called: str
    arrow: Callable[[Any], Any]
    fit: Callable[[Any], Any]
    takes_none: bool = False


def blaming(values: Sequence[Any], do: Callable[[Sequence[Any]], T]) -> T:
    """Return what *do* makes of *values*. *Raises* `Misfit` for the one whose own code raises at it, alone too."""
    try:
        return do(values)
    except Misfit:
        raise
    except BaseException as raised:  # values are the user's, and so is what they raise when they are looked into
        let_through(raised)
        for index in range(len(values)):
            try:
                do(values[index : index + 1])
            except BaseException as alone:
                let_through(alone)
                raise Misfit(index, f"it cannot be looked into: {error_text(alone)}") from blamed(alone)
        raise


def kind_of(value: Any) -> Kind:
    """Return the kind of column that *value* belongs into.

    >>> import decimal
    >>> kind_of(3), kind_of(decimal.Decimal("1.50")), kind_of([1, 2])
    ('int', 'text', 'json')
    """
    if isinstance(value, datetime):
        return "datetime" if value.tzinfo is None else "instant"
    native = next((kind for kind, rule in RULES.items() if rule.native and isinstance(value, rule.native)), None)
    if native is not None:
        return native
    try:
        plain = to_plain(value)
    except BaseException as raised:
        let_through(raised)
        return "json"  # which does not take it either, and says where it stands
    return "json" if isinstance(plain, (list, dict)) else kind_of(plain)


def join(kinds: Iterable[Kind]) -> Kind:
    """Return the kind that holds values of all *kinds*."""
    found = set(kinds)
    if len(found) < 2:
        return next(iter(found), "unknown")
    return "float" if found == {"int", "float"} else "json"


def _of(kind: Kind) -> Callable[[Any], Any]:
    def fit(value: Any) -> Any:
        if kind_of(value) != kind:
            raise TypeError(f"{shown(value)} is not {RULES[kind].called}")
        native = RULES[kind].native
        return value if native is None or isinstance(value, native) else to_plain(value)

    return fit


def _number(value: Any) -> float:
    if kind_of(value) not in ("int", "float"):
        raise TypeError(f"{shown(value)} is not a number")
    if isinstance(value, int) and abs(value) > 2**53:
        raise TypeError(f"{shown(value)} cannot be held exactly by a column of floats")
    return float(value)


def _json(value: Any) -> str:
    return to_json(to_plain(value))


def _unknown(value: Any) -> Any:
    remedy = "begin anew in an empty directory and say of which kind the column is"
    raise TypeError(f"{shown(value)} came after nothing but None; {remedy}")


RULES: dict[Kind, Rule] = {
    "bool": Rule(bool, "true or false", lambda pa: pa.bool_(), _of("bool")),
    "int": Rule(int, "a whole number", lambda pa: pa.int64(), _of("int")),
    "float": Rule(float, "a number", lambda pa: pa.float64(), _number),
    "text": Rule(str, "text", lambda pa: pa.string(), _of("text")),
    "bytes": Rule(bytes, "bytes", lambda pa: pa.binary(), _of("bytes")),
    "datetime": Rule(None, "a time without a zone", lambda pa: pa.timestamp("us"), _of("datetime")),
    "instant": Rule(None, "a time with a zone", lambda pa: pa.timestamp("us", tz="UTC"), _of("instant")),
    "date": Rule(date, "a date", lambda pa: pa.date32(), _of("date")),
    "time": Rule(time, "a time of day", lambda pa: pa.time64("us"), _of("time")),
    "span": Rule(timedelta, "a span of time", lambda pa: pa.duration("us"), _of("span")),
    "json": Rule(None, "anything", lambda pa: pa.string(), _json),
    "value": Rule(None, "anything", lambda pa: pa.string(), _json, takes_none=True),
    "unknown": Rule(None, "nothing but None", lambda pa: pa.string(), _unknown),
}
KINDS = [kind for kind in RULES if kind not in ("value", "unknown")]


def shown(value: Any) -> str:
    return shown_text(value, most=SHOWN_CHARACTERS_MAX)


@dataclass(frozen=True)
class Columns:
    """The columns of an export, by name; for values that are no records it is one, of kind ``value``."""

    kinds: Mapping[str, Kind]

    def schema(self) -> Any:
        """Return the schema of every file."""
        import pyarrow as pa

        fields = [(name, RULES[kind].arrow(pa)) for name, kind in self.kinds.items()]
        return pa.schema([*fields, (PARTITION, pa.string()), (POSITION, pa.int64())])

    def table(self, partition: str, ids: Sequence[int], values: Sequence[Any]) -> Any:
        """Return *values* with their *ids* as rows. *Raises* `SourceFailed` naming the one that misfits."""
        import pyarrow as pa

        try:
            arrays = blaming(values, lambda some: self._arrays(pa, some))
        except Misfit as error:
            position = ids[error.index]
            where = f"partition {partition!r}, position {position:,}"
            message = f"{where}: {error.why}; the first events of this export fixed its columns"
            raise SourceFailed(message, partition=partition, position=position) from error
        own = [pa.repeat(partition, len(values)), pa.array(ids, pa.int64())]
        return pa.Table.from_arrays([*arrays, *own], schema=self.schema())

    def _arrays(self, pa: Any, values: Sequence[Any]) -> list[Any]:
        return [_array(pa, self.kinds[name], name, cells) for name, cells in self._cells(values)]

    def _cells(self, values: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
        if "value" in self.kinds.values():
            yield VALUE, list(values)
            return
        names = _shared_names(values)
        if names is not None and self.kinds.keys() >= set(names):
            for name in self.kinds:
                yield name, list(map(attrgetter(name), values)) if name in names else [None] * len(values)
            return
        rows = [self._row(index, value) for index, value in enumerate(values)]
        for name in self.kinds:
            yield name, [row.get(name) for row in rows]

    def _row(self, index: int, value: Any) -> Mapping[str, Any]:
        row = fields_of(value)
        if row is None:
            raise Misfit(index, f"{shown(value)} is no record")
        if not row.keys() <= self.kinds.keys():
            raise Misfit(index, f"there is no column {sorted(row.keys() - self.kinds.keys(), key=str)[0]!r}")
        return row

    def to_bytes(self) -> bytes:
        """Return what a later run reads."""
        return json.dumps({"format": FORMAT, "columns": dict(self.kinds)}).encode()


def _shared_names(values: Sequence[Any]) -> Sequence[str] | None:
    """Return the fields of *values* if they are of one class that has fields."""
    return field_names(values[0]) if len(set(map(type, values))) == 1 and not isinstance(values[0], Mapping) else None


def _array(pa: Any, kind: Kind, name: str, cells: list[Any]) -> Any:
    """Return *cells* as a column; if they are not all of its own type, each is made to fit, or found out."""
    rule = RULES[kind]
    made_by, failures = rule.arrow(pa), (pa.ArrowException, OverflowError, ValueError)
    if _all_native(kind, rule, cells):
        with suppress(*failures):
            return pa.array(cells, made_by)
    fitting = [_fitted(rule, name, index, cell) for index, cell in enumerate(cells)]
    with suppress(*failures):
        return pa.array(fitting, made_by)
    for index, cell in enumerate(fitting):  # larger than 64 bits, or text that is no Unicode
        try:
            pa.scalar(cell, made_by)
        except failures as error:
            raise Misfit(index, f"column {name!r}: {error}") from error
    raise InternalError(f"column {name!r}: its cells fit one by one, but not together")


def _all_native(kind: Kind, rule: Rule, cells: list[Any]) -> bool:
    types = set(map(type, cells)) - {NoneType}
    if types == {datetime} and kind in ("datetime", "instant"):
        return all(each is None or (each.tzinfo is None) == (kind == "datetime") for each in cells)
    return types <= {rule.native} and not rule.takes_none


def _fitted(rule: Rule, name: str, index: int, cell: Any) -> Any:
    if cell is None and not rule.takes_none:
        return None
    try:
        return rule.fit(cell)
    except BaseException as error:  # values are the user's, and so is what they raise
        let_through(error)
        why = str(error) if type(error) in (TypeError, ValueError) else error_text(error)
        raise Misfit(index, f"column {name!r}: {why}") from blamed(error)


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a record, None for anything else.

    >>> fields_of({"a": 1}), fields_of(7)
    ({'a': 1}, None)
    """
    if type(value) is dict or isinstance(value, Mapping):
        return value
    names = None if isinstance(value, type) else field_names(value)
    return None if names is None else {name: getattr(value, name) for name in names}


def infer(values: Sequence[Any], *, kinds: Mapping[str, Kind] | None = None) -> Columns:
    """Return the columns of *values*; *kinds* names those of some fields.

    >>> dict(infer([{"a": 1, "b": None}, {"a": 2.5}], kinds={"b": "text"}).kinds)
    {'a': 'float', 'b': 'text'}

    *Raises* `ValueError` for a field that has the name of one of the export's own columns, or too many fields;
    `Misfit` for a value whose own code raises.
    """
    seen = blaming(values, _kinds_in)
    if seen is None:
        return Columns({VALUE: "value"})
    named = dict(kinds or {})
    _check_names([*seen, *named])
    hints = {name: kind for value in values[:1] for name, kind in hinted(type(value)).items()}
    return Columns({name: _settled(cells, hints.get(name)) for name, cells in seen.items()} | named)


def _kinds_in(values: Sequence[Any]) -> dict[str, set[Kind]] | None:
    """Return the kinds of what each field has; None if not all *values* are records."""
    rows = [row for row in map(fields_of, values) if row is not None]
    if len(rows) < len(values) or not all(isinstance(name, str) for row in rows for name in row):
        return None
    seen: dict[str, set[Kind]] = {}
    for row in rows:
        for name, cell in row.items():
            seen.setdefault(name, set()).update(() if cell is None else (kind_of(cell),))
    return seen


def _settled(seen: set[Kind], hint: Kind | None) -> Kind:
    kind = join(seen)
    return hint if hint is not None and (kind == "unknown" or (kind, hint) == ("int", "float")) else kind


def _check_names(names: Sequence[str]) -> None:
    for own in (PARTITION, POSITION):
        if own in names:
            raise ValueError(f"a field is called {own!r}, as a column of every export is; give it another name")
    if len(names) > COLUMNS_MAX:
        raise ValueError(f"the first events have {len(names):,} fields, more than {COLUMNS_MAX:,} columns; nest them")


def hinted(kind: type) -> dict[str, Kind]:
    """Return the kinds that the annotations of a class say, as far as they are plain."""
    try:
        hints = get_type_hints(kind)
    except BaseException as raised:  # a name that is not there, or what a class of the user's raises
        let_through(raised)
        return {}
    known = {rule.native: kind for kind, rule in RULES.items() if rule.native}
    alone = {name: _without_none(hint) for name, hint in hints.items()}
    return {name: known[hint] for name, hint in alone.items() if isinstance(hint, type) and hint in known}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        rest = [each for each in get_args(hint) if each is not NoneType]
        return rest[0] if len(rest) == 1 else hint
    return hint


def read_columns(data: bytes, *, where: str) -> Columns:
    """Return what `Columns.to_bytes` wrote. *Raises* `SourceFailed` if it did not."""
    try:
        found = json.loads(data)
        kinds = {str(name): str(kind) for name, kind in found["columns"].items()}
        if found["format"] != FORMAT or not set(kinds.values()) <= RULES.keys():
            raise ValueError("it is of another version")
        return Columns(kinds)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{where} does not say which columns there are ({error}); export into an empty directory"
        raise SourceFailed(message, source=where) from error
