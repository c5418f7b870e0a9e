"""The sealed rows of a store, whether they are as they were written, and with which of them it opens.

A damaged generation, output or turn is fallen back from, told or passed over by the store itself. What it opens with is
not: its identity, where its journal and its logs begin and end, and the positions of subscribers. The rules of what is
wrong with those, for files (`checkpoint.sqlite.rescue`) and for a database (`checkpoint.postgres.rescue`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from checkpoint.format.envelope import FORMAT, SEAL_BYTES, KeyRing, other_key, unseal
from checkpoint.sealed_log.store import position_kind
from reliable_rx.errors import CheckpointRefused

Row = tuple[Any, ...]
Named = tuple[str, int, int, bytes]
"""Kind, number, index and blob of what is sealed."""
OPENED_WITH = ("journal", "log")
"""The parts of which rows keep a store from opening."""
LAST = {"turns": (), "entries": ("log",)}
"""Tables of which the newest rows, of each of these, tell where something ends; of the others each row is looked at."""
OLDER_KEYS_WAY = "put older keys into seal.key.older beside it for the repair, in hexadecimal, a line each"
KEYS_WAY = "give the keys of the program with --keys FILE: in hexadecimal, a line each, the present one first"
"""How a repair is given the keys of a store in a folder, and in a database."""
WRONG_IDENTITY = "what says which store it is is damaged"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of so many *columns*, and as what its rows are sealed; of some rows the *newest* by a column counts."""

    name: str
    columns: int
    sealed: Callable[[Row], Named]
    newest: str | None = None


TABLES = {
    "checkpoint": (
        Table("generations", 3, lambda row: ("manifest", row[0], 0, row[2])),
        Table("chunks", 3, lambda row: ("chunk", row[0], row[1], row[2])),
        Table("outputs", 4, lambda row: (f"output {row[0]}", row[1], row[2], row[3])),
    ),
    "journal": (
        Table("base", 3, lambda row: ("journal base", row[1], 0, row[2]), newest="turn"),
        Table("turns", 4, lambda row: ("journal", row[0], row[1], row[3])),
    ),
    "log": (
        Table("bases", 3, lambda row: (f"log base {row[0]}", row[1], 0, row[2]), newest="first"),
        Table("entries", 4, lambda row: (f"log {row[0]}", row[1], row[2], row[3])),
        Table("positions", 4, lambda row: (position_kind(*row[:2]), row[2] + 1, 0, row[3])),
    ),
}


def check_keys(
    rows: Iterable[tuple[Table, Row]], keys: KeyRing, owner: str, where: str, way: str = OLDER_KEYS_WAY
) -> None:
    """*Raises* `CheckpointRefused` if several of *rows* are sealed with one key that is not given: it is no damage.

    *way* says how older keys are given.
    """
    seen: set[bytes] = set()
    for table, row in rows:
        key_id: bytes | None = None
        with suppress(TypeError, ValueError, OverflowError, struct.error):
            kind, number, index, blob = table.sealed(row)
            key_id = other_key(blob, keys=keys, kind=kind, owner=owner, generation=number, index=index)
        if key_id in seen:
            what = "what is sealed with an older key cannot be told from damage without it"
            raise CheckpointRefused(f"{where}: {what}; {way}", what=what, where=where)
        if key_id is not None:
            seen.add(key_id)


def is_genuine(table: Table, row: Row, keys: KeyRing, owner: str) -> bool:
    """Whether *row* is as it was written."""
    try:
        kind, number, index, blob = table.sealed(row)
        unseal(blob, keys=keys, kind=kind, owner=owner, generation=number, index=index, where=table.name)
    except (CheckpointRefused, TypeError, ValueError, OverflowError, struct.error):
        return False
    return table.name != "turns" or row[2] == blob[-SEAL_BYTES:]


def telling(table: Table, name: str, where: str) -> str:
    """Return the condition of those rows of *table*, called *name* there, with which a store opens; *where* its are."""
    if table.name not in LAST:
        return where
    others = ", ".join((*LAST[table.name], "max(first)"))
    group = f"GROUP BY {', '.join(LAST[table.name])}" if LAST[table.name] else ""
    same = ", ".join((*LAST[table.name], "first"))
    return f"{where} AND ({same}) IN (SELECT {others} FROM {name} WHERE {where} {group})"


def not_written(part: str, rows: Callable[[Table], Iterable[Row]], keys: KeyRing, owner: str) -> Table | None:
    """Return a table of *part* that has, among the *rows* it opens with, one that is not as it was written."""
    if part not in OPENED_WITH:
        return None
    for table in TABLES[part]:
        if not all(is_genuine(table, row, keys, owner) for row in rows(table)):
            return table
    return None


def wrong_begin(base: int, first: int | None) -> str | None:
    """Say what is wrong with a journal of which the turns up to *base* are dropped, and *first* is the oldest."""
    if first is None or first == base + 1:
        return None
    if first > base + 1:
        return f"it begins at turn {first:,}, and turns before that are missing"
    return f"it begins at turn {first:,}, and those up to turn {base:,} had been dropped"


def is_identity(blob: Any, kind: str, keys: KeyRing, owner: Any) -> bool:
    """Whether *blob* is the sealed identity of what belongs to *owner*."""
    with suppress(CheckpointRefused, TypeError, AttributeError, struct.error):
        unseal(blob, keys=keys, kind=f"identity {kind}", owner=owner, generation=FORMAT, where=kind)
        return True
    return False


def check_owned(tables: Iterable[tuple[Table, Row]], keys: KeyRing, owner: str, where: str) -> None:
    """*Raises* `CheckpointRefused` if there are rows, and none has the seal of *owner*: they are of another store."""
    found = False
    for table, row in tables:
        if is_genuine(table, row, keys, owner):
            return
        found = True
    if found:
        what = "none of its rows says which store it is"
        message = f"{where}: {what}; restore it from a copy, or give the key it was made with"
        raise CheckpointRefused(message, what=what, where=where)
