"""What lets a sink go on that has failed: only what helps is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosting.sinks.guard import Guard
from reliable_rx.class_of import is_a
from reliable_rx.errors import PositionUnavailable, QueryRefused, ReliableRxError, ValueRefused
from reliable_rx.reliable import Sink, Skipping

if TYPE_CHECKING:
    from reliable_rx.operators.contract.choices import OnError

GO_ON_BEHIND = "declare the sink with on_error='skip' to go on behind them, or begin with a fresh store and sink"


def blames_value(error: Exception) -> bool:
    """Whether *error* is about what was to be written, and not about the sink as a whole.

    >>> from reliable_rx.errors import StoreUnavailable
    >>> blames_value(KeyError("price")), blames_value(StoreUnavailable("the disk is full"))
    (True, False)
    """
    return isinstance(error, ValueRefused) or not isinstance(error, (ReliableRxError, OSError))


def tried_with(ids: range) -> str:
    """Say which *ids* a sink is given again, and what to do if one of them is why it says that it is not available.

    >>> tried_with(range(7, 8))
    ' with id 7: if its value is the cause, let the sink raise a ValueError for it'
    >>> tried_with(range(1000))
    ' with ids 0 to 999: if one of these values is the cause, let the sink raise a ValueError for it'
    >>> tried_with(range(0))
    ''
    """
    if not ids:
        return ""
    what = "its value" if len(ids) == 1 else "one of these values"
    which = f"id {ids[0]:,}" if len(ids) == 1 else f"ids {ids[0]:,} to {ids[-1]:,}"
    return f" with {which}: if {what} is the cause, let the sink raise a ValueError for it"


def ways_on(error: Exception, sink: Sink, stream: str, *, on_error: OnError, is_open: bool = True) -> str:
    """Say what to do about *sink* of *stream*, which has failed with *error*; it may be another ``on_error=``.

    That helps with ids, and so not who could not be opened.

    >>> from hosting import JsonLinesSink
    >>> from reliable_rx.errors import StoreUnavailable
    >>> sink = JsonLinesSink("out.jsonl")
    >>> ways_on(StoreUnavailable("it is full"), sink, "q", on_error="fail")
    "mend it and start again (in a program: evaluator.reopen('q')): it goes on behind what it has"
    >>> ways_on(QueryRefused("it is one for all partitions", path="/"), sink, "q", on_error="fail")
    'declare it so, and start again'
    >>> ways_on(KeyError("price"), sink, "q", on_error="fail").partition(", or ")[2]
    'start again with another on_error=: it goes on behind what it has'
    """
    if getattr(error, "fields", {}).get("names_way"):
        return "do that, and start again"
    if is_a(error, QueryRefused):
        return "declare it so, and start again"
    if is_a(error, PositionUnavailable) and getattr(error, "fields", {"first": 0}).get("first") is None:
        return "give it another one, and start again: that begins with the first id"
    is_of_ids = (is_open and blames_value(error)) or is_a(error, PositionUnavailable)
    may_step_over = on_error == "fail" and is_of_ids and isinstance(sink, Skipping)
    is_on_node = is_a(sink, Guard)  # where it is made anew with its partition, and no program has its evaluator
    again = "start its node again" if is_on_node else f"start again (in a program: evaluator.reopen({stream!r}))"
    others = ", or start again with another on_error=" if may_step_over else ""
    stays = (
        " (a query that is mended gives other values from then on, and leaves this one)" if blames_value(error) else ""
    )
    return f"mend it{stays} and {again}{others}: it goes on behind what it has"
