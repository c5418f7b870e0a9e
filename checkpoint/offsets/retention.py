"""Forgetting groups that nobody uses any more.

A group that holds a partition is used, however long ago it committed: its sources may be idle. A group that commits
while it is looked at is used too, so deleting names the commit that was looked at.
"""

from __future__ import annotations

from checkpoint.offsets.store import OffsetStore
from reliable_rx.errors import OffsetsMoved, StoreOwned


def retire(store: OffsetStore, *, idle_s: float, now: float) -> list[str]:
    """Delete the groups whose last commit is at least *idle_s* ago and that hold nothing; return their names.

    >>> from checkpoint.offsets import MemoryOffsets
    >>> holders = {("s", "0"): ("me", 1)}
    >>> store = MemoryOffsets(lambda group, partition: holders.get(partition), clock=lambda: 100.0)
    >>> store.commit("g", {("s", "0"): 7}, holders)
    {('s', '0'): None}
    >>> retire(store, idle_s=50, now=200.0)
    []
    >>> holders.clear()
    >>> retire(store, idle_s=50, now=200.0)
    ['g']
    """
    retired = []
    for group, last in store.groups().items():
        if now - last >= idle_s and _deleted(store, group, last):
            retired.append(group)
    return retired


def _deleted(store: OffsetStore, group: str, last: float) -> bool:
    try:
        return store.delete(group, unless_after=last)
    except (StoreOwned, OffsetsMoved):  # it is used, or on its way to another store
        return False
