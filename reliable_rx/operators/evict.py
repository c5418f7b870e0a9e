"""What an operator does when it may keep no more: one concept for every operator that remembers by key.

`Limits` is the bound of the whole query, and passing it fails the query. An operator may be given a bound of its own,
and a policy: ``fail`` too, or give up the ``oldest`` key, or the ``least_recent`` one, which has waited longest for an
element. The order lies in the state, so a recovered query gives up the same keys.
"""

from __future__ import annotations

from typing import Any, Literal

from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.arguments import check_number

Evict = Literal["fail", "oldest", "least_recent"]
EVICTIONS = ("fail", "oldest", "least_recent")


def too_many(cx: Any, what: str, most: int, limit: str) -> LimitExceeded:
    """Say which operator has reached the maximum that it was given."""
    return LimitExceeded(
        f"{cx.node.path} holds {most:,} {what} and was given {limit}={most}: give it an evict policy, or more",
        path=cx.node.path,
        limit=limit,
        most=most,
    )


def check_eviction(name: str, most: int | None, evict: str, ttl_s: float | None) -> None:
    """*Raises* `ValueError` for a bound that bounds nothing."""
    if evict not in EVICTIONS:
        raise ValueError(f"evict must be one of {', '.join(EVICTIONS)}, got {evict!r}")
    if most is None and evict != "fail":
        raise ValueError(f"evict={evict!r} says what happens at a maximum: give {name} too")
    if most is not None and most < 1:
        raise ValueError(f"{name} must be at least 1, got {most!r}")
    if ttl_s is not None:
        check_number("ttl_s", ttl_s)
