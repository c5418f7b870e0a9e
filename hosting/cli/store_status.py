"""`reliable-rx status` of one evaluator's store: what has failed in it, why, where and since when.

What is durable is read from the newest checkpoint, without loading any code; what is so at this moment from what the
process that runs on it says (`hosting/reports/status_file.py`), or has said last. So it works on a store whose app
cannot be imported here, and on one on which nothing runs any more. What is only in the journal is not looked at: that
needs the sources and the code. It is counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from checkpoint import PostgresStore, SqliteStore
from checkpoint.format.salvage import salvage
from checkpoint.sqlite.files import lock_owner
from checkpoint.store import StoreReader
from hosting.cli.terminal import say
from hosting.cli.wording import FAILED, moment, plural, span, table
from hosting.engine.failure import FailedAt
from hosting.reports.failure_summary import newest
from hosting.reports.status_file import NAME, SILENT_S, is_torn, read_status
from reliable_rx.errors import CheckpointRefused

WATCH_S = 1.0
SHOWN_MAX = 20
TRACES_SHOWN_MAX = 3
A_LONG_TIME_AGO = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """A store at one moment: *pid* is the process that runs on it, None if none does; the last wrote *reported_s* ago.

    *state* is ``running``; ``stopped``, in order; ``ended``, by the error *ended*; ``killed``, without a word; or
    ``unknown``, if no process says anything here: it is that of a database, or of a copy. One that is *starting* has
    not said anything yet; what one says may be *unreadable*. What has failed and what is
    open is as of *told_s* ago. *behind* counts the turns of the journal behind the checkpoint. Of a store that is
    *refused*, all is as its last process has said it.
    """

    store: str
    state: str
    generation: int
    committed_s: float | None
    pid: int | None
    reported_s: float | None
    told_s: float | None
    behind: int
    trouble: str
    running: dict[str, int]
    failed: list[dict[str, Any]]
    failed_left_out: int = 0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    incidents_left_out: int = 0
    ended: str = ""
    waits: dict[str, str] = field(default_factory=dict)
    starting: bool = False
    unreadable: bool = False
    refused: str = ""

    @property
    def exit_code(self) -> int:
        is_bad = self.refused or self.ended or self.failed or (self.unreadable and self.state == "running")
        return FAILED if is_bad or any(each["level"] == "error" for each in self.incidents) else 0


def store_status(read: Callable[[], StoreStatus], *, as_json: bool, watch: bool) -> int:
    """Show a store as *read* finds it, once or until Ctrl-C; return 3 if something in it has failed, else 0."""
    while True:
        status = read()
        for line in [json.dumps(asdict(status), default=str)] if as_json else lines(status):
            say(line)
        if not watch:
            return status.exit_code
        try:
            time.sleep(WATCH_S)
        except KeyboardInterrupt:
            return status.exit_code


def look(directory: Path) -> StoreStatus:
    """Read everything, as far as the store lets itself be read. *Raises* `StoreUnavailable`."""
    said = read_status(directory)
    try:
        with SqliteStore.read_only(directory) as store:
            status = status_of(store, str(directory), said)
    except CheckpointRefused as error:
        status = status_of(None, str(directory), said, refused=error.message)
    if said is not None or not is_torn(directory):
        return status
    owner = lock_owner(directory) or ""
    pid = int(owner) if owner.isdigit() else None
    return replace(status, unreadable=True, pid=pid, state="running" if owner else "unknown")


def look_in_database(dsn: str, name: str) -> StoreStatus:
    """Read everything of a store that has no folder. *Raises* `CheckpointRefused`, `StoreUnavailable`."""
    with PostgresStore.read_only(dsn, name) as store:
        return status_of(store, f"{name} in the database", None)


def status_of(store: StoreReader | None, called: str, said: dict[str, Any] | None, *, refused: str = "") -> StoreStatus:
    """Put together what a store has, if it is not *refused*, and what a process has *said* of it."""
    now = time.time()
    recovered = None if store is None else store.recover(strict=False)
    generations = [] if store is None else store.generations()
    last_turn = 0 if store is None else store.journal.last_turn
    meta = {} if recovered is None else salvage(recovered.meta, code=False).value
    told, at = newest(said, meta)
    said = said or {}
    incidents = list(told.get("incidents", ()))
    if said.get("state") != "running" and recovered is not None:
        incidents += fallbacks(recovered.fallbacks)
    return StoreStatus(
        store=called,
        state=said.get("state", "unknown"),
        generation=0 if recovered is None else recovered.generation,
        committed_s=max(0.0, now - generations[-1].committed_at) if generations else None,
        pid=said["pid"] if said.get("state") == "running" else None,
        reported_s=max(0.0, now - said["at"]) if said and said["at"] else None,
        told_s=None if at is None else max(0.0, now - at),
        behind=max(0, last_turn - (0 if recovered is None else recovered.turn)),
        trouble=said.get("trouble", ""),
        running={key: said[key] for key in ("queries", "turns", "events_in", "events_out") if key in said},
        failed=list(told.get("failed", ())),
        failed_left_out=told.get("failed_left_out", 0),
        incidents=incidents,
        incidents_left_out=told.get("incidents_left_out", 0),
        ended=said.get("ended", ""),
        waits=said.get("waits", {}),
        starting=said.get("starting", False),
        refused=refused,
    )


def fallbacks(warnings: Any) -> Iterator[dict[str, Any]]:
    """Tell what a start would have to pass over."""
    for number, warning in enumerate(warnings, 1):
        yield {
            "kind": "recovery", "subject": f"warning {number}", "message": warning, "level": "error",
            "since": time.time(), "count": 1, "trace": "",
        }  # fmt: skip


def lines(status: StoreStatus) -> Iterator[str]:
    """Write a store for people."""
    yield f"store {status.store}: {runs(status)}"
    if status.refused:
        yield "it is still so" if status.refused in status.ended else f"no process can start on it: {status.refused}"
    elif status.generation:
        ago = "" if status.committed_s is None else f", {span(status.committed_s)} old"
        yield f"checkpoint {status.generation:,}{ago}"
    else:
        yield "no checkpoint yet"
    if status.running:
        queries, taken, out = (status.running[key] for key in ("queries", "events_in", "events_out"))
        which = "this run" if status.state == "running" else "the last run"
        yield f"{plural(queries, 'query', 'queries')}; {plural(taken, 'event')} in and {out:,} out in {which}"
    if status.behind and status.state != "running":
        yield f"{plural(status.behind, 'turn')} behind the checkpoint: the next start takes them again"
    has_failed = bool(status.failed or status.incidents or status.ended)
    if (status.state in ("killed", "unknown") or status.starting) and has_failed and status.told_s is not None:
        yield f"what was known {span(status.told_s)} ago:"
    if status.trouble:
        yield f"waiting: {status.trouble}"
    yield from (f"waiting: {name} waits for {what}" for name, what in status.waits.items())
    yield from failed_lines(status.failed, status.failed_left_out)
    yield from incident_lines([each for each in status.incidents if each["kind"] != "query"])
    if status.incidents_left_out:
        yield f"… and {status.incidents_left_out:,} more"
    yield from verdict(status, has_failed=has_failed)


def verdict(status: StoreStatus, *, has_failed: bool) -> Iterator[str]:
    """Say that nothing has failed, as far as that is known."""
    if status.refused:
        return
    if status.state == "running" and (status.unreadable or (status.starting and status.behind)):
        yield "whether something has failed since that checkpoint is not known"
    elif status.state in ("killed", "unknown") and status.behind:
        yield "whether something has failed in the turns behind the checkpoint is not known: start it to see"
    elif not has_failed:
        yield "nothing has failed"


def runs(status: StoreStatus) -> str:
    ago = "" if status.reported_s is None else f"{span(status.reported_s)} ago"
    if status.state == "ended":
        return f"the last process ended{ago and f' {ago}'}: {status.ended}"
    if status.state == "stopped":
        return f"no process runs on it; the last one stopped in order {ago}"
    if status.state == "killed" and status.starting:
        return "no process runs on it, and the last one was not stopped in order, but ended while it started"
    if status.state == "killed":
        return f"no process runs on it, and the last one was not stopped in order; it said something last {ago}"
    if status.starting:
        return f"process {status.pid} starts on it"
    if status.unreadable:
        why = f"cannot be read ({NAME} is torn or empty: is the disk full?)"
        if status.state == "running":
            return f"process {status.pid} runs on it, and what it says of itself {why}"
        return f"no process runs on it, and what the last one said of itself {why}"
    if status.state == "unknown" or status.reported_s is None:
        return "no process says that it runs on it"
    silent = ", which is stopped or hangs" if status.reported_s > SILENT_S else ""
    return f"process {status.pid} runs on it, and wrote this {ago}{silent}"


def failed_lines(failed: list[dict[str, Any]], left_out: int) -> Iterator[str]:
    if not failed:
        return
    yield ""
    count = len(failed) + left_out
    yield f"{plural(count, 'query has failed', 'queries have failed')}"
    rows = [(each["name"], each["error"], *where(each)) for each in failed[:SHOWN_MAX]]
    yield from table(("query", "error", "at", "since"), rows)
    if count > SHOWN_MAX:
        all_of_them = f"{len(failed):,} of them" if left_out else "all"
        yield f"  … and {count - min(SHOWN_MAX, len(failed)):,} more; --json has {all_of_them}"
    for each in [each for each in failed if each["trace"]][:TRACES_SHOWN_MAX]:
        yield ""
        yield f"  {each['name']}:"
        yield from (f"  {line}" for line in each["trace"].rstrip().splitlines())


def where(failed: dict[str, Any]) -> tuple[str, str]:
    if failed["failed_at"] is None:
        return "", ""
    at = FailedAt(**failed["failed_at"])
    return f"with {failed['upstream']!r}" if failed.get("upstream") else str(at), moment(
        at.time
    ) if at.time > A_LONG_TIME_AGO else ""


def incident_lines(incidents: list[dict[str, Any]]) -> Iterator[str]:
    if incidents:
        yield ""
    for each in incidents:
        times = f" ({each['count']:,} times)" if each["count"] > 1 else ""
        what = f"{each['kind']} {each['subject']!r}: {each['message']}"
        yield f"{each['level'].upper()} since {moment(each['since'])}: {what}{times}"
