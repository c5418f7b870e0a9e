"""What the columns of packets mean: rows in, as events with their keys and sequence ids, and notifications out.

Values are those of everything that comes out of Spark (`spark_bridge.values`), so a query sees the same whether a
micro-batch log brings its events to an evaluator or a bucket has them here. What a query emits has to fit the columns
that ``emits`` names; what does not is refused with the value, never cut down to fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from reliable_rx.errors import described
from reliable_rx.operators.contract.arguments import cut
from spark_bridge.keyed import Arrivals, Emitted
from spark_bridge.keyed.emitted import COMPLETED, ERROR, NEXT
from spark_bridge.on_spark.packets import sealed, unpacked
from spark_bridge.values import column_values

Rows = Literal["dict", "tuple"]
TICK = -1
"""The source of a tick of the clock, which has no rows."""
SEQ, TIME = 0, 1
"""Where the sequence id stands in a packet, and the time, if the query is on event time."""
US = 1e6


@dataclass(frozen=True)
class SourceColumns:
    """The columns in the packets of one source, and which of them make the key and the event."""

    name: str
    schema: Any
    key: tuple[int, ...]
    event: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """What the packets of a query hold, as the workers need to know it."""

    key: tuple[str, ...]
    sources: tuple[SourceColumns, ...]
    value: str | None
    rows: Rows
    event_time: bool
    output: Any
    emitted: tuple[str, ...] | None

    # -- rows in

    def arrivals(self, packets: Sequence[tuple[bytes, int]]) -> Arrivals:
        """Return the events in *packets*, each given with the number of its source."""
        several = len(self.sources) > 1
        found = Arrivals([], [], [], [] if several else None, [] if self.event_time else None)
        for packet, number in packets:
            if number != TICK:
                self.add(found, self.sources[number], unpacked(packet, self.sources[number].schema))
        return found

    def add(self, found: Arrivals, source: SourceColumns, rows: Any) -> None:
        wanted = {*source.key, *source.event}
        cells = {n: column_values(rows.column(n), "datetime", rows.schema.names[n]) for n in wanted}
        keys, event = [cells[n] for n in source.key], [cells[n] for n in source.event]
        found.keys += keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        found.seqs += filled(rows, SEQ, "sequence id")
        if self.value is not None:
            found.values += event[0]
        elif self.rows == "tuple":
            found.values += list(zip(*event, strict=True))
        else:
            found.values += [dict(zip(source.names, row, strict=True)) for row in zip(*event, strict=True)]
        if found.sources is not None:
            found.sources += [source.name] * rows.num_rows
        if found.times is not None:
            found.times += [time / US for time in filled(rows, TIME, "time")]

    # -- rows out

    def packet(self, out: Emitted) -> bytes:
        """Return the notifications of a batch as one packet."""
        count = len(out.ids)
        keys = [out.keys] if len(self.key) == 1 else list(zip(*out.keys, strict=True))
        parts = [*keys, out.ids, *kinds_of(out), *self.columns_of(out), errors_of(out)]
        columns = [column_of(part, field) for part, field in zip(parts, self.output, strict=True)]
        return sealed(pa.RecordBatch.from_arrays(columns, schema=self.output)) if count else b""

    def columns_of(self, out: Emitted) -> list[Sequence[Any]]:
        if self.emitted is None:
            return [out.values]
        return list(zip(*[spread(value, self.emitted) for value in out.values], strict=True))


def filled(rows: Any, place: int, what: str) -> list[int]:
    """Return a column of numbers. *Raises* `ValueError` if one is missing."""
    column = rows.column(place)
    if column.null_count:
        raise ValueError(f"{column.null_count} rows have no {what} (null): leave them out before the query")
    found: list[int] = column.to_numpy().tolist()
    return found


def spread(value: Any, names: Sequence[str]) -> Sequence[Any]:
    """Return the fields of what a query emits: by name of a mapping, by place of a tuple, or it is the only one."""
    if value is None:
        return [None] * len(names)
    if len(names) == 1 and not isinstance(value, (Mapping, tuple, list)):
        return [value]
    found = fields_of(value, names)
    if found is None:
        raise TypeError(f"the query emitted {cut(value)}, but emits= has the columns {', '.join(names)}")
    return found


def fields_of(value: Any, names: Sequence[str]) -> Sequence[Any] | None:
    """Return the fields of a record in the order of *names*; None if it has not just these."""
    if isinstance(value, Mapping):
        return [value[name] for name in names] if value.keys() == set(names) else None
    return value if isinstance(value, (tuple, list)) and len(value) == len(names) else None


def kinds_of(out: Emitted) -> list[Any]:
    kinds = pa.repeat(NEXT, len(out.ids)) if not out.ends else [NEXT] * len(out.ids)
    for place, error in out.ends.items():
        kinds[place] = COMPLETED if error is None else ERROR
    return [kinds]


def errors_of(out: Emitted) -> Any:
    if not out.ends:
        return pa.nulls(len(out.ids), pa.string())
    texts: list[str | None] = [None] * len(out.ids)
    for place, error in out.ends.items():
        texts[place] = None if error is None else described(error)
    return texts


def column_of(values: Any, field: Any) -> Any:
    """Return *values* as a column. *Raises* `TypeError` naming the first that does not fit the column."""
    if isinstance(values, pa.Array):
        return values
    try:
        if not fits(values, field.type):
            raise TypeError(field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wrong = next((value for value in values if not is_fit(value, field.type)), None)
        message = f"the query emitted {wrong!r} for the column {field.name!r}, which is {field.type}"
        raise TypeError(f"{message}: {error}") from error


def is_fit(value: Any, kind: Any) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return fits([value], kind)


def fits(values: Sequence[Any], kind: Any) -> bool:
    """Whether *values* are what pyarrow would otherwise change in silence: it cuts fractions, and makes up zones."""
    types = pa.types
    if types.is_integer(kind):
        return not any(issubclass(each, float) for each in set(map(type, values)))
    if types.is_timestamp(kind):
        zoned = kind.tz is not None
        return all(each is None or (each.tzinfo is not None) == zoned for each in values)
    if types.is_struct(kind):
        return all(struct_fits(each, kind) for each in values if each is not None)
    if types.is_list(kind):
        return fits([item for each in values if each is not None for item in each], kind.value_type)
    if types.is_map(kind):
        pairs = [pair for each in values if each is not None for pair in dict(each).items()]
        return fits([key for key, _ in pairs], kind.key_type) and fits([item for _, item in pairs], kind.item_type)
    return True


def struct_fits(value: Any, kind: Any) -> bool:
    cells = fields_of(value, [kind.field(n).name for n in range(kind.num_fields)])
    return cells is not None and all(fits([cell], kind.field(n).type) for n, cell in enumerate(cells))
