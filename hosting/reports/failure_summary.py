"""Summary of what has failed, waits or was left out in an evaluator, as plain data for other processes.

It is in two places: the status file beside a store (`hosting.reports.status_file`), written while the evaluator runs
and once more when it ends, and the meta of each checkpoint. So a store on which nothing runs says what was open when
that was last known, also without a folder (in a database) or beside one that was copied; the newer of the two counts. A
process that starts keeps nothing of it: what is still so is reported anew. A command that only changes a query
(`restart`, `dispose`) has neither sinks nor bad records of its own, so it hands on what was there.

Rejected: rows of the state (an incident is no function of the turns, and a replay would not repeat it), and the log
(`status` would have to find and read it).
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from operator import methodcaller
from typing import Any

from hosting.reports.incidents import Incident
from reliable_rx.errors import cut_middle
from reliable_rx.names import ENDINGS

FAILED_MAX = 1000
TRACES_MAX = 20
"""How many failed queries a summary has with their traceback: the others are in their rows."""
INCIDENTS_MAX, TRACE_MAX = 100, 2000
"""What a summary has at most: so many incidents, the newest, and so many characters of each traceback."""
SHORT_MAX = 300
"""How long the texts of a summary are that does not fit otherwise."""
FIRST_MAX, COUNTS_BYTES = 50, 100
"""So many failed queries come before incidents where there is no room for all; what their counts may need."""
OVER = frozenset({("journal", "store"), ("checkpoint", "store"), ("stall", "journal"), ("stall", "checkpoint")})
"""What is over once a checkpoint is committed."""
NOT_HANDED_ON = frozenset(
    {
        "query",
        "recovery",
        "stands still",
        "source",
        "source waits",
        "stall",
        "journal",
        "checkpoint",
        "reading",
        "unread",
    }
)
"""Kinds that each start reports anew, or that end with the process."""


def count_of(names: Collection[str]) -> int:
    """Count the queries among *names*, without the streams beside them.

    >>> count_of(["orders", "orders.dead_letters"])
    1
    """
    beside: int = sum(map(methodcaller("endswith", ENDINGS), names))
    return len(names) - beside


def of_queries(failed: Collection[dict[str, Any]]) -> dict[str, Any]:
    """Return which queries have failed, the first of them with their tracebacks."""
    found = islice(failed, FAILED_MAX)
    return {
        "failed": [each if number < TRACES_MAX else {**each, "trace": ""} for number, each in enumerate(found)],
        "failed_left_out": max(0, len(failed) - FAILED_MAX),
    }


def of_incidents(incidents: Sequence[Incident], left_out: int, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is open, of many the most important and newest, behind what an *earlier* run has left."""
    found = [*earlier, *map(asdict, incidents)]
    if len(found) > INCIDENTS_MAX:
        kept = sorted(sorted(range(len(found)), key=lambda at: (_rank(found[at]), -at))[:INCIDENTS_MAX])
        found = [found[at] for at in kept]
    return {
        "incidents": [shortened(each) for each in found],
        "incidents_left_out": max(0, len(earlier) + len(incidents) - INCIDENTS_MAX) + left_out,
    }


def _rank(incident: Mapping[str, Any]) -> tuple[bool, bool]:
    """Order incidents: errors first, and those of queries last, which are named by themselves."""
    return incident["kind"] == "query", incident["level"] != "error"


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


def fitted(status: Mapping[str, Any], bytes_max: int) -> dict[str, Any]:
    """Return *status*; one that is longer than *bytes_max* as JSON with what is most important, and counts of the rest.

    Long texts are cut, then what is left out is told of failed queries and other errors last, of tracebacks first. It
    may still be longer if there is room for next to nothing.

    >>> failed = [{"name": f"q{n}", "error": "no", "trace": "x" * 100} for n in range(9)]
    >>> found = fitted({"turns": 7, "failed": failed, "failed_left_out": 1}, 400)
    >>> len(found["failed"]), found["failed_left_out"], found["turns"], len(json.dumps(found)) <= 400
    (5, 5, 7, True)
    """
    if _bytes(status) <= bytes_max:
        return dict(status)
    lists = {"failed": list(status.get("failed", ())), "incidents": list(status.get("incidents", ()))}
    waits = dict(status.get("waits", {}))
    short = {key: cut_middle(each, SHORT_MAX) if isinstance(each, str) else each for key, each in status.items()}
    kept: dict[str, dict[int, dict[str, Any]]] = {"failed": {}, "incidents": {}}
    left = bytes_max - _bytes({**short, "waits": {}, "failed": [], "incidents": []}) - COUNTS_BYTES
    order = [("failed", at) for at in range(len(lists["failed"]))]
    others = sorted(range(len(lists["incidents"])), key=lambda at: _rank(lists["incidents"][at]))
    order[FIRST_MAX:FIRST_MAX] = [("incidents", at) for at in others]
    for which, at in order:
        brief = _brief(lists[which][at])
        if (size := _bytes(brief) + 2) <= left:
            kept[which][at] = brief
            left -= size
    for which, at in order:  # tracebacks, for which there is room
        if at in kept[which] and (trace := lists[which][at].get("trace")) and (size := _bytes(trace)) <= left:
            kept[which][at]["trace"] = trace
            left -= size
    still = {}
    for name, what in waits.items():
        if (size := _bytes(name) + _bytes(what) + 4) <= left:
            still[name] = what
            left -= size
    found = {key: [each for _, each in sorted(of.items())] for key, of in kept.items()}
    counts = {
        f"{key}_left_out": status.get(f"{key}_left_out", 0) + len(lists[key]) - len(of) for key, of in found.items()
    }
    return {**short, "waits": still, **found, **counts}


def _bytes(found: Any) -> int:
    return len(json.dumps(found))


def _brief(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is *told* without its traceback and with short texts."""
    return {key: cut_middle(each, SHORT_MAX) if isinstance(each, str) else each for key, each in told.items()} | {
        "trace": ""
    }
