"""The comparison: every stream of the killed run against the same stream of the peaceful one, record by record.

A record is a line of the file, with its id: what is compared is what a reader of these files would read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hosting.demo.airport import stream_file
from reliable_rx.testing.ledger import Ledger, check_ledger


@dataclass(frozen=True, slots=True)
class Verdict:
    """The ledgers of all streams by name."""

    ledgers: dict[str, Ledger]

    @property
    def clean(self) -> bool:
        return all(ledger.clean for ledger in self.ledgers.values())

    @property
    def records(self) -> int:
        return sum(ledger.expected for ledger in self.ledgers.values())

    def __str__(self) -> str:
        every = self.ledgers.values()
        counts = {
            "lost": sum(ledger.lost for ledger in every),
            "duplicated": sum(ledger.duplicated for ledger in every),
            "reordered": sum(ledger.reordered for ledger in every),
            "corrupted": sum(ledger.corrupted for ledger in every),
        }
        return " · ".join(f"{name} {count:,}" for name, count in counts.items() if count or name != "corrupted")


def compare(names: Iterable[str], plain: Path, killed: Path) -> Verdict:
    """Compare the streams *names* in two folders."""
    return Verdict({name: check_ledger(lines(plain, name), lines(killed, name)) for name in names})


def lines(streams: Path, name: str) -> Sequence[bytes]:
    path = stream_file(streams, name)
    return path.read_bytes().splitlines() if path.exists() else []
