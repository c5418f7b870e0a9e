"""Why a query has failed and what to do about it, in a sentence: by itself, or with what it reads.

A query ends with the error of the stream or source that it reads. Then neither an event of its own nor the traceback
says anything: the other one is named, which has both. Which one it was is stored with the failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hosting.engine.cycles import name_of
from hosting.engine.skipping import catches
from reliable_rx.errors import (
    InternalError,
    LimitExceeded,
    NondeterminismDetected,
    QueryRefused,
    described,
)
from reliable_rx.names import ENDINGS, query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.hosted_query import Standing

NAMED_MAX = 20
HANDED_ON = "it reads that one's stream"
"""In what is said of a query that has failed with another one, whose failure is the cause."""
LATER = ("a timer", "the answer of a call")
"""What is at work for an event that has come before."""


class Upstream(NamedTuple):
    """What a failed query reads and has failed with: a query, one that was disposed of or runs again, or a source."""

    name: str
    kind: str


def upstream_of(engine: QueryEngine, standing: Standing) -> Upstream | None:
    """Return what *standing* has failed with; None if it has failed by itself, or not at all."""
    origin = "" if standing.error is None or standing.failure is None else standing.failure.origin
    if not origin:
        return None
    there = engine.standing.get(query_of(origin))
    if there is None and (origin in engine.failures or origin in engine.live):
        return Upstream(origin, "source")
    return Upstream(origin, "disposed" if there is None else "running" if there.error is None else "query")


def sentence(
    engine: QueryEngine,
    standing: Standing,
    *,
    again: str,
    when: str,
    unchanged: bool,
    untold: str = "",
) -> str:
    """Say what *standing* has failed with, and what to do; *when*: in which run, *unchanged*: as it is declared.

    A query that is edited runs again, and so do those that have failed with it; *untold*: why it is not
    known whether it was edited. *again* is how it is run again as it is.
    """
    failure = standing.failure
    why = "" if standing.error is None else described(standing.error)
    when = f"has failed{when}"
    match upstream_of(engine, standing):
        case Upstream(source, "query"):
            remedy = f"{HANDED_ON}; mend that one, and this one runs again with it"
            return f"{when} with {source!r} ({why}): {remedy}"
        case Upstream(source, "running"):
            return f"{when} with {source!r} ({why}), which runs again by now: {again}"
        case Upstream(source, "disposed"):
            remedy = "it runs again once a query or a source of that name is there"
            return f"{when} with {source!r}, which was disposed of: {remedy}"
        case Upstream(source, _):
            return f"{when} with the source {source!r} ({why}): mend that and read it anew, then {again}"
    at = "an event that is not known" if failure is None else failure.at
    where = f"{when} at {at}" if when == "has failed" else f"{when}, at {at}"
    if isinstance(standing.error, NondeterminismDetected):
        mend = "mend its function, and this query runs again as an edited one"
        return f"{where}: {why}; {mend}; if the world was wrong (put a file back that was replaced), {again}"
    if untold:
        known = "" if failure is None or not failure.text else "the text of its functions is what it was, and "
        edited = f"{known}whether it was edited cannot be told, since {untold}"
        return f"{where}: {why}; {edited}: once its function is mended, or the world, {again}"
    if isinstance(standing.error, (TypeError, AttributeError)) and "'coroutine'" in why:
        why += " (what an async function returns is awaited by map_async alone)"
    policy = " or give it a policy" if may_be_left_out(standing) else ""
    mend = f"mend its function (an edited query runs again, without its state){policy}; if the world was wrong"
    return f"{where}: {why}; {'its declaration is unchanged: ' if unchanged else ''}{mend}, {again}"


def may_be_left_out(standing: Standing) -> bool:
    """Whether a policy may have left out what *standing* has failed at: an event, at which a function raised.

    No function raised where the traceback has no line: the error was made, and handed on as the end.
    """
    error, failure = standing.error, standing.failure
    if standing.policy != "fail" or failure is None or isinstance(error, (LimitExceeded, InternalError, QueryRefused)):
        return False
    if not failure.at.source and failure.at.what not in LATER:
        return False
    return 'File "' in failure.trace and not any(catches(node) for node in standing.plan.walk())


def short_cause(error: str, failed_at: object, upstream: str) -> str:
    """Return *error* and where it was, in short.

    >>> short_cause("KeyError: 'price'", None, "orders"), short_cause("KeyError: 'price'", "n/0 event 7", "")
    ("KeyError: 'price' (with 'orders')", "KeyError: 'price' (at n/0 event 7)")
    """
    if upstream:
        return f"{error} (with {upstream!r})"
    return error if failed_at is None else f"{error} (at {failed_at})"


def readers_of(engine: QueryEngine, name: str) -> list[str]:
    """Name the queries that read the stream of *name*, or what it sets aside, at the moment."""
    return sorted({each for stream in (name, *(name + ending for ending in ENDINGS)) for each in _read(engine, stream)})


def all_readers_of(engine: QueryEngine, name: str) -> list[str]:
    """Name the queries that read the stream of *name*, and those that read theirs."""
    found, waiting = dict[str, None](), [name]
    while waiting:
        new = [each for each in readers_of(engine, waiting.pop()) if each not in found and each != name]
        found.update(dict.fromkeys(new))
        waiting += new
    return sorted(found)


def name_some(names: Sequence[str]) -> str:
    """Return the first of *names*, and how many more there are.

    >>> name_some(["a", "b"]), name_some(["a"] * 10_020)[-20:]
    ('a, b', 'a, a and 10,000 more')
    """
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"


def is_read(engine: QueryEngine, name: str) -> bool:
    """Whether a query that runs reads the source or stream *name*."""
    return next(_read(engine, name), None) is not None


def _read(engine: QueryEngine, stream: str) -> Iterator[str]:
    route = engine.routes.get(stream)
    if route is not None:
        yield from (name_of(instance) for instance, _ in route.readers())
    for mark in engine.watermarks.by_source.get(stream, ()):
        yield from (clock.standing.name for clock in mark.members)
