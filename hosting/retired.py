"""The next ids of streams whose queries are gone, so that a query created under an old name does not use an id twice.

Names come and go by the million where a query stands for a session or an order. So each is a row of its own, written
when it changes; in the header of the checkpoints every one of them would be written every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosting.engine import QueryEngine

RETIRED = "retired"


class Ended:
    """One stream that nobody writes to."""

    __slots__ = ("epoch", "name", "next_id", "saved")

    def __init__(self, name: str, epoch: int) -> None:
        self.name = name
        self.epoch = epoch
        self.next_id = 0
        self.saved: Any = None

    @property
    def row_key(self) -> tuple[str, str]:
        """The key under which a store has this row."""
        return (RETIRED, self.name)

    @property
    def row(self) -> tuple[str, int]:
        return (RETIRED, self.next_id)


class Retired:
    """The streams of an engine that nobody writes to."""

    def __init__(self, engine: QueryEngine) -> None:
        self.engine = engine
        self.by_name: dict[str, Ended] = {}

    def get(self, name: str) -> int:
        ended = self.by_name.get(name)
        return 0 if ended is None else ended.next_id

    def put(self, name: str, next_id: int) -> None:
        """The query *name* is gone; its ids would go on at *next_id*."""
        ended = self.by_name.get(name)
        if ended is None:
            ended = self.by_name[name] = Ended(name, self.engine.epoch)
        self.engine.touch(ended)
        ended.next_id = next_id

    def pop(self, name: str) -> int:
        """A query *name* begins: return its first id."""
        ended = self.by_name.pop(name, None)
        if ended is None:
            return 0
        self.engine.forget(ended)
        return ended.next_id

    def load(self, name: str, row: tuple[str, int]) -> None:
        """Put a stored row back."""
        ended = self.by_name[name] = Ended(name, self.engine.epoch)
        ended.next_id, ended.saved = row[1], True
