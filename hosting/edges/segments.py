"""Outputs of streams as a store holds them: many turns in one row, and no row larger than a store takes.

Consecutive notifications are joined by their count, since to measure each would cost more than to write it; what has
become too long is halved until it is not. A single value that fits into no row is one that cannot be stored: what
stands for it keeps its id, and the query that emitted it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from checkpoint import failures
from checkpoint.format.codec import encode
from checkpoint.format.salvage import Unreadable
from checkpoint.store import Segment as Stored
from hosting.engine.failing import unstorable_value
from hosting.engine.storable import loss
from hosting.engine.turns import Output
from reliable_rx.class_of import is_a, qualname_of
from reliable_rx.errors import QueryRefused, StoredError, described, type_of
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import DeadLetter, LateEvent

SEGMENT_VALUES = 1000


def joined(segments: Sequence[Output]) -> Iterator[Output]:
    """Join consecutive segments: a turn may emit a single value, and a stored row each would cost more than the
    values."""
    waiting: list[Any] = []
    for segment in segments:
        waiting.extend(segment.values)
        if segment.ended or len(waiting) >= SEGMENT_VALUES:
            first = segment.first + len(segment.values) - len(waiting)
            yield Output(segment.name, first, waiting, segment.ended, segment.error)
            waiting = []
    if waiting:
        yield Output(segments[-1].name, segments[-1].next - len(waiting), waiting)


def stored(segment: Output, spoilt: dict[str, QueryRefused]) -> Iterator[Stored]:
    """Write a segment of a stream for the store; what cannot be is noted in *spoilt*, and its id is kept."""
    try:
        payload = written(segment)
    except BaseException as raised:  # values are the user's, and so is what they raise
        let_through(raised)
        values = [storable(segment, n, value, spoilt) for n, value in enumerate(segment.values, segment.first)]
        segment = segment._replace(values=values)
        try:
            payload = written(segment)
        except BaseException as again:
            let_through(again)
            yield from unsteady(segment, again, spoilt)
            return
    if len(payload) <= failures.JOINED_BYTES_MAX:
        yield segment.first, segment.next - segment.first, payload
    else:
        yield from divided(segment, payload, spoilt)


def written(segment: Output) -> bytes:
    return encode((list(segment.values), segment.ended, segment.error))


def unsteady(segment: Output, raised: BaseException, spoilt: dict[str, QueryRefused]) -> Iterator[Stored]:
    """Write what is refused though each value of it was not a moment ago: one changes meanwhile, or raises at times."""
    _, first, values, ended, error = segment
    if len(values) + ended > 1:
        yield from halves(segment, spoilt)
    elif values:
        yield from stored(segment._replace(values=[substitute(segment, first, values[0], raised, spoilt)]), spoilt)
    elif error is not None:
        yield from stored(segment._replace(error=StoredError(described(raised), type=type_of(error))), spoilt)
    else:
        raise raised


def halves(segment: Output, spoilt: dict[str, QueryRefused]) -> Iterator[Stored]:
    name, first, values, ended, error = segment
    half = (len(values) + 1) // 2
    yield from stored(Output(name, first, values[:half]), spoilt)
    yield from stored(Output(name, first + half, values[half:], ended, error), spoilt)


def divided(segment: Output, payload: bytes, spoilt: dict[str, QueryRefused]) -> Iterator[Stored]:
    """Write what is too long in halves; one notification alone is written as it is, if a row takes it."""
    name, first, values, ended, error = segment
    if len(values) + ended > 1:
        del payload  # two of them would be twice the memory
        yield from halves(segment, spoilt)
    elif failures.fits(payload):
        yield first, 1, payload
    elif values:
        large = failures.too_large(f"stream {name!r}, id {first:,}", f"a value of {len(payload):,} bytes")
        yield from stored(segment._replace(values=[substitute(segment, first, values[0], large, spoilt)]), spoilt)
    elif error is not None:
        why = f"an error of {len(payload):,} bytes, which a store cannot keep"
        yield from stored(segment._replace(error=StoredError(why, type=type_of(error))), spoilt)


def storable(segment: Output, n: int, value: Any, spoilt: dict[str, QueryRefused]) -> Any:
    """Return *value*, or what stands for it if it cannot be stored."""
    error = loss(value, read=False)
    return value if error is None else substitute(segment, n, value, error, spoilt)


def substitute(segment: Output, n: int, value: Any, error: BaseException, spoilt: dict[str, QueryRefused]) -> Any:
    """Return what stands for *value*, which *error* keeps out of the store."""
    spoilt.setdefault(segment.name, unstorable_value(n, error))
    if is_a(value, DeadLetter) or is_a(value, LateEvent):
        return replace(value, value=stand_in(value.value, error))
    return stand_in(value, error)


def stand_in(value: Any, error: BaseException) -> Unreadable:
    return Unreadable(qualname_of(type(value)), f"it could not be stored: {described(error)}")
