"""Values in memory as a source: for tests, examples and small tables.

Rejected: iterators and generators. A source must be able to give the same events again, and what an iterator
has given is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hosting.admission.constructor_types import checks_kinds
from hosting.sources.finding import first_at
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import Batch, Reader

FRAMES = {
    "tolist": ": give its values as a list, array.tolist()",
    "to_dicts": ": give its rows as a list, df.to_dicts()",
    "to_dict": ": give its rows as a list, df.to_dict('records')",
    "to_pylist": ": give its rows as a list, table.to_pylist()",
}
"""What tells arrays and data frames of the usual libraries, and how each becomes a list."""


def as_list(what: Any) -> str:
    """Say how *what*, which is no sequence, becomes a list."""
    known = next((advice for name, advice in FRAMES.items() if hasattr(what, name)), None)
    return known or ", which may be readable only once: a source is read again after a crash: give a list"


class ListSource:
    """Read values from a sequence (partition ``"0"``), or from one sequence per partition.

    With *follow* the sequences may be appended to while we read, and the source never ends. *timestamp* is a
    function of the value, kept for the evaluator's event time.

    >>> ListSource(["a", "b", "c"]).open("0", 1).fetch(10)
    Batch(first=1, values=['b', 'c'], ended=True, error=None, skipped=0, coming=False, rejected=())

    *Raises* `TypeError` for what can be read only once, `PositionUnavailable` for a position behind the end.
    """

    @names_keywords
    @checks_kinds("values", "timestamp")
    def __init__(
        self,
        values: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        timestamp: Callable[[Any], float] | None = None,
        follow: bool = False,
    ) -> None:
        if isinstance(values, (str, bytes)):
            what = f"the values would be the letters of {values[:60]!r}"
            raise TypeError(f"{what}: give a list, or FileSource(path) for a file")
        self.timestamp = timestamp
        self._follow = follow
        self._sequences = dict(values) if isinstance(values, Mapping) else {"0": values}
        for partition, sequence in self._sequences.items():
            if not isinstance(sequence, Sequence):
                what = f"partition {partition!r} is a {type(sequence).__name__}"
                raise TypeError(f"{what}{as_list(sequence)}")

    def definition(self) -> Mapping[str, Any]:
        """Return the function that its times come from."""
        return {"timestamp": self.timestamp}

    def partitions(self) -> Sequence[str]:
        """Name the partitions, in the order given."""
        return tuple(self._sequences)

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from index *at* on."""
        sequence = self._sequence(partition)
        if not 0 <= at <= len(sequence):
            message = f"partition {partition!r} has {plural(len(sequence), 'value')}; position {at} is not among them"
            raise PositionUnavailable(message, wanted=at, first=0, end=len(sequence))
        return _ListReader(sequence, at, self._follow)

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return 0 and the number of values there now."""
        return 0, len(self._sequence(partition))

    def find(self, partition: str, time: float, /) -> int:
        """Return the index of the first value at or after *time*, by *timestamp*."""
        return first_at(self, partition, time)

    def _sequence(self, partition: str) -> Sequence[Any]:
        sequence = self._sequences.get(partition)
        if sequence is None:
            known = ", ".join(self._sequences)
            raise SourceFailed(f"there is no partition {partition!r}, only {known}", source="list", partition=partition)
        return sequence


class _ListReader:
    def __init__(self, sequence: Sequence[Any], at: int, follow: bool) -> None:
        self._sequence = sequence
        self._position = at
        self._follow = follow

    def fetch(self, count_max: int, /) -> Batch:
        first = self._position
        values = self._sequence[first : first + count_max]
        self._position = first + len(values)
        return Batch(first, values, ended=not self._follow and self._position >= len(self._sequence))

    def acknowledge(self, n: int, /) -> None:
        """Do nothing: the sequence keeps its values anyway."""

    def close(self) -> None: ...
