"""Which streams there can be beside a query or a source, so that one that will never have anything is refused by name.

A typo in the name of a side stream is silent otherwise: what reads it waits for ever. Only what a query's own policy
and clock say counts, so that one that has letters from an earlier policy can still be read while it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reliable_rx.names import DEAD_LETTERS, LATE, query_of


def why_never(stream: str, *, policy: str, clock: Any) -> str | None:
    """Say why nothing will ever be in *stream*, beside a query with *policy* and *clock*; None if there may be.

    >>> why_never("q.dead_letters", policy="skip", clock=None)
    "the policy of 'q' is 'skip', so that it has no dead letters: give it policy='dead_letter'"
    """
    query = query_of(stream)
    if stream.endswith(DEAD_LETTERS) and policy != "dead_letter":
        return f"the policy of {query!r} is {policy!r}, so that it has no dead letters: give it policy='dead_letter'"
    late = getattr(clock, "late", None)
    if stream.endswith(LATE) and late != "side":
        if clock is not None:
            return f"{query!r} sets no late events aside, as its clock has late={late!r}: give it late='side'"
        return (
            f"{query!r} sets no late events aside, as it has no event_time: create it with clock=event_time(..., "
            f"late='side'), if it runs already under another name or once it was disposed of"
        )
    return None


def why_never_of_source(stream: str, source: Any = None) -> str | None:
    """Say why nothing will ever be in *stream*, beside a *source*; None: any source.

    >>> why_never_of_source("n.late")
    "'n' is a source, and only queries have late events: read 'n' in a query with event_time(..., late='side')"
    """
    name = query_of(stream)
    if stream.endswith(LATE):
        what = "is a source, and only queries have late events"
        return f"{name!r} {what}: read {name!r} in a query with event_time(..., late='side')"
    policy = getattr(source, "on_bad_record", "fail")
    if source is not None and stream.endswith(DEAD_LETTERS) and policy != "dead_letter":
        return (
            f"the source {name!r} has on_bad_record={policy!r}, so that it has no dead letters: give it 'dead_letter'"
        )
    return None


def with_side_outputs(queries: Iterable[tuple[str, str, Any]]) -> Iterator[str]:
    """Name all streams that there can be of *queries*, each given by name, policy and clock."""
    for name, policy, clock in queries:
        yield name
        for ending in (DEAD_LETTERS, LATE):
            if why_never(name + ending, policy=policy, clock=clock) is None:
                yield name + ending
