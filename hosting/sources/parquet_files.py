"""Parquet files as chunks of rows, read row group by row group through pyarrow.

Rows leave as tuples with the column names beside them, like CSV rows, so that everything behind is shared.
An offset is a row number; opening inside the file skips whole row groups by their metadata. A row that has no form in
Python (text that is no UTF-8, a time beyond the year 9999) is a bad record; a group that cannot be read ends the file,
as nobody can say what is in it. pyarrow is imported on first use: it is heavy, and an extra.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hosting.sources.bad_records import BadRecord, reason_of
from hosting.sources.lines import not_a_file
from reliable_rx.errors import PositionUnavailable, SourceFailed

BATCH_ROWS = 8192


class ParquetFile:
    """One Parquet file; of *columns* only, if given."""

    def __init__(self, path: Path, *, columns: Sequence[str] | None = None, offset: int = 0) -> None:
        self.path = path
        self.offset = 0
        self._batches: Iterator[Any] | None = None
        self._group = self._chunk = 0
        self._pieces: deque[list[Any] | BadRecord] = deque()
        self._file = self._opened()
        found = tuple(self._file.schema_arrow.names)
        self.names: tuple[str, ...] = found if columns is None else tuple(c for c in found if c in set(columns))
        twice = {name for name in self.names if found.count(name) > 1}
        if twice:
            message = f"{path}: column {min(twice)!r} appears twice; leave it out with `columns`, or rename one"
            raise SourceFailed(message, source=str(path))
        self.extent = path.stat().st_size
        self._pass_over(offset)

    def chunk(self, skip: int, /) -> tuple[int, Sequence[Any] | BadRecord]:
        while not self._pieces:
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
            if batch is None or not batch.num_rows:
                self._batches = None
                self._group += 1
            elif batch.num_rows <= skip:
                self.offset += batch.num_rows
                return batch.num_rows, ()
            else:
                self._pieces.extend(self._cut(batch))
        rows, self._chunk = self._pieces.popleft(), self.offset
        count = 1 if isinstance(rows, BadRecord) else len(rows)
        self.offset += count
        if isinstance(rows, BadRecord):
            return 1, () if skip else rows
        return count, rows[skip:] if skip else rows

    def again(self, rows: Sequence[Any], skipped: int, /) -> Sequence[Any]:
        return rows

    def where(self, index: int, /) -> str:
        return f"{self.path}, row {self._chunk + index + 1}"

    def place(self, index: int, /) -> str:
        return f"{self.path.name}, row {self._chunk + index + 1}"

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> Any:
        parquet = _pyarrow()
        if not self.path.is_file():
            raise SourceFailed(f"{self.path} {not_a_file(self.path)}", source=str(self.path))
        try:
            return parquet.ParquetFile(self.path)
        except Exception as error:  # pyarrow raises whatever a damaged file leads it to
            message = f"{self.path} cannot be opened as Parquet: {reason_of(error)}; mend or restore it"
            raise SourceFailed(message, source=str(self.path)) from error

    def _open_group(self) -> Iterator[Any]:
        batches: Iterator[Any] = self._file.iter_batches(BATCH_ROWS, row_groups=[self._group], columns=list(self.names))
        return batches

    def _next_batch(self) -> Any:
        try:
            return next(self._batches or iter(()), None)
        except Exception as error:
            message = f"{self.path}, row {self.offset + 1}: cannot be read: {reason_of(error)}; is the file damaged?"
            raise SourceFailed(message, source=str(self.path)) from error

    def _cut(self, batch: Any) -> Iterator[list[Any] | BadRecord]:
        """Give the rows of *batch*, and each that cannot be had by itself."""
        try:
            yield self._rows(batch)
        except Exception:
            good: list[Any] = []
            for index in range(batch.num_rows):
                try:
                    good += self._rows(batch.slice(index, 1))
                except Exception as error:
                    if good:
                        yield good
                    good = []
                    yield BadRecord(f"{self.path.name}, row {self.offset + index + 1}", None, reason_of(error))
            if good:
                yield good

    def _rows(self, batch: Any) -> list[Any]:
        return list(zip(*(batch[name].to_pylist() for name in self.names), strict=True))

    def _pass_over(self, offset: int) -> None:
        while self.offset < offset:
            count, _ = self.chunk(offset - self.offset)
            if self.offset > offset or not count:
                self.close()
                message = f"{self.path} is not the file it was (row {offset} began a chunk); put the old file back"
                raise PositionUnavailable(message, wanted=offset, first=0, end=self.offset)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        message = "Parquet files need pyarrow: install it with `pip install 'reliable-rx[arrow]'`"
        raise SourceFailed(message) from error
    return pyarrow.parquet
