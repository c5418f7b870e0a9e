"""A pushed input made replayable: application code calls `on_next`, and has its answer when the value is durable.

The log is trimmed one acknowledgement late, so that the checkpoint before the newest can still be replayed. A value
that was stored and cannot be loaded any more, because its class is gone, is a bad record. Whether a value comes before
the end or too late is decided where both are committed: in the log, and nowhere before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

from checkpoint.format.codec import decode, encode
from checkpoint.sealed_log.log import Log
from hosting.engine.blame import blamed
from hosting.sources.bad_records import RAW_MAX, reason_of
from reliable_rx.class_of import is_a, name_of
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed, StoreUnavailable, TooLate, described
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.operators.contract.choices import OnBadRecord, check_choice
from reliable_rx.reliable import Batch, Rejected

VALUE, COMPLETED, ERROR, UNREADABLE, LOST = 0, 1, 2, 3, 4
"""What an entry of the log is; `LOST` stands for one that a repair has given up, and is stepped over."""


LOST_READ_MAX = 10_000


class LogUnavailable(StoreUnavailable):
    """A pushed input cannot be read now: wait until it can, as until one can write."""


NAMES_A_CLASS = b"\x93"  # the opcode of pickle that looks a name up; data may hold the byte too


def stored(value: Any) -> bytes:
    """Return *value* as it lies in the log; refuse one that could not be read again, before it is durable."""
    try:
        data = encode((VALUE, value))
        if NAMES_A_CLASS in data:  # plain data cannot fail
            decode(data)
    except BaseException as error:  # a value's own code may raise anything
        let_through(error)
        raise TypeError(
            f"a value of type {name_of(type(value))} cannot be pushed: it does not survive pickling "
            f"({described(error)}); push plain data"
        ) from error
    return data


def check_values(values: Any) -> None:
    """*Raises* `TypeError` for what is one value, and not several."""
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"push takes a list of values, got {cut(values)}: on_next(value) pushes one value")


class PushedStream:
    """A durable stream that application code pushes into, from any thread."""

    def __init__(
        self,
        log: Log,
        *,
        wake: Callable[[], None],
        name: str = "pushed",
        on_bad_record: OnBadRecord = "fail",
        check: Callable[[], None] = lambda: None,
        told: Callable[[StoreUnavailable | None], None] = lambda trouble: None,
    ) -> None:
        check_choice("on_bad_record", on_bad_record, OnBadRecord)
        self.name, self.on_bad_record = name, on_bad_record
        self._log, self._check, self._told = log, check, told
        self._refused = False
        self._wakers: tuple[Callable[[], None], ...] = (wake,)
        self._looked = False

    def on_next(self, value: Any) -> int:
        """Append *value*; return its id once it is durable.

        *Raises* `StoreUnavailable`, and then it is not in; `TypeError` for what does not go into bytes and back;
        `TooLate` when the stream has ended, or the evaluator that reads it has failed.
        """
        return self.push((value,))

    def push(self, values: Sequence[Any]) -> int:
        """Append several values at the price of one; return the id of the first."""
        if not isinstance(values, (tuple, list)):
            check_values(values)
        self._check_open("a value")
        return self._append("a value", [stored(value) for value in values])

    def on_completed(self) -> None:
        """End the stream; durable when this returns."""
        if not self._has_ended():
            self._check()
            with suppress(TooLate):  # another thread was first
                self._append("an end", [encode((COMPLETED, None))], last=True)

    def on_error(self, error: Exception) -> None:
        """End the stream with *error*; durable when this returns."""
        if not is_a(error, Exception):
            raise TypeError(f"on_error takes an exception, got {cut(error)}: give one such as RuntimeError('why')")
        self._check_open("an error")
        self._append("an error", [encode((ERROR, error))], last=True)

    def _check_open(self, what: str) -> None:
        if self._has_ended():
            raise TooLate(
                f"{what} pushed into {self.name!r} comes too late, since this stream has ended and is read no further: "
                f"push before on_completed() or on_error(), or into another stream"
            )

    def _has_ended(self) -> bool:
        """Whether its end is in the log; looked for once, where nothing has been pushed by this process yet."""
        if not self._looked and not self._log.ended:
            first, end = self._log.first, self._log.end
            try:
                last = self._log.read(end - 1, 1)[1] if end > first else []
            except ReliableRxError:  # whoever reads the log says so
                return False
            if last and loaded(last[0])[0] in (COMPLETED, ERROR):
                self._log.ended = True
            self._looked = True
        return self._log.ended

    def _append(self, what: str, entries: Sequence[bytes], *, last: bool = False) -> int:
        self._check()
        try:
            first = self._log.append(entries, last=last)
        except TooLate:
            self._check_open(what)  # in the words of this stream
            raise
        except StoreUnavailable as error:
            self._refused = True
            self._told(error)
            raise
        if self._refused:
            self._refused = False
            self._told(None)
        self._wake()
        return first

    def _wake(self) -> None:
        for wake in self._wakers:
            wake()

    @property
    def end(self) -> int:
        """The id the next value will get."""
        return self._log.end

    def end_of(self, partition: str) -> int:
        """Return the id the next value will get."""
        return self.end

    @property
    def log(self) -> Log:
        """Where the values are."""
        return self._log

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return the oldest id that is kept, and the one behind the last value."""
        first, end = self._log.first, self._log.end
        if end > first:
            kind, _ = loaded(self._log.read(end - 1, 1)[1][0])
            end -= kind in (COMPLETED, ERROR)  # the stream's end has an id too, and is no value
        return first, end

    def open(self, partition: str, at: int, /) -> PushedReader:
        first, end = self._log.first, self._log.end
        if not first <= at <= end:
            raise PositionUnavailable(
                f"pushed input {self.name!r} has ids {first:,} to {end:,}, and is to go on at {at:,}",
                wanted=at,
                first=first,
                end=end,
                pushed=self.name,
            )
        return PushedReader(self, at)

    def _tell(self, wake: Callable[[], None]) -> None:
        if wake not in self._wakers:
            self._wakers += (wake,)


def behind(stream: PushedStream, end: int) -> int:
    """Return how many values lie behind the end, which has id *end*: nobody reads them, and more cannot come."""
    stream._log.ended = True
    return max(0, stream.bounds("0")[1] - end - 1)


class PushedReader:
    """Reads what was pushed."""

    def __init__(self, stream: PushedStream, at: int) -> None:
        self._stream = stream
        self._log = stream._log
        self._position = at
        self._acknowledged = -1

    def fetch(self, count_max: int, /) -> Batch:
        first = self._position
        if first >= self._log.end:
            return Batch(first, ())
        try:
            _, blobs = self._log.read(first, count_max)
        except StoreUnavailable as error:
            raise LogUnavailable(error.message, **error.fields) from error
        values: list[Any] = []
        try:
            for blob in blobs:
                kind, value = decode(blob)
                if kind == LOST:
                    if not values:
                        return self._behind_lost(count_max)
                    break
                if kind != VALUE:
                    return Batch(first, values, ended=True, error=value)
                values.append(value)
        except BaseException as raised:
            blamed(raised)
            if not values:
                return self._bad(blobs)
        self._position += len(values)
        return Batch(first, values)

    def _behind_lost(self, count_max: int) -> Batch:
        """Step over what a repair has given up, and fetch what lies behind it."""
        began, end = self._position, self._log.end
        while self._position < end:
            _, blobs = self._log.read(self._position, LOST_READ_MAX)
            lost = list(takewhile(lambda blob: loaded(blob)[0] == LOST, blobs))
            self._position += len(lost)
            if len(lost) < len(blobs):
                break
        batch = self.fetch(count_max)
        return replace(batch, skipped=batch.first - began)

    def _bad(self, blobs: Sequence[bytes]) -> Batch:
        """Pass over the values at the front that cannot be loaded. *Raises* `SourceFailed` if that may not be."""
        stream, found = self._stream, []
        for n, blob in enumerate(blobs, self._position):
            kind, why = loaded(blob)
            if kind != UNREADABLE:
                break
            if stream.on_bad_record == "fail":
                message = f"id {n:,} pushed into {stream.name!r} cannot be loaded: {why}; have its class and module as "
                message += "they were, or read past it with on_bad_record='skip' or 'dead_letter'"
                raise SourceFailed(message, source=stream.name, partition="0", position=n)
            found.append(Rejected(n, blob[:RAW_MAX].hex(), f"it cannot be loaded: {why}"))
        self._position += len(found)
        return Batch(self._position, (), skipped=len(found), rejected=tuple(found), coming=True)

    def acknowledge(self, n: int, /) -> None:
        if n > self._acknowledged:
            before, self._acknowledged = self._acknowledged, n
            if before >= self._log.first:
                self._log.trim(before)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self._stream._tell(wake)

    @property
    def unread(self) -> int:
        """How many entries lie behind what was read."""
        return max(0, self._log.end - self._position)

    def close(self) -> None:
        """The log belongs to the store."""


def loaded(blob: bytes) -> tuple[int, Any]:
    """Return kind and value of an entry, or `UNREADABLE` and why."""
    try:
        kind, value = decode(blob)
    except BaseException as raised:
        return UNREADABLE, reason_of(blamed(raised))
    return kind, value
