"""Watch over the partitions of a group that were read to their ends, and whose files go on to grow.

No node opens them again, so no evaluator tells what one process tells at each start (`hosting.reports.growth`). How
much each of them had is in the last checkpoint of its store, which is read once for each time that it has ended. Asked
by a thread of its own, since files may lie where nothing answers. Rejected: in the group's document (it would grow with
each partition that ends).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from checkpoint.format.codec import decode_data
from hosting.partitioned.asking import Asker
from hosting.partitioned.group import Hold
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.sections import Section
from hosting.partitioned.words import Epoch, Partition
from hosting.reports.growth import LOOKED_AT_MAX, Growth, Key
from hosting.reports.incidents import Incidents
from reliable_rx.errors import ReliableRxError
from reliable_rx.reliable import Growing

AT_FIRST_MAX = 1_000
"""How many partitions are looked at when a node starts; later it is some at a time, in turn."""
Holds = Mapping[Partition, Hold]


class Ended:
    """Looks at what has ended of *sections*."""

    def __init__(self, sections: Collection[Section], stores: PartitionStores, incidents: Incidents) -> None:
        sources = {name: source for section in sections for name, source in section.sources.items()}
        self._growth, self._stores = Growth(sources, incidents), stores
        self._sections = {each.name for each in sections if any(isinstance(s, Growing) for s in each.sources.values())}
        self._asker = Asker("growth of what has ended", self._look)
        self._over = dict[Partition, Epoch]()
        self._known = dict[Partition, tuple[Epoch, Mapping[Key, Any]]]()
        self._most = AT_FIRST_MAX

    def look(self, holds: Holds, patience_s: float) -> None:
        """Have some of those that are over looked at, and wait so long for what comes of it."""
        if self._asker.since is None:
            over = {each: hold.epoch for each, hold in holds.items() if hold.is_over}
            self._over = {each: epoch for each, epoch in over.items() if each.source in self._sections}
        if self._over:
            self._asker.answer(patience_s)

    def close(self) -> None:
        """Look no more."""
        self._asker.close()

    def _look(self) -> None:
        """Look at those that are new, then at those whose turn is longest ago."""
        over = self._over
        self._known = {each: known for each, known in self._known.items() if over.get(each) == known[0]}
        for partition in [*sorted(over.keys() - self._known.keys()), *self._known][: self._most]:
            known = self._known.pop(partition, None) or (over[partition], self._had(partition))
            self._known[partition] = known
            self._growth.look_at(known[1])
        self._most = LOOKED_AT_MAX

    def _had(self, partition: Partition) -> Mapping[Key, Any]:
        with suppress(ReliableRxError):  # a store that cannot be read is told of by who opens it
            reader = self._stores.look(partition)
            if reader is not None:
                with reader as store:
                    recovered = store.recover()
                return {} if recovered is None else dict(decode_data(recovered.meta)[0].get("extents", {}))
        return {}
