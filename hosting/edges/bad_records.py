"""What becomes of records that a source could not read: left out, or taken as a turn that makes dead letters of them.

A source under the policy ``fail`` raises instead, and never gives any. How many there were is told once per source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from hosting.edges.partition import Partition
from hosting.engine.turns import Rejects
from hosting.reports.incidents import Incidents
from reliable_rx.operators.contract.arguments import plural

LEFT_OUT_MAX = 16
"""How often others are looked at again within one step because records were left out."""


class BadRecords:
    """The records that could not be read, by source, in all runs."""

    def __init__(self, incidents: Incidents) -> None:
        self.policies: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        """How many there were up to the positions of the partitions, so that a checkpoint of both counts each once."""
        self._incidents = incidents

    def take(self, partition: Partition, time: float) -> Rejects | None:
        """Take what *partition* has of them as a turn; None if they are left out."""
        name, records = partition.source, partition.rejected
        self.counts[name] += len(records)
        last = records[-1]
        self._tell(name, f"the last: partition {partition.name!r}, position {last.position:,}: {last.error}")
        if self.policies.get(name) == "dead_letter":
            return partition.take_rejected(time)
        partition.rejected = ()
        return None

    def recovered(self, stored: Mapping[str, int], partitions: Iterable[Partition]) -> None:
        """Go on from what a checkpoint has *stored* and a replay has met in *partitions*; tell of what there was."""
        self.counts = Counter(stored)
        for each in partitions:
            self.counts[each.source] += each.passed
        for name in self.policies:
            if self.counts[name]:
                self._tell(name, "none in this run so far")

    def _tell(self, name: str, last: str) -> None:
        is_letter = self.policies.get(name) == "dead_letter"
        where = f"they are in the stream {name}.dead_letters" if is_letter else "they are left out"
        message = f"{plural(self.counts[name], 'record')} could not be read so far; {where}; {last}"
        self._incidents.report("bad records", name, message, level=logging.WARNING)
