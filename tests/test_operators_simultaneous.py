"""Hosted, a turn may bring many events of one source: queries over inner sequences must not notice."""

from __future__ import annotations

import pytest
from every_case import CASES, lanes
from lanes import Lane

from reliable_rx.testing import small_streams
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.oracle import compare

FAMILIES = ("group", "window", "buffer", "join", "partition", "distinct", "inactivity", "aligned", "tumbling")
HOSTABLE = [name for name, case in CASES.items() if name.startswith(FAMILIES) and case.hostable]


@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=9, longer=True))
def test_one_turn_is_many(name: str) -> None:
    """Simultaneous events in one turn give what they give in a turn each, also where one event changes who reads."""
    case = CASES[name]
    length = (3 if case.sources == 1 else 2) - Lane.fast_alone
    for streams in small_streams(case.alphabet[:2], length, sources=case.sources, gaps_s=(0.0,)):
        singly = HostedRun(case.build, streams, 9.0, crash=False).play()
        compare(name, streams, singly, HostedRun(case.build, streams, 9.0, crash=False, batches=True).play())
