"""Two queries that do different things never pass for one another, in this process or in a store."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from every_case import CASES
from lanes import sample_of

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from hosting.engine.engine import QueryEngine
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
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


@pytest.mark.parametrize("behind", ["groups", "windows", "inner sequences"])
def test_who_cannot_be_stored_is_named_whatever_stands_before_it(behind: str) -> None:
    """Not what stands for an inner sequence while a selector is called."""
    lock = threading.Lock()
    before = {
        "groups": lambda s: s.group_by(lambda x: x % 2).flat_map(lambda g: g.with_latest_from(rx.source("n"))),
        "windows": lambda s: s.window_with_count(2).flat_map(lambda w: w.count()),
        "inner sequences": lambda s: s.flat_map(lambda x: rx.of(x).delay(1.0)),
    }
    engine = QueryEngine()
    engine.declare("n", ["0"])
    with pytest.raises(QueryRefused, match=r"^query 'q': /map cannot be stored: its mapper, whose variable 'lock'"):
        engine.creation("q", before[behind](rx.source("n")).map(lambda x: (x, lock)), time=0.0)
