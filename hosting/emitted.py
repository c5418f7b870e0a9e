"""What queries emit by mistake, seen when it is to be stored: a list that goes on changing, a coroutine nobody awaits.

Both are legal Python and raise nothing. A value that is changed after it was emitted is another one for every reader,
and a replay would give other outputs than the first run. Only the first few of a checkpoint are looked at: who makes
this mistake makes it from the first event on. Rejected: a look at each value (it is the hottest path there is), and
failing the query (what it has emitted up to here is durable).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any

from hosting.incidents import Incidents
from hosting.turn import Output

LOOKED_AT = 32
CHANGEABLE = (list, dict, set, bytearray, deque)
ONCE_ONLY = (Awaitable, Iterator, AsyncIterator)
KIND = "emitted"


def look(incidents: Incidents, stream: str, segments: Sequence[Output]) -> None:
    """Report what is wrong with what *stream* has emitted since the last checkpoint."""
    if not segments:
        return
    fault = fault_of(list(islice(chain.from_iterable(each.values for each in segments), LOOKED_AT)))
    if fault is None:
        incidents.resolve(KIND, stream)
    else:
        incidents.report(KIND, stream, fault, level=logging.WARNING)


def fault_of(values: Sequence[Any]) -> str | None:
    """Say what is wrong with what was emitted.

    >>> fault_of([[1], [1, 2]]) is None
    True
    """
    if any(one is other and isinstance(one, CHANGEABLE) for one, other in pairwise(values)):
        return (
            "it emits the same object again and changes it in between, so that whoever has an earlier value sees it "
            "change: let the function return a new one, such as acc + [x] or {**acc, key: value}"
        )
    odd = next((each for each in values if isinstance(each, ONCE_ONLY)), None)
    if odd is not None:
        how = "use map_async(...) for what is to be awaited" if isinstance(odd, Awaitable) else "emit a list"
        return f"it emits a {type(odd).__name__}, which can be used only once and not be stored: {how}"
    return None
