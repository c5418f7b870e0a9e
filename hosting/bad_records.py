"""What becomes of records that a source could not read: left out, or taken as a turn that makes dead letters of them.

A source under the policy ``fail`` raises instead, and never gives any. How many there were is told once per source.
"""

from __future__ import annotations

import logging
from collections import Counter

from hosting.incidents import Incidents
from hosting.partition import Partition
from hosting.turn import Rejects
from reliable_rx.arguments import plural

LEFT_OUT_MAX = 16
"""How often others are looked at again within one step because records were left out."""


class BadRecords:
    """The records that could not be read since the start, by source."""

    def __init__(self, incidents: Incidents) -> None:
        self.policies: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._incidents = incidents

    def take(self, partition: Partition, time: float) -> Rejects | None:
        """Take what *partition* has of them as a turn; None if they are left out."""
        name, records = partition.source, partition.rejected
        self._counts[name] += len(records)
        is_letter = self.policies.get(name) == "dead_letter"
        where = f"they are in the stream {name}.dead_letters" if is_letter else "they are left out"
        last = records[-1]
        message = (
            f"{plural(self._counts[name], 'record')} could not be read since the start; {where}; the last: partition "
            f"{partition.name!r}, position {last.position:,}: {last.error}"
        )
        self._incidents.report("bad records", name, message, level=logging.WARNING)
        if is_letter:
            return partition.take_rejected(time)
        partition.rejected = ()
        return None
