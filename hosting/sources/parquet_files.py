"""Parquet files as chunks of rows, read row group by row group through pyarrow.

Rows leave as tuples with the column names beside them, like CSV rows, so that everything behind is shared.
An offset is a row number; opening inside the file skips whole row groups by their metadata. pyarrow is imported on
first use: it is heavy, and an extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reliable_rx.errors import PositionUnavailable, SourceFailed

BATCH_ROWS = 8192


class ParquetFile:
    """One Parquet file; of *columns* only, if given."""

    def __init__(self, path: Path, *, columns: Sequence[str] | None = None, offset: int = 0) -> None:
        self._parquet, self._errors = _pyarrow()
        self.path = path
        self.offset = 0
        self._batches: Iterator[Any] | None = None
        self._group = 0
        try:
            self._file = self._parquet.ParquetFile(path)
        except self._errors as error:
            raise SourceFailed(f"{path} cannot be opened as Parquet: {error}", source=str(path)) from error
        found = tuple(self._file.schema_arrow.names)
        self.names: tuple[str, ...] = found if columns is None else tuple(c for c in found if c in set(columns))
        self._pass_over(offset)

    def chunk(self, skip: int, /) -> tuple[int, Sequence[Any]]:
        while True:
            if self._batches is None:
                if self._group == self._file.num_row_groups:
                    return 0, ()
                rows_in_group = self._file.metadata.row_group(self._group).num_rows
                if 0 < rows_in_group <= skip:
                    self._group += 1
                    self.offset += rows_in_group
                    return rows_in_group, ()
                self._batches = self._open_group()
            batch = self._next_batch()
            if batch is not None and batch.num_rows:
                self.offset += batch.num_rows
                return batch.num_rows, self._rows(batch, skip) if skip < batch.num_rows else ()
            self._batches = None
            self._group += 1

    def where(self, offset: int, index: int, /) -> str:
        return f"{self.path}, row {offset + index + 1}"

    def close(self) -> None:
        self._file.close()

    def _open_group(self) -> Iterator[Any]:
        batches: Iterator[Any] = self._file.iter_batches(BATCH_ROWS, row_groups=[self._group], columns=list(self.names))
        return batches

    def _next_batch(self) -> Any:
        try:
            return next(self._batches or iter(()), None)
        except self._errors as error:
            message = f"{self.where(self.offset, 0)}: cannot be read: {error}; is the file damaged?"
            raise SourceFailed(message, source=str(self.path)) from error

    def _rows(self, batch: Any, skip: int) -> list[Any]:
        rest = batch.slice(skip)
        return list(zip(*(rest[name].to_pylist() for name in self.names), strict=True))

    def _pass_over(self, offset: int) -> None:
        while self.offset < offset:
            count, _ = self.chunk(offset - self.offset)
            if self.offset > offset or not count:
                self.close()
                message = f"{self.path} is not the file it was (row {offset} began a chunk); put the old file back"
                raise PositionUnavailable(message, wanted=offset, first=0, end=self.offset)


def _pyarrow() -> tuple[Any, tuple[type[Exception], ...]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        message = "Parquet files need pyarrow: install it with `pip install 'reliable-rx[arrow]'`"
        raise SourceFailed(message) from error
    return pyarrow.parquet, (pyarrow.ArrowException, OSError, ValueError)
