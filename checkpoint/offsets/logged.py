"""An offset store over a log: each promise of `OffsetStore` as one operation on the table.

The same store has two faces: the usual one, and the one for those who write two stores of a group (`paired`), whom
other charges admit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from checkpoint.offsets import table as rules
from checkpoint.offsets.log import OffsetLog
from checkpoint.offsets.store import Charge, Committed, Lease, Partition, Refusal
from checkpoint.offsets.table import Charged, Draft
from reliable_rx.names import check_name

A = TypeVar("A")


class LoggedOffsets:
    """A `checkpoint.offsets.store.MovableOffsets` over an `OffsetLog`."""

    def __init__(self, log: OffsetLog, *, paired: bool = False) -> None:
        self._log, self._paired = log, paired

    @property
    def where(self) -> str:
        return self._log.where

    def load(self) -> None:
        """Replay the log, if it was opened without; until then every use raises `OffsetsLoading`."""
        self._log.load()

    def compact(self) -> None:
        """Shorten the log to what counts; it happens by itself when the log is long."""
        self._log.compact()

    def fetch(self, group: str, partitions: Iterable[Partition] | None = None) -> dict[Partition, Committed]:
        with self._log.current() as table:
            rules.check_charge(table.charges.get(group), group, self.where, paired=self._paired)
            return rules.committed_in(table.groups.get(group, {}), partitions)

    def claim(self, group: str, leases: Mapping[Partition, Lease]) -> dict[Partition, Refusal | None]:
        return self._ask(group, lambda draft: rules.claim(draft, group, leases))

    def commit(
        self, group: str, vector: Mapping[Partition, int], leases: Mapping[Partition, Lease], *, metadata: str = ""
    ) -> dict[Partition, Refusal | None]:
        rules.check_metadata(metadata)
        return self._ask(group, lambda draft: rules.commit(draft, group, vector, leases, metadata))

    def reset(self, group: str, vector: Mapping[Partition, int]) -> None:
        self._ask(group, lambda draft: rules.reset(draft, group, vector), alone=True)

    def delete(self, group: str, *, unless_after: float | None = None) -> bool:
        return self._ask(group, lambda draft: rules.delete(draft, group, unless_after), alone=True)

    def groups(self) -> dict[str, float]:
        hidden = ("moved",) if self._paired else ("moved", "paired")
        with self._log.current() as table:
            charges = {group: charged.charge for group, charged in table.charges.items()}
            times = {
                group: [entry.time for entry in entries.values() if not entry.gone]
                for group, entries in table.groups.items()
                if charges.get(group) not in hidden
            }
        return {group: max(those) for group, those in sorted(times.items()) if those}

    def paired(self) -> LoggedOffsets:
        return LoggedOffsets(self._log, paired=True)

    def charge(self, group: str) -> Charge | None:
        with self._log.current() as table:
            charged = table.charges.get(group)
            return None if charged is None else charged.charge

    def charge_number(self, group: str) -> int:
        with self._log.current() as table:
            charged = table.charges.get(group)
            return 0 if charged is None else charged.number

    def put_in_charge(self, group: str, charge: Charge, to: str) -> None:
        def put(draft: Draft) -> None:
            before = draft.charged(group)
            draft.put(group, None, Charged(charge, to, 1 if before is None else before.number + 1))

        self._log.ask(put)

    def adopt(self, group: str, vector: Mapping[Partition, Committed], *, exactly: bool) -> None:
        self._log.ask(lambda draft: rules.adopt(draft, group, vector, exactly=exactly))

    def stored(self, group: str) -> dict[Partition, Committed]:
        """Return what is stored of *group*, also if another store is in charge of it."""
        with self._log.current() as table:
            return rules.committed_in(table.groups.get(group, {}), None)

    def _ask(self, group: str, operation: Callable[[Draft], A], *, alone: bool = False) -> A:
        group = check_name("group", group)

        def checked(draft: Draft) -> A:
            rules.check_charge(draft.charged(group), group, self.where, paired=self._paired, alone=alone)
            return operation(draft)

        answer: Any = self._log.ask(checked)
        done: A = answer
        return done


class OpenedOffsets(LoggedOffsets):
    """One whose log was opened for it, and is closed by whoever made it."""

    def __init__(self, log: OffsetLog, *, load: bool) -> None:
        super().__init__(log)
        if load:
            log.load()

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
