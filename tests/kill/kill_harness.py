"""Starting, killing and judging real processes that host queries."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

from forked import Forked, script
from kill_app import PUSHED, QUERIES

from checkpoint import SqliteStore
from hosting.edges.stored_outputs import stored_segments
from reliable_rx.testing import check_ledger

APP = Path(__file__).with_name("kill_app.py")
KILLED = -signal.SIGKILL

POINTS = (
    "journal.before_commit", "journal.after_commit", "log.before_commit", "log.after_commit",
    "checkpoint.before_snapshot", "checkpoint.before_commit", "checkpoint.mid_commit", "checkpoint.after_commit",
    "checkpoint.before_truncate", "checkpoint.before_acknowledge",
    "sink.before_flush", "sink.after_flush", "sink.before_acknowledge",
)  # fmt: skip

Records = dict[str, list[Any]]


class Life:
    """One folder, and the processes that host it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged = -1
        self.kills = 0

    def run(self, *, faults: str = "", kill_after_s: float | None = None) -> int:
        """Run a process until it ends, its faults kill it, or we do; return how it ended."""
        with Forked([str(APP), str(self.folder)], script, environment={"RELIABLE_RX_FAULTS": faults}) as process:
            if kill_after_s is not None:
                wait_for_store(process, self.folder)
                time.sleep(kill_after_s)
                process.kill()
            said, complaint = process.communicate()
        assert process.returncode in (0, KILLED), complaint
        self.kills += process.returncode == KILLED
        self._note(said)
        return process.returncode

    def _note(self, said: str) -> None:
        for line in said.splitlines():
            word, _, number = line.partition(" ")
            if word == "pushed":
                assert int(number) > self.acknowledged, f"value {number} was pushed twice"
                self.acknowledged = int(number)

    def records(self) -> Records:
        """Return everything that came out: files, tables and the streams in the store."""
        found: Records = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            found[path.name] = [json.loads(line) for line in path.read_text().splitlines()]
        with sqlite3.connect(self.folder / "tables.db") as database:
            for table in ("windows", "totals"):
                found[table] = database.execute(f"SELECT * FROM {table}").fetchall()
        database.close()
        with SqliteStore.read_only(self.folder / "store") as store:
            for name in QUERIES:
                segments = list(stored_segments(store, name, 0))
                found[f"stream {name}"] = [each for s in segments for each in enumerate(s.values, s.first)]
        return found

    def check(self, expected: Records) -> None:
        """Finish in peace, and find exactly what an uninterrupted run gives."""
        assert self.run() == 0
        found = self.records()
        assert found.keys() == expected.keys()
        for name, records in expected.items():
            check_ledger([str(each) for each in records], [str(each) for each in found[name]]).check(name)
        assert len(found["stream totals"]) == PUSHED


def wait_for_store(process: Forked, folder: Path) -> None:
    """Wait until the process is at work (importing takes longer than working)."""
    while process.poll() is None and not (folder / "store").exists():
        time.sleep(0.005)
