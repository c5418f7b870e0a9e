"""The journal: the durable list of turns since the last checkpoint, each record chained to the one before.

Turns are numbered from 1; 0 means that there has been none. A record covers consecutive turns and begins where the
one before ended. Its sealed payload starts with the seal of the record before, so that a record that is missing,
exchanged or brought back from an earlier time is found. What is dropped from the front leaves its last turn and seal
behind as the *base*. What cannot be found: the loss of the newest records only, or the exchange of a whole file by
its own older copy.

Truncation deletes what it has looked at and nothing else: records in order from the base on, as many as were found. A
table whose keys are out of order finds other rows by key than it lists; then it is refused, with all its rows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

from checkpoint.failures import repairable, unavailable
from checkpoint.format.envelope import SEAL_BYTES, KeyRing, seal, unseal
from reliable_rx.errors import CheckpointRefused, invariant
from reliable_rx.failpoints import probe

PAGE = 256
DROP_MAX = 1_000
_NO_SEAL = bytes(SEAL_BYTES)


class Journal(Protocol):
    """A durable list of turns. One thread appends; others may read and truncate."""

    @property
    def last_turn(self) -> int:
        """The newest durable turn, 0 if there has been none."""
        ...

    def append(self, first_turn: int, count: int, payload: bytes) -> None:
        """Make *count* turns durable before returning; *first_turn* is ``last_turn + 1``.

        *Raises* `StoreUnavailable` if the disk fails; append the same turns (or more) again later.
        """

    def read(self, after_turn: int) -> Iterator[tuple[int, int, bytes]]:
        """Give ``(first_turn, count, payload)`` of every record that reaches beyond *after_turn*, in order.

        *Raises* `CheckpointRefused` if a record is missing, edited or exchanged, or if turns right after *after_turn*
        are gone.
        """
        ...

    def truncate(self, upto_turn: int) -> None:
        """Drop the records wholly at or below *upto_turn*; if none is newer, go on behind *upto_turn*."""

    def check_order(self) -> None:
        """*Raises* `CheckpointRefused` if records are missing, also old ones, so that it could not be truncated."""

    def readable(self, after_turn: int) -> Iterator[tuple[int, int, bytes]]:
        """Give those records behind *after_turn* that are whole, whatever is missing between them: for a repair."""
        ...

    def give_up(self, upto_turn: int) -> None:
        """Drop all records, also where some are missing, and go on behind *upto_turn*: for a repair."""


class ChainedJournal(ABC):
    """Everything about a journal except where its rows are kept."""

    def __init__(self, *, keys: KeyRing, owner: str, where: str) -> None:
        self._keys, self._owner, self._where = keys, owner, where
        self.repaired_at: Sequence[str] = ()
        """Where the store is, as commands take it."""
        self._lock = threading.Lock()
        self._last_turn, self._last_seal = 0, _NO_SEAL

    @property
    def last_turn(self) -> int:
        return self._last_turn

    def load(self, *, begins: bool = False) -> None:
        """Find out where the journal ends; for its owner, who alone can tell, also whether it *begins* where it should.

        *Raises* `CheckpointRefused` if the oldest record does not follow the base.
        """
        with unavailable(self._where):
            base, self._last_seal = self._read_base()
            self._last_turn = base
            for first, count, last_seal in self._newest(2**63 - 1, 1):
                self._last_turn, self._last_seal = first + count - 1, self._seal_of(first, count, last_seal)
            for first, _, _ in self._oldest(-1, 1) if begins else ():
                if first != base + 1:
                    self._refuse_order(base + 1, first)

    def append(self, first_turn: int, count: int, payload: bytes) -> None:
        with self._lock:
            invariant(first_turn == self._last_turn + 1, f"turn {first_turn} follows turn {self._last_turn}")
            invariant(count > 0, "a journal record holds at least one turn")
            blob = self._seal("journal", first_turn, count, self._last_seal + payload)
            with unavailable(f"{self._where}, turn {first_turn}"):
                probe("journal.before_commit")
                self._insert(first_turn, count, blob)
                probe("journal.after_commit")
            self._last_turn, self._last_seal = first_turn + count - 1, blob[-SEAL_BYTES:]

    def read(self, after_turn: int) -> Iterator[tuple[int, int, bytes]]:
        if after_turn >= self.last_turn:
            return
        with unavailable(self._where), self._lock:
            expected, previous = self._start(after_turn + 1)
        while True:
            with unavailable(self._where), self._lock:
                last_turn, rows = self._last_turn, self._rows(expected, PAGE)
            for first, count, blob in rows:
                if first != expected:
                    self._refuse_gap(expected, first)
                yield first, count, self._opened(first, count, blob, previous)
                expected, previous = first + count, blob[-SEAL_BYTES:]
            if len(rows) < PAGE:
                break
        if expected <= last_turn:
            self._refuse_gap(expected, last_turn + 1)

    def _start(self, wanted: int) -> tuple[int, bytes]:
        """Return the first turn of the record that holds turn *wanted*, and the seal that must stand before it."""
        base_turn, base_seal = self._read_base()
        if wanted <= base_turn:
            self._refuse_gap(wanted, base_turn + 1)
        match self._newest(wanted, 2):
            case [(first, count, _), before] if first + count > wanted:
                return first, self._seal_of(*before)
            case [(first, count, _)] if first + count > wanted and first == base_turn + 1:
                return first, base_seal
        return wanted, base_seal

    def _seal_of(self, first: int, count: int, beside: bytes) -> bytes:
        """Return the seal of a record: that which it ends in, or, if it is damaged, that which stands *beside* it."""
        with suppress(CheckpointRefused):
            for found, _, blob in self._rows(first, 1):
                if found == first:
                    self._unseal("journal", first, count, blob, self._where)
                    return blob[-SEAL_BYTES:]
        return beside

    def _opened(self, first: int, count: int, blob: bytes, previous: bytes) -> bytes:
        where = f"{self._where}, turn {first}"
        payload = self._unseal("journal", first, count, blob, where)
        if payload[:SEAL_BYTES] != previous:
            what = "it does not follow the record before it: a record was removed, exchanged or brought back"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        return payload[SEAL_BYTES:]

    def readable(self, after_turn: int) -> Iterator[tuple[int, int, bytes]]:
        expected = after_turn + 1
        while True:
            with unavailable(self._where), self._lock:
                rows = self._rows(expected, PAGE)
            for first, count, blob in rows:
                with suppress(CheckpointRefused):
                    payload = self._unseal("journal", first, count, blob, self._where)
                    yield first, count, payload[SEAL_BYTES:]
            if len(rows) < PAGE:
                return
            expected = rows[-1][0] + 1

    def give_up(self, upto_turn: int) -> None:
        with unavailable(self._where), self._lock:
            records = last = 0
            while rows := self._oldest(last, DROP_MAX):
                records, last = records + len(rows), rows[-1][0]
            self._last_turn = max(self._last_turn, upto_turn)
            self._drop_upto(last, self._last_turn, self._last_seal, records)

    def truncate(self, upto_turn: int) -> None:
        if upto_turn > self._last_turn:
            self.check_order()
        while self._truncate_some(upto_turn):
            pass

    def check_order(self) -> None:
        with unavailable(self._where), self._lock:
            before = self._read_base()[0]
            while before < self._last_turn and (rows := self._behind(before, DROP_MAX)):
                before = rows[-1][0] + rows[-1][1] - 1
            if before != self._last_turn:
                self._refuse_order(before + 1, self._last_turn + 1)

    def _behind(self, turn: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        """Return the oldest records, which follow *turn* and each other."""
        rows, expected = self._oldest(turn, limit), turn + 1
        for first, count, _ in rows:
            if first != expected or count < 1:
                self._refuse_order(expected, first)
            expected = first + count
        return rows

    def _truncate_some(self, upto_turn: int) -> bool:
        """Drop a bounded number of records in one short transaction, so that appends can come between."""
        with unavailable(self._where), self._lock:
            rows = self._behind(self._read_base()[0], DROP_MAX)
            dropped = [row for row in rows if row[0] + row[1] - 1 <= upto_turn]
            if dropped:
                first, count, _ = dropped[-1]
                self._drop_upto(first, first + count - 1, self._seal_of(*dropped[-1]), len(dropped))
            elif upto_turn > self._last_turn:
                self._drop_upto(0, upto_turn, self._last_seal, 0)
                self._last_turn = upto_turn
            return bool(dropped) and (len(dropped) == DROP_MAX or upto_turn > self._last_turn)

    def _drop_upto(self, first: int, turn: int, last_seal: bytes, records: int) -> None:
        self._drop(first, turn, self._seal("journal base", turn, 0, last_seal), records)

    def _read_base(self) -> tuple[int, bytes]:
        stored = self._base()
        if stored is None:
            return 0, _NO_SEAL
        turn, blob = stored
        return turn, self._unseal("journal base", turn, 0, blob, f"{self._where}, its base")

    def _seal(self, kind: str, generation: int, index: int, payload: bytes) -> bytes:
        return seal(payload, keys=self._keys, kind=kind, owner=self._owner, generation=generation, index=index)

    def _unseal(self, kind: str, generation: int, index: int, blob: bytes, where: str) -> bytes:
        return unseal(
            blob, keys=self._keys, kind=kind, owner=self._owner, generation=generation, index=index, where=where
        )

    def _refuse_gap(self, expected: int, found: int) -> NoReturn:
        what = f"turn {expected} is needed and the next one there is {found}; the turns between are lost"
        raise CheckpointRefused(f"{self._where}: {what}", what=what, where=self._where)

    def _refuse_order(self, expected: int, found: int) -> NoReturn:
        self._refuse_rows(f"where turn {expected} belongs there is turn {found}")

    def _refuse_rows(self, what: str) -> NoReturn:
        message = f"{self._where}: {what}: it has not what was written to it"
        raise repairable(CheckpointRefused(message, what=what, where=self._where), self.repaired_at)

    def _check_dropped(self, records: int, dropped: int) -> None:
        """Call this in the transaction that drops. *Raises* `CheckpointRefused` if other rows are found by key."""
        if dropped != records:
            self._refuse_rows(f"{records} records were to be dropped and {dropped} were found by their turns")

    @abstractmethod
    def _rows(self, first_min: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        """Return ``(first_turn, count, blob)`` from *first_min* on, in order."""

    @abstractmethod
    def _newest(self, first_max: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        """Return ``(first_turn, count, seal)`` of the records that begin at or before *first_max*, newest first."""

    @abstractmethod
    def _oldest(self, behind: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        """Return ``(first_turn, count, seal)`` of the oldest records that begin behind turn *behind*, oldest first."""

    @abstractmethod
    def _base(self) -> tuple[int, bytes] | None:
        """Return the turn and the sealed base that stand for all dropped records."""

    @abstractmethod
    def _insert(self, first: int, count: int, blob: bytes) -> None:
        """Write one record durably, in place of one with the same first turn."""

    @abstractmethod
    def _drop(self, first_max: int, turn: int, base: bytes, records: int) -> None:
        """Delete the *records* that begin at or before *first_max* and set the base, in one transaction, or nothing."""
