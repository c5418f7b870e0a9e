"""Which partition a stream belongs to: the same answer in every process, without asking anybody.

Whoever writes a log that is read by partitions must put each stream (a customer, an aircraft: a key) into one of them,
always the same, or its events have no order. The ring of hash values is cut into as many equal arcs as there are
partitions, and a stream lives where the hash of its name falls. The names of streams are never listed. Rejected: the
`hash` of Python (salted per process), many small arcs per partition (their lengths differ, and what is written in a log
does not move when it gets another partition).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

POINTS = 1 << 32


class HashRing:
    """Spread streams over *partitions*: their names, or how many (named ``"0"``, ``"1"``, …).

    With other partitions, streams live elsewhere: finish the old log, or let the new partitions be children of the old.

    >>> ring = HashRing(8)
    >>> ring.partition_of("AA 1141"), ring.partition_of("UA 1545"), ring.partitions
    ('5', '3', ('0', '1', '2', '3', '4', '5', '6', '7'))

    *Raises* `ValueError` for no partitions, or one of them twice.
    """

    def __init__(self, partitions: int | Sequence[str] = 8) -> None:
        names = map(str, range(partitions)) if isinstance(partitions, int) else partitions
        self.partitions = tuple(names)
        if not self.partitions or len(set(self.partitions)) < len(self.partitions):
            raise ValueError(f"a ring needs partitions, each once, got {partitions!r}")
        self._arc = -(-POINTS // len(self.partitions))

    def __repr__(self) -> str:
        return f"HashRing({list(self.partitions)})"

    def partition_of(self, stream: str) -> str:
        """Return the partition that *stream* belongs to."""
        name = stream.encode("utf-8", "surrogatepass")
        return self.partitions[int.from_bytes(blake2b(name, digest_size=4).digest()) // self._arc]
