"""`reliable-rx status` of one evaluator's store: what has failed in it, why, where and since when.

What is durable is read from the newest checkpoint, without loading any code; what is so at this moment from what the
process that runs on it says (`hosting/status_file.py`). So it works on a store whose app cannot be imported here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checkpoint import SqliteStore
from checkpoint.salvage import salvage
from hosting.cli.wording import FAILED, moment, plural, say, span, table
from hosting.failure import FailedAt
from hosting.status_file import SILENT_S, read_status

WATCH_S = 1.0
SHOWN_MAX = 20
TRACES_SHOWN_MAX = 3
A_LONG_TIME_AGO = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """A store at one moment: *pid* is the process that runs on it, None if none does; it wrote *reported_s* ago.

    If an error has *ended* the last one, that is what it said.
    """

    store: str
    generation: int
    committed_s: float | None
    pid: int | None
    reported_s: float | None
    trouble: str
    running: dict[str, int]
    failed: list[dict[str, Any]]
    incidents: list[dict[str, Any]] = field(default_factory=list)
    incidents_left_out: int = 0
    ended: str = ""
    waits: dict[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return FAILED if self.ended or self.failed or any(each["level"] == "error" for each in self.incidents) else 0


def is_store(where: str) -> bool:
    """Whether *where* is the folder of a store, and of no group of nodes."""
    return (Path(where) / "checkpoint.sqlite").is_file() and not (Path(where) / "registry.sqlite").is_file()


def store_status(where: str, *, as_json: bool, watch: bool) -> int:
    """Show a store, once or until Ctrl-C; return 3 if something in it has failed, else 0."""
    while True:
        status = look(Path(where))
        for line in [json.dumps(asdict(status), default=str)] if as_json else lines(status):
            say(line)
        if not watch:
            return status.exit_code
        try:
            time.sleep(WATCH_S)
        except KeyboardInterrupt:
            return status.exit_code


def look(directory: Path) -> StoreStatus:
    """Read everything. *Raises* `CheckpointRefused`, `StoreUnavailable`."""
    now, live = time.time(), read_status(directory)
    with SqliteStore.read_only(directory) as store:
        recovered = store.recover(strict=False)
        generations = store.generations()
    meta = {} if recovered is None else salvage(recovered.meta, code=False).value
    told = live or {}
    return StoreStatus(
        store=str(directory),
        generation=0 if recovered is None else recovered.generation,
        committed_s=max(0.0, now - generations[-1].committed_at) if generations else None,
        pid=None if "ended" in told else told.get("pid"),
        reported_s=max(0.0, now - told["at"]) if live else None,
        trouble=told.get("trouble", ""),
        running={key: told[key] for key in ("queries", "turns", "events_in", "events_out") if key in told},
        failed=list(told.get("failed", meta.get("failed", ()))),
        incidents=list(told.get("incidents", fallbacks(() if recovered is None else recovered.fallbacks))),
        incidents_left_out=told.get("incidents_left_out", 0),
        ended=told.get("ended", ""),
        waits=told.get("waits", {}),
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
    if status.generation:
        ago = "" if status.committed_s is None else f", {span(status.committed_s)} old"
        yield f"checkpoint {status.generation:,}{ago}"
    else:
        yield "no checkpoint yet"
    if status.running:
        queries, taken, out = (status.running[key] for key in ("queries", "events_in", "events_out"))
        yield f"{plural(queries, 'query', 'queries')}; {plural(taken, 'event')} in and {out:,} out in this run"
    if status.trouble:
        yield f"waiting: {status.trouble}"
    yield from (f"waiting: {name} waits for {what}" for name, what in status.waits.items())
    yield from failed_lines(status.failed)
    yield from incident_lines([each for each in status.incidents if each["kind"] != "query"])
    if status.incidents_left_out:
        yield f"… and {status.incidents_left_out:,} more"
    if not (status.failed or status.incidents or status.ended):
        yield "nothing has failed"


def runs(status: StoreStatus) -> str:
    if status.ended and status.reported_s is not None:
        return f"the last process ended {span(status.reported_s)} ago: {status.ended}"
    if status.pid is None or status.reported_s is None:
        return "no process says that it runs on it"
    silent = ", which is stopped or hangs" if status.reported_s > SILENT_S else ""
    return f"process {status.pid} runs on it, and wrote this {span(status.reported_s)} ago{silent}"


def failed_lines(failed: list[dict[str, Any]]) -> Iterator[str]:
    if not failed:
        return
    yield ""
    yield f"{plural(len(failed), 'query has failed', 'queries have failed')}"
    rows = [(each["name"], each["error"], *where(each)) for each in failed[:SHOWN_MAX]]
    yield from table(("query", "error", "at", "since"), rows)
    if len(failed) > SHOWN_MAX:
        yield f"  … and {len(failed) - SHOWN_MAX:,} more; --json has all"
    for each in [each for each in failed if each["trace"]][:TRACES_SHOWN_MAX]:
        yield ""
        yield f"  {each['name']}:"
        yield from (f"  {line}" for line in each["trace"].rstrip().splitlines())


def where(failed: dict[str, Any]) -> tuple[str, str]:
    if failed["failed_at"] is None:
        return "", ""
    at = FailedAt(**failed["failed_at"])
    return str(at), moment(at.time) if at.time > A_LONG_TIME_AGO else ""


def incident_lines(incidents: list[dict[str, Any]]) -> Iterator[str]:
    if incidents:
        yield ""
    for each in incidents:
        times = f" ({each['count']:,} times)" if each["count"] > 1 else ""
        what = f"{each['kind']} {each['subject']!r}: {each['message']}"
        yield f"{each['level'].upper()} since {moment(each['since'])}: {what}{times}"
