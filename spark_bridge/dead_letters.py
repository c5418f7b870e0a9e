"""The records that a source cannot read as rows for Spark: ``format("reliable_rx")`` with ``deadLetters``.

They are the source's own, under their ids, so this is another read of the same source: as a table for who looks, as a
stream for who keeps them. It acknowledges nothing, since it is not the one that has to see every event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from hosting.sinks.text import shown
from spark_bridge.bad_records import BadRecords
from spark_bridge.feeds import Range, SourceFeed

COLUMNS = (("value", pa.string()), ("error", pa.string()))


class DeadLetterFeed(SourceFeed):
    """What the source *name* could not read: *value*, as text, and *error*.

    *Raises* `ValueError` if it does anything else with such records than to give them as dead letters.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.id = f"{name}, dead letters"
        if self.policy != "dead_letter":
            message = f"option deadLetters: the source {name!r} has on_bad_record={self.policy!r}"
            raise ValueError(f"{message}, so that it has no dead letters: give it 'dead_letter'")

    def schema(self) -> Any | None:
        return pa.schema(COLUMNS)

    def batches(self, ids: Range, schema: Any) -> Iterator[tuple[range, Any]]:
        found = BadRecords(self.id, ids, self.policy)
        for batch, _ in self.fetched(ids):
            for each in found.new(batch.rejected):
                row = {"value": as_text(each.value), "error": as_text(each.error)}
                arrays = [pa.array([row[name]], pa.string()) for name in schema.names]
                yield range(each.position, each.position + 1), pa.RecordBatch.from_arrays(arrays, schema=schema)

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """It is for the read of the events to say what may be forgotten."""


def as_text(value: Any) -> str:
    r"""Return *value* as a text that a column can hold: itself if it is one, bytes decoded, anything else as it shows.

    >>> as_text(b"\xffa"), as_text(["a", 1]), as_text("\ud800")
    ('\\xffa', "['a', 1]", '\\ud800')
    """
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="backslashreplace")
    text = str(value) if isinstance(value, str) else shown(value)
    return text.encode(errors="backslashreplace").decode()
