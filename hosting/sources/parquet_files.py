"""Parquet files as chunks of rows, read row group by row group through pyarrow.

Rows leave as tuples with the column names beside them, like CSV rows, so that everything behind is shared.
An offset is a row number; opening inside the file skips whole row groups by their metadata. A row that has no form in
Python (text that is no UTF-8, a time beyond the year 9999) is a bad record. Of a group that cannot be read the rows
from the damage on are bad records, each under its number: the metadata says how many there are, and the group must
give exactly as many. pyarrow is imported on first use: it is heavy, and an extra.

Rejected: to go on with a reader of pyarrow that has raised. It is a generator, and so at its end, which looks like the
end of the group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hosting.sources.bad_records import BadRecord, reason_of
from hosting.sources.decoding import Reading, check_columns
from hosting.sources.lines import not_a_file
from reliable_rx.errors import PositionUnavailable, SourceFailed

BATCH_ROWS = 8192


class ParquetFile:
    """One Parquet file, of the columns that *reading* needs."""

    def __init__(self, path: Path, reading: Reading, *, offset: int = 0) -> None:
        self.path, self._fails = path, reading.fails
        self.offset = self._chunk = 0
        self._group = self._group_end = 0
        self._batches: Iterator[Any] | None = None
        self._pieces: deque[list[Any] | BadRecord] = deque()
        self._damage = self._failure = ""
        self._file = self._opened()
        try:
            self.names = self._columns(reading)
            self._counts = self._rows_of_groups()
            self.extent = path.stat().st_size
            self._pass_over(offset)
        except BaseException:
            self.close()
            raise

    def chunk(self, skip: int, /) -> tuple[int, Sequence[Any] | BadRecord]:
        while not self._pieces:
            left = self._group_end - self.offset
            if not left:
                if self._group == len(self._counts):
                    return 0, ()
                self._next_group()
            elif left <= skip or (skip and self._damage):
                return self._skipped(min(left, skip)), ()
            elif self._damage:
                self._pieces.append(BadRecord(self._row(0), None, self._damage))
            elif (batch := self._next_batch(left)) is not None:
                if 0 < batch.num_rows <= skip:
                    return self._skipped(batch.num_rows), ()
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
            return parquet.ParquetFile(self.path, page_checksum_verification=True)
        except Exception as error:  # pyarrow raises whatever a damaged file leads it to
            message = f"{self.path} cannot be opened as Parquet: {reason_of(error)}; mend or restore it"
            raise SourceFailed(message, source=str(self.path)) from error

    def _columns(self, reading: Reading) -> tuple[str, ...]:
        """Return the columns to be read. *Raises* `SourceFailed` for one that is not there, or there twice."""
        found, wanted = tuple(self._file.schema_arrow.names), reading.columns_read()
        check_columns(reading, self.path, found)
        names = found if wanted is None else tuple(name for name in found if name in wanted)
        twice = {name for name in names if found.count(name) > 1}
        if twice:
            message = f"{self.path}: column {min(twice)!r} appears twice; leave it out with `columns`, or rename one"
            raise SourceFailed(message, source=str(self.path))
        return names

    def _rows_of_groups(self) -> list[int]:
        metadata = self._file.metadata
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if sum(counts) != metadata.num_rows or min(counts, default=0) < 0:
            message = f"{self.path} says that it has {metadata.num_rows:,} rows, and of its row groups {sum(counts):,}"
            raise SourceFailed(f"{message}; it is damaged: mend or restore it", source=str(self.path))
        return counts

    def _next_group(self) -> None:
        self._group_end += self._counts[self._group]
        self._group += 1
        self._batches, self._damage = None, ""

    def _skipped(self, count: int) -> int:
        self.offset += count
        return count

    def _next_batch(self, left: int) -> Any | None:
        """Return the next rows of the group, of which *left* must come; None if the rest of it cannot be read."""
        if self._failure:
            raise SourceFailed(self._failure, source=str(self.path))
        try:
            if self._batches is None:
                self._batches = self._file.iter_batches(BATCH_ROWS, row_groups=[self._group - 1], columns=[*self.names])
            batch = next(self._batches, None)
            if batch is not None and batch.num_rows <= left:
                return batch
            raise ValueError(f"it has {'fewer' if batch is None else 'more'} rows than the file says")
        except Exception as error:
            self._take_damage(error)
        return None

    def _take_damage(self, error: Exception) -> None:
        """Let the rest of the group be bad records, unless it may be read another time. *Raises* `SourceFailed`."""
        reason = f"its row group cannot be read: {reason_of(error)}"
        if self._fails or isinstance(error, MemoryError) or getattr(error, "errno", None):
            self._failure = f"{self.path}, row {self.offset + 1}: {reason}; is the file damaged? Mend or restore it"
            raise SourceFailed(self._failure, source=str(self.path)) from error
        self._damage = reason

    def _row(self, index: int) -> str:
        return f"{self.path.name}, row {self.offset + index + 1}"

    def _cut(self, batch: Any) -> Iterator[list[Any] | BadRecord]:
        """Give the rows of *batch*, and each that cannot be had by itself."""
        try:
            yield self._rows(batch)
        except MemoryError:
            raise
        except Exception:
            good: list[Any] = []
            for index in range(batch.num_rows):
                try:
                    good += self._rows(batch.slice(index, 1))
                except Exception as error:
                    if good:
                        yield good
                    good = []
                    yield BadRecord(self._row(index), None, reason_of(error))
            if good:
                yield good

    def _rows(self, batch: Any) -> list[Any]:
        columns = [batch[name].to_pylist() for name in self.names]
        return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows

    def _pass_over(self, offset: int) -> None:
        while self.offset < offset:
            count, rows = self.chunk(offset - self.offset)
            if not count:
                message = f"{self.path} is not the file it was (it had a row {offset}); put the old file back"
                raise PositionUnavailable(message, wanted=offset, first=0, end=self.offset)
            if self.offset > offset and not isinstance(rows, BadRecord):  # the pieces were others when it was read
                self._pieces.appendleft(list(rows))
                self.offset = offset


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        message = "Parquet files need pyarrow: install it with `pip install 'reliable-rx[arrow]'`"
        raise SourceFailed(message) from error
    return pyarrow.parquet
