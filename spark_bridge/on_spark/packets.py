"""Rows on their way to a bucket and back, as packets: many rows in one binary value, an Arrow record batch each.

Spark hands a stateful Python operator its rows as objects, one by one, and makes pandas frames of them; that costs more
than most queries do, and knows neither maps nor nested timestamps. So rows are put into packets before the shuffle, a
packet for each bucket of some ten thousand rows, and what a bucket emits is one packet too. Only the two steps here see
the rows, and both work on whole columns. Rejected: a column of the frame for each column of the rows, and a mask beside
each that may be null; a wide row was several times the work of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PACKET_ROWS_MAX = 65_536
PACKET_BYTES_MAX = 32 << 20
PACKETS = pa.schema([("bucket", pa.int32()), ("packet", pa.binary())])

Step = Callable[[Iterator[Any]], Iterator[Any]]
"""What Spark's ``mapInArrow`` runs over the batches of a task."""


def packing(schema: Any) -> Step:
    """Return the step that puts rows into packets: the first column is the bucket, the others are those of *schema*."""

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        waiting: list[Any] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= PACKET_ROWS_MAX or size >= PACKET_BYTES_MAX:
                yield packed(waiting, schema)
                waiting, rows, size = [], 0, 0
        if rows:
            yield packed(waiting, schema)

    return pack


def packed(batches: Sequence[Any], schema: Any) -> Any:
    """Return the rows of *batches* as packets, one for each bucket that has any.

    >>> rows = pa.record_batch({"bucket": pa.array([1, 0, 1], pa.int32()), "n": [5, 6, 7]})
    >>> schema = pa.schema([("n", pa.int64())])
    >>> [unpacked(each, schema).to_pydict() for each in packed([rows], schema)["packet"].to_pylist()]
    [{'n': [6]}, {'n': [5, 7]}]
    """
    table = pa.Table.from_batches(batches)
    order = pc.sort_indices(table.column(0))
    counts = table.column(0).take(order).value_counts()
    sorted_rows = table.select(range(1, table.num_columns)).take(order)
    columns = [whole(column).cast(field.type) for column, field in zip(sorted_rows.columns, schema, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    ends = list(accumulate(counts.field("counts").to_pylist(), initial=0))
    packets = [sealed(rows.slice(start, end - start)) for start, end in pairwise(ends)]
    buckets = counts.field("values").cast(pa.int32())
    return pa.RecordBatch.from_arrays([buckets, pa.array(packets, pa.binary())], schema=PACKETS)


def whole(column: Any) -> Any:
    """Return a column of a table as one array."""
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def sealed(rows: Any) -> bytes:
    """Return a record batch as a packet."""
    return bytes(rows.serialize().to_pybytes())


def unpacked(packet: bytes, schema: Any) -> Any:
    """Return the record batch in a packet whose columns are *schema*."""
    return pa.ipc.read_record_batch(pa.py_buffer(packet), schema)


def unpacking(schema: Any) -> Step:
    """Return the step that makes rows of packets."""

    def unpack(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for packet in batch.column(0).to_pylist():
                yield unpacked(packet, schema)

    return unpack
