"""Under which names a section's positions lie in the offset store, and which lease they need.

A partition of a section of one source has one position, under the name of its lease. Where a section reads several
sources, or all partitions, there is one position for each partition of each source, under ``SECTION/SOURCE``.
"""

from __future__ import annotations

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


def section_of(key: Key) -> tuple[str, str]:
    """Return the section and the source of the position *key*.

    >>> section_of(("flights", "JFK")), section_of(("*/flights", "JFK"))
    (('flights', 'flights'), ('*', 'flights'))
    """
    section, _, source = key[0].rpartition("/")
    return section or source, source


def lease_over(key: Key) -> Partition:
    """Return the partition whose lease covers the position *key*.

    >>> str(lease_over(("flights", "JFK"))), str(lease_over(("*/flights", "JFK")))
    ('flights/JFK', '*/all')
    """
    section, _ = section_of(key)
    return WHOLE_PARTITION if section == WHOLE else Partition(section, key[1])


def sources_in(section: str) -> frozenset[str]:
    """Name the sources of a section that does not see all partitions.

    >>> sorted(sources_in("departures+flights"))
    ['departures', 'flights']
    """
    return frozenset(section.split(AND))
