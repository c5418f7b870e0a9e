"""What an error of SQLite means for a sink: the database is not available, or it will never take this.

Waiting mends a full disk, a lock and a missing right. It does not mend a damaged file, a file that is no database, a
table that somebody else has changed, nor a row that does not fit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from reliable_rx.errors import CheckpointRefused, StoreUnavailable

_HOPELESS = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_HOPELESS |= {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE}


@contextmanager
def guard(table: str, path: str, what: str) -> Iterator[None]:
    """Say which table cannot be *what*. *Raises* `StoreUnavailable`, or `CheckpointRefused` where waiting is no use."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        message = f"table {table} of {path} cannot be {what}: {error}"
        if is_hopeless(error):
            remedy = "mend the database, or let the sink write to another one"
            raise CheckpointRefused(f"{message}; {remedy}", what=str(error), where=f"{path}, {table}") from error
        raise StoreUnavailable(f"{message}; mend that, and it goes on by itself") from error


def is_hopeless(error: Exception) -> bool:
    """Whether trying again cannot help."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _HOPELESS
    return not isinstance(error, sqlite3.OperationalError)
