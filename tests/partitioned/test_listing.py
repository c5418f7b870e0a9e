"""Listing of a node's sections: each by itself."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from hosting.partitioned import listing
from hosting.partitioned.words import Partition, Shard
from hosting.reports.incidents import Incidents

PATIENT = 100
"""How often a list is waited for, a twentieth of a second each time."""


def test_a_section_that_does_not_answer_keeps_no_other_from_being_listed(monkeypatch: Any) -> None:
    """The others are asked although it was asked first, and what the group knows of it stays."""
    monkeypatch.setattr(listing, "UNANSWERED_S", 0.0)
    here, there = (Shard(Partition(name, "0")) for name in ("silent", "well"))
    released = threading.Event()

    def silent() -> list[Shard]:
        released.wait()
        return []

    sections: Any = {"silent": SimpleNamespace(shards=silent), "well": SimpleNamespace(shards=lambda: [there])}
    lister = listing.Lister(sections, Incidents())
    looks = (lister.look(lambda: [here]).shards for _ in range(PATIENT))
    assert any(there.partition in shards and here.partition in shards for shards in looks) and lister.failed
    released.set()
    lister.close()
