"""Two queries that do different things never pass for one another, in this process or in a store."""

from __future__ import annotations

from typing import Any

import pytest
from every_case import CASES
from lanes import sample_of

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from reliable_rx import operators as ops
from reliable_rx.query.identity import content_hash


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


@pytest.mark.commit
def test_a_query_is_the_same_after_it_has_been_stored() -> None:
    """Through bytes, every query of the table keeps its hash: a default is a default although it is another object."""
    for name, case in sample_of(3, CASES.items()):
        if case.hostable:
            query = case.build(ops, rx, *[rx.source(f"s{number}") for number in range(case.sources)])
            assert content_hash(decode(encode(query.node))) == query.content_hash, name
