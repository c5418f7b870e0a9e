"""Summary of what has failed, waits or was left out in an evaluator, as plain data for other processes.

It is in two places: the status file beside a store (`hosting.status_file`), written while the evaluator runs and once
more when it ends, and the meta of each checkpoint. So a store on which nothing runs says what was open when that was
last known, also without a folder (in a database) or beside one that was copied; the newer of the two counts. A process
that starts keeps nothing of it: what is still so is reported anew. A command that only changes a query (`restart`,
`dispose`) has neither sinks nor bad records of its own, so it hands on what was there.

Rejected: rows of the state (an incident is no function of the turns, and a replay would not repeat it), and the log
(`status` would have to find and read it).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hosting.incidents import Incident

FAILED_MAX = 1000
TRACES_MAX = 20
"""How many failed queries a summary has with their traceback: the others are in their rows."""
INCIDENTS_MAX, TRACE_MAX = 100, 2000
"""What a summary has at most: so many incidents, the newest, and so many characters of each traceback."""
OVER = frozenset({("journal", "store"), ("checkpoint", "store"), ("stall", "journal"), ("stall", "checkpoint")})
"""What is over once a checkpoint is committed."""
NOT_HANDED_ON = frozenset({"query", "recovery", "source", "source waits", "stall", "journal", "checkpoint", "reading"})
"""Kinds that each start reports anew, or that end with the process."""


def of_queries(failed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return which queries have failed, the first of them with their tracebacks."""
    found = list(failed)[:FAILED_MAX]
    return [each if number < TRACES_MAX else {**each, "trace": ""} for number, each in enumerate(found)]


def of_incidents(incidents: Sequence[Incident], left_out: int, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is open, the newest of many, behind what an *earlier* run has left."""
    found = [*earlier, *map(asdict, incidents[-INCIDENTS_MAX:])]
    return {
        "incidents": [shortened(each) for each in found[-INCIDENTS_MAX:]],
        "incidents_left_out": max(0, len(earlier) + len(incidents) - INCIDENTS_MAX) + left_out,
    }


def in_checkpoint(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint has of a *summary*: what is still so when it is committed."""
    lasting = [
        each for each in summary["incidents"] if each["kind"] != "query" and (each["kind"], each["subject"]) not in OVER
    ]
    return {**summary, "incidents": lasting, "told_at": time.time()}


def newest(said: Mapping[str, Any] | None, meta: Mapping[str, Any]) -> tuple[Mapping[str, Any], float | None]:
    """Return the newer one of a status file's summary and a checkpoint's, and when it was made; None: not known.

    >>> newest({"state": "killed", "at": 2.0}, {"told_at": 3.0})
    ({'told_at': 3.0}, 3.0)
    """
    stored_at = meta.get("told_at")
    if said is None:
        return meta, stored_at
    is_now = said["state"] == "running" and "starting" not in said
    is_older = not is_now and stored_at is not None and stored_at > said["at"]
    return (meta, stored_at) if is_older else (said, said["at"])


def own(incidents: Sequence[Incident]) -> list[Incident]:
    """Return what of its *incidents* a command that only changes a query knows: not that the sinks are missing."""
    return [each for each in incidents if each.kind != "holder"]


def to_hand_on(incidents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what of an earlier run's *incidents* nobody else can tell."""
    return [each for each in incidents if each["kind"] not in NOT_HANDED_ON]


def shortened(told: dict[str, Any]) -> dict[str, Any]:
    """Return what is *told* with the end of its traceback, which begins with a whole frame if there is one."""
    trace = told["trace"]
    if len(trace) <= TRACE_MAX:
        return told
    end = trace[-TRACE_MAX:]
    at = end.find("\n  File ")
    return {**told, "trace": end if at < 0 else f"  …{end[at:]}"}
