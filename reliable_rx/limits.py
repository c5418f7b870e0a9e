"""One frozen object that bounds everything a query can grow.

A limit that is passed fails the query (and only that query) with `LimitExceeded`, which names the operator's
path. Operators contain no limit code: they declare which field of their state grows under which limit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound the state of one standing query.

    >>> Limits(distinct_keys_max=1_000).distinct_keys_max
    1000
    """

    list_items_max: int = 1_000_000
    """Elements in one collected list, set, dict or buffer that has no size of its own."""
    queue_items_max: int = 100_000
    """Elements waiting in one queue (zip, delay, merge with a maximum)."""
    distinct_keys_max: int = 1_000_000
    """Keys remembered by one distinct."""
    groups_max: int = 1_000_000
    """Live groups of one group_by."""
    windows_max: int = 10_000
    """Open windows or buffers of one operator."""
    inner_max: int = 1_000_000
    """Live inner subscriptions of one operator."""
    depth_max: int = 64
    """Nesting of inner sequences."""
    actions_max: int = 1_000_000
    """Actions one event may cause without time moving (a runaway repeat is stopped here)."""
    skips_max: int = 10_000
    """Errors of one event that a policy skips or makes dead letters."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            most: object = getattr(self, name)
            if not isinstance(most, int):
                raise TypeError(f"{name} must be a whole number, got {most!r}")
            if most < 0:
                raise ValueError(f"{name} must be 0 or more, got {most}")
