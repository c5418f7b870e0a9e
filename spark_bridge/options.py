"""The options of ``format("reliable_rx")``: strings in, checked settings out, and every error names its option.

An option that nobody knows is an error too: Spark would drop it silently, and what it was to say with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from spark_bridge.micro_batch_log.names import check_reader
from spark_bridge.micro_batch_log.writer import BYTES_MAX, ON_CHANGE, ON_FULL, OnChange, OnFull

Positions = Literal["earliest", "latest"] | dict[str, int]
"""Where to read from, or up to: the first event that is kept, the end as it is now, or an id per partition."""
Choice = TypeVar("Choice", bound=str)
SPARKS_OWN = {"checkpointlocation", "queryname", "numpartitions"}
ROWS_PER_TASK = 250_000


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What ``writeStream`` was told."""

    path: str
    partitions: int | None
    key: tuple[str, ...] | None
    on_change: OnChange
    takeover: bool
    bytes_max: int
    on_full: OnFull


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What ``read`` or ``readStream`` was told."""

    path: str | None
    source: str | None
    reader: str
    start: Positions
    end: Positions
    rows_per_batch_max: int | None
    rows_per_task: int
    with_positions: bool
    dead_letters: bool = False


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a stream that is written.

    >>> write_options({"path": "/data/log", "key": "user, item", "partitions": "4"}).key
    ('user', 'item')

    *Raises* `ValueError` naming the option.
    """
    given = _Given(options, known=("path", "partitions", "key", "onChange", "takeover", "bytesMax", "onFull"))
    key = given.text("key")
    partitions = given.number("partitions") if "partitions" in given else None
    names = None if key is None else tuple(filter(None, (each.strip() for each in key.split(","))))
    return WriteOptions(
        given.needed("path"),
        partitions,
        names,
        given.choice("onChange", ON_CHANGE, "refuse"),
        given.flag("takeover", default=False),
        given.number("bytesMax", BYTES_MAX),
        given.choice("onFull", ON_FULL, "pause"),
    )


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Return the options of what is read, as a stream or up to an end.

    >>> read_options({"path": "/data/log", "start": "7"}, streaming=False).start
    {'0': 7}

    *Raises* `ValueError` naming the option.
    """
    own = ("reader", "maxRowsPerBatch") if streaming else ("end",)
    given = _Given(options, known=("path", "source", "start", "rowsPerTask", "positions", "deadLetters", *own))
    path, source = given.text("path"), given.text("source")
    if (path is None) == (source is None):
        raise ValueError("give option path (a micro-batch log) or option source ('module:function'), one of the two")
    dead_letters = given.flag("deadLetters", default=False)
    if dead_letters and source is None:
        raise ValueError("option deadLetters is of option source: a micro-batch log has rows only")
    return ReadOptions(
        path,
        source,
        check_reader(given.text("reader") or "spark"),
        given.positions("start", "earliest"),
        given.positions("end", "latest"),
        given.number("maxRowsPerBatch") if "maxRowsPerBatch" in given else None,
        given.number("rowsPerTask", ROWS_PER_TASK),
        given.flag("positions", default=True),
        dead_letters,
    )


class _Given:
    """Options by name, whatever their case."""

    def __init__(self, options: Mapping[str, str], *, known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        unknown = self._values.keys() - {name.lower() for name in known} - SPARKS_OWN
        if unknown:
            raise ValueError(f"there is no option {sorted(unknown)[0]!r} here; there are {', '.join(known)}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise ValueError(f"option {name} is missing: the directory of the micro-batch log")
        return value

    def number(self, name: str, default: int = 1) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or int(value) < 1:
            raise ValueError(f"option {name} is {value!r}; it is a whole number from 1 on")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, choices: tuple[Choice, ...], default: Choice) -> Choice:
        value = (self.text(name) or default).lower()
        for each in choices:
            if each == value:
                return each
        raise ValueError(f"option {name} is {value!r}; choose one of {', '.join(choices)}")

    def positions(self, name: str, default: Literal["earliest", "latest"]) -> Positions:
        value = self.text(name)
        if value is None or value in ("earliest", "latest"):
            return "latest" if value == "latest" or (value is None and default == "latest") else "earliest"
        if value.isascii() and value.isdigit():
            return {"0": int(value)}
        try:
            found = json.loads(value)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(type(at) is int and at >= 0 for at in found.values()):
            meant = 'earliest, latest, an id, or an id per partition as {"0": 12, "1": 7}'
            raise ValueError(f"option {name} is {value!r}; it is {meant}")
        return found
