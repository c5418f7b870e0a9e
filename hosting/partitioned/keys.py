"""Under which names a section's positions lie in the offset store, and which lease they need.

A partition of a section of one source has one position, under the name of its lease. Where a section reads several
sources, or all partitions, there is one position for each partition of each source, under ``SECTION/SOURCE``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hosting.partitioned.words import Partition

WHOLE = "*"
"""The section whose one evaluator sees all partitions."""
WHOLE_PARTITION = Partition(WHOLE, "all")
AND = "+"
"""Between the sources of a section that reads several."""
PARTS = (AND, "/")
"""What no source of a group has in its name."""
Key = tuple[str, str]
"""As the offset store names a partition."""


def key_of(section: str, source: str, partition: str) -> Key:
    """Return the name of a position.

    >>> key_of("flights", "flights", "JFK"), key_of("*", "flights", "JFK")
    (('flights', 'JFK'), ('*/flights', 'JFK'))
    """
    return (section if section == source else f"{section}/{source}", partition)


def leases_over(key: Key) -> Iterator[Partition]:
    """Yield the partitions whose lease covers the position *key*; the first that is known counts.

    >>> [str(each) for each in leases_over(("*/flights", "JFK"))]
    ['*/flights/JFK', '*/JFK', '*/all']
    """
    source, partition = key
    yield Partition(source, partition)
    section, slash, _ = source.rpartition("/")
    if slash:
        yield Partition(section, partition)
    if section == WHOLE:
        yield WHOLE_PARTITION
