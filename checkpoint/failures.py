"""From what the disk and SQLite raise to what a caller can act on.

An operational error (full, read-only, I/O error) means that nothing was promised: `StoreUnavailable`. A database that
SQLite calls malformed, or that has lost a table, is not what was written: `CheckpointRefused`. A value that is larger
than a row may be is `LimitExceeded`: to try again is no use. Everything else is a bug and passes.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from reliable_rx.errors import CheckpointRefused, LimitExceeded, ReliableRxError, StoreUnavailable

ROW_BYTES_MAX = 1_000_000_000
"""How much a row may have: in SQLite, and nearly so in PostgreSQL."""
ENVELOPE_BYTES_MAX = 10_000
"""How much of that a seal takes, and the names in it."""
JOINED_BYTES_MAX = 16_000_000
"""How much what could also be written apart may have together."""


class Translated:
    """Translate errors of the disk under *where*; a class, since each commit has one and a generator takes longer."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: object) -> None:
        if raised is not None and not isinstance(raised, ReliableRxError):
            _translate(self._where, raised)


unavailable = Translated


def _translate(where: str, error: BaseException) -> None:
    """*Raises* what the caller can act on, if *error* is of the disk."""
    if isinstance(error, (sqlite3.OperationalError, OSError)):
        if is_malformed(error):
            raise _damaged(where, error) from error
        message = f"{where}: {error}; nothing is lost, go on when the disk is well again"
        raise StoreUnavailable(message, where=where) from error
    if isinstance(error, (sqlite3.DataError, OverflowError)):
        raise too_large(where, str(error)) from error
    if isinstance(error, sqlite3.DatabaseError) and is_malformed(error):
        raise _damaged(where, error) from error


def _damaged(where: str, error: Exception) -> CheckpointRefused:
    message = f"{where}: {error}; it has not what was written to it: restore all its files together (its -wal too)"
    return CheckpointRefused(message, what=str(error), where=where)


def store_damaged(file: Path, folder: Path, what: str) -> CheckpointRefused:
    """Return the error for a *file* of the SQLite store in *folder* that is not what was written."""
    command = shlex.join(["reliable-rx", "store", "repair", str(folder), "--app", "MODULE:APP"])
    remedy = f"restore the whole folder from a copy, or see what can be saved with `{command}`"
    return CheckpointRefused(f"{file}: {what}; {remedy}", what=what, where=str(file))


def repairable(error: CheckpointRefused, where: Sequence[str]) -> CheckpointRefused:
    """Return *error* with the command that sees what can be saved of the store *where*, as commands take it."""
    if not where or "`reliable-rx store repair" in error.message:
        return error
    command = shlex.join(["reliable-rx", "store", "repair", *where, "--app", "MODULE:APP"])
    way = f"restore a copy of the store, or see what can be saved with `{command}`"
    return CheckpointRefused(f"{error.message}; {way}", **error.fields)


@contextmanager
def or_repaired(where: Sequence[str]) -> Iterator[None]:
    """Name that command in a refusal."""
    try:
        yield
    except CheckpointRefused as error:
        raise repairable(error, where) from error


def is_malformed(error: BaseException) -> bool:
    """Whether SQLite says by *error* that a file is damaged, or has lost a table."""
    return type(error) is sqlite3.DatabaseError or (
        isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such table")
    )


def fits(payload: bytes) -> bool:
    """Whether *payload* goes into a row."""
    return len(payload) <= ROW_BYTES_MAX - ENVELOPE_BYTES_MAX


def too_large(where: str, what: str) -> LimitExceeded:
    """Return the error for a value that does not fit into a row."""
    message = f"{where}: {what}; a row has at most {ROW_BYTES_MAX:,} bytes: bound the state, or write smaller values"
    return LimitExceeded(message, path=where, limit="row", most=ROW_BYTES_MAX)
