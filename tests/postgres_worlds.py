"""Stores in PostgreSQL as the tests that hold every store to the same claims open them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import psycopg


class Place:
    """One name in a database, and what is stored under it, to be looked at and damaged by hand."""

    def __init__(self, dsn: str, name: str = "") -> None:
        self.dsn, self.name = dsn, name or uuid.uuid4().hex

    def sql(self, text: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run SQL in which ``MINE`` is the id of the store of this name; return its rows, if it gives some."""
        text = text.replace("MINE", f"(SELECT id FROM stores WHERE name = '{self.name}')")
        with psycopg.connect(self.dsn, autocommit=True, options="-c search_path=reliable_rx") as connection:
            done = connection.execute(text.encode(), parameters or None)
            return done.fetchall() if done.description else []
