"""Two queries that do different things never pass for one another, in this process or in a store."""

from __future__ import annotations

from typing import Any

import reliable_rx as rx
from reliable_rx.identity import content_hash


class Threshold:
    """An object with no repr of its own."""

    def __init__(self, least: int) -> None:
        self.least = least


class Slotted:
    __slots__ = ("least",)

    def __init__(self, least: int) -> None:
        self.least = least


def above(threshold: Any) -> Any:
    return rx.source("n").filter(lambda n: n >= threshold.least)


def test_what_a_function_closes_over_tells_queries_apart() -> None:
    """Objects without a repr count by what they hold: an edited threshold is an edited query."""
    for kind in (Threshold, Slotted):
        assert content_hash(above(kind(1)).node) != content_hash(above(kind(2)).node)
        assert content_hash(above(kind(1)).node) == content_hash(above(kind(1)).node)
