"""Looking an event up by its time in a source that can only be read: from its first event on, until one is late enough.

Events of a partition need not be in the order of their times. What is found is the first one, in the order of
the ids, at or after the time, so that nothing at or after it which was written in order is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from hosting.engine.blame import blamed
from hosting.sources.times import time_of, without_time
from reliable_rx.errors import PositionUnavailable
from reliable_rx.reliable import Source

CHUNK = 1000


def first_at(source: Source, partition: str, time: float, *, first: int = 0) -> int:
    """Return the id of the first event of *partition* at or after *time*; reads all that lies before it.

    Events whose time cannot be read are passed over where the policy of *source* is to read past them.

    *Raises* `PositionUnavailable` if *source* has no ``timestamp`` function to read times with, `SourceFailed` for an
    event without a time.
    """
    timestamp: Callable[[Any], float] | None = getattr(source, "timestamp", None)
    if timestamp is None:
        message = f"a {type(source).__name__} without `timestamp` cannot look up a time; give it one, or a position"
        raise PositionUnavailable(message, wanted=None, first=first, end=None)
    fails = getattr(source, "on_bad_record", "fail") == "fail"
    with closing(source.open(partition, first)) as reader:
        while True:
            batch = reader.fetch(CHUNK)
            for offset, value in enumerate(batch.values):
                try:
                    is_found = time_of(timestamp, value) >= time
                except BaseException as raised:
                    error, position = blamed(raised), batch.first + offset
                    if fails:
                        raise without_time(type(source).__name__, partition, position, error) from error
                else:
                    if is_found:
                        return batch.first + offset
            if not batch.values and not batch.coming and not batch.skipped:
                return batch.first
            if batch.ended or batch.error is not None:
                return batch.next
