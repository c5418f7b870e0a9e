"""One folder, the processes that live and are killed in it, and the ledger at the end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
from spark_kill_app import LAST, SAID, Flow, rows_in
from spark_world import USERS, put

from reliable_rx.testing import Ledger, check_ledger
from spark_bridge import MicroBatchSink, MicroBatchSource
from spark_bridge.log import append

HERE = Path(__file__).parent
ROWS_PER_FILE, BACKLOG_ROWS = 10, 40
PATIENCE_S = 600
LATE, TRIES_MAX = "Python worker failed to connect back", 5
SPANS = (4, 16)
"""Of how many batches blocks are made, in all processes."""
Side = Literal["spark", "evaluator"]
Victim = Literal["session", "self"]


@dataclass(frozen=True)
class Kill:
    """Where a process is killed, how often it has been there before, on whose side, and what dies with it."""

    point: str
    nth: int = 2
    side: Side = "spark"
    victim: Victim = "session"


VICTIMS = {"session": "", "driver": "spark_kill_app.py", "java": "org.apache.spark", "worker": "pyspark.daemon"}
"""What may be killed at random, by what is in the command that started it."""


def kill_one(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Process:
    """A process of `spark_kill_app`, and everything that it has started."""

    def __init__(self, world: World, role: str, kill: Kill | None) -> None:
        self.world, self.role, self.kill = world, role, kill
        self._stem = f"{role}-{world.lives}"
        self._complaint = open(world.folder / f"{self._stem}.err", "a")  # noqa: SIM115
        paths = [str(HERE / "armed"), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "RELIABLE_RX_SPARK_SPANS": str(list(SPANS))}
        if kill is not None:
            told = {**vars(kill), "count": str(self._path("count")), "mark": str(self._path("mark"))}
            environment["RELIABLE_RX_SPARK_KILL"] = json.dumps(told)
        flow = world.flow
        arguments = [str(world.folder), role, flow.source, flow.form, str(flow.partitions), flow.plan]
        command = [sys.executable, str(HERE / "spark_kill_app.py"), *arguments]
        self._command, self._environment, self._tries = command, environment, 0
        self._launch()

    def _launch(self) -> None:
        self._tries += 1
        self.popen = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=self._complaint,
            stderr=self._complaint,
            start_new_session=True,
        )

    def has_ended(self) -> bool:
        """Whether it has ended; one of which Spark gave up a worker that took ten seconds to start is started again."""
        if self.popen.poll() is None:
            return False
        if LATE in self.said() and self._tries < TRIES_MAX and not self.was_reached:
            self._complaint.truncate(0)
            self._launch()
            return False
        return True

    def _path(self, kind: str) -> Path:
        return self.world.folder / f"{self._stem}.{kind}"

    @property
    def was_reached(self) -> bool:
        return self._path("mark").exists()

    def said(self) -> str:
        return self._path("err").read_text(errors="replace")[-3000:]

    def members(self, command: str = "") -> list[int]:
        """Return the processes of its session that live and were started by a *command* that has this in it."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                state, _, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(session) == self.popen.pid and state != "Z" and command in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except (OSError, ValueError):  # gone, or no process
                continue
        return found

    def end(self) -> None:
        """Kill whatever of it still lives, and wait until nothing does."""
        while members := self.members():
            for pid in members:
                kill_one(pid)
            self.popen.poll()
        self.popen.wait(timeout=PATIENCE_S)
        self._complaint.close()


class World:
    """Rows that go on coming, the processes of one flow, and what is right at the end."""

    def __init__(self, folder: Path, flow: Flow) -> None:
        self.folder, self.flow = folder, flow
        self.lives = self.kills = self.fed = 0
        self.processes: list[Process] = []
        self.fed_up = False
        MicroBatchSink(folder / "back", SAID).open("counted")

    def feed(self) -> None:
        """Let more rows come if those that are there are nearly used up."""
        if self.fed_up or self.flow.source not in ("files", "log"):
            return
        if self.fed * ROWS_PER_FILE < self.published() + BACKLOG_ROWS:
            numbers = range(self.fed * ROWS_PER_FILE, (self.fed + 1) * ROWS_PER_FILE)
            if self.flow.source == "files":
                put(self.folder / "in", self.fed, numbers)
            else:
                columns = {"n": list(numbers), "user": [USERS[n % len(USERS)] for n in numbers]}
                append(self.folder / "in", [pa.record_batch(columns)], batch=self.fed)
            self.fed += 1

    def published(self) -> int:
        """Return how many rows of the source the log covers."""
        return rows_in(MicroBatchSource(self.folder / "log")) * (ROWS_PER_FILE if self.flow.plan == "windows" else 1)

    def start(self, role: str, kill: Kill | None = None) -> Process:
        self.lives += 1
        self.processes.append(Process(self, role, kill))
        return self.processes[-1]

    def close(self) -> None:
        """End whatever a test that has failed has left."""
        for process in self.processes:
            process.end()

    def wait(self, what: str, until: Callable[[], bool], *alive: Process) -> None:
        """Let rows come until *until*; none of *alive* may end meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            for process in alive:
                assert not process.has_ended(), f"{what}: {process.role} has ended by itself: {process.said()}"
            assert time.monotonic() < deadline, f"{what}: {[process.said() for process in alive]}"
            self.feed()
            time.sleep(0.02)

    def killed(self, role: str, kill: Kill, *alive: Process) -> None:
        """Let a process live until it is killed where *kill* says. *Raises* `AssertionError` if it never is."""
        process = self.start(role, kill)
        self.wait(f"{kill} of {role}", lambda: process.was_reached or process.has_ended(), *alive)
        assert process.was_reached, f"{kill} was not reached by {role}: {process.said()}"
        if kill.victim == "self":  # it may go on without: Spark tries a task again
            enough = self.published() + 2 * ROWS_PER_FILE
            self.wait(f"after {kill}", lambda: process.has_ended() or self.published() >= enough, *alive)
        process.end()
        self.kills += 1

    def killed_at_random(self, role: str, draw: random.Random, *alive: Process) -> str:
        """Kill a process, or one of those it has started, at a moment that *draw* chooses; return which it was."""
        process, victim = self.start(role), draw.choice(tuple(VICTIMS))
        goal = self.published() + draw.randrange(4) * ROWS_PER_FILE
        self.wait("rows", lambda: self.published() > goal and bool(process.members(VICTIMS[victim])), process, *alive)
        time.sleep(draw.random() * 0.5)
        for pid in sorted(process.members(VICTIMS[victim]))[-1 if victim == "worker" else 0 :]:
            kill_one(pid)
        if victim == "java":
            self.wait("the end of who has lost Java", lambda: process.has_ended(), *alive)
        elif victim == "worker":
            enough = self.published() + 2 * ROWS_PER_FILE
            self.wait("what comes without a worker", lambda: self.published() >= enough or process.has_ended())
        process.end()
        self.kills += 1
        return victim

    def finish(self, *, apart: bool) -> None:
        """Live on to the end in peace, in one process or in two, and find that nothing is wrong with what came out."""
        processes = [self.start("driver"), self.start("evaluator")] if apart else [self.start("both")]
        enough = max(self.published() + 1, 6 * ROWS_PER_FILE)
        self.wait("more rows", lambda: self.published() >= enough, *processes)
        self.fed_up = True
        last = rows_in(MicroBatchSource(self.folder / "log")) + 20 if self.fed == 0 else self.fed * ROWS_PER_FILE
        (self.folder / "last.new").write_text(str(self.fed - 2 if self.flow.plan == "windows" else last))
        (self.folder / "last.new").rename(self.folder / LAST)
        for process in processes:
            self.wait(f"the end of {process.role}", lambda p=process: p.has_ended())  # type: ignore[misc]
            assert process.popen.returncode == 0, process.said()
            process.end()
        for ledger in self.ledgers():
            assert ledger.expected > 1
            ledger.check()

    def ledgers(self) -> list[Ledger]:
        """Compare what came out with what went in, in the file and in the log that Spark may read."""
        count = rows_in(MicroBatchSource(self.folder / "log"))
        lines = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        assert [line["id"] for line in lines] == list(range(count))
        back = MicroBatchSource(self.folder / "back", reader="ledger", values="tuple")
        both = [[tuple(line["value"]) for line in lines], list(back.open("0", 0).fetch(count + 1).values)]
        assert all([seen for _, _, seen, _ in found] == list(range(1, count + 1)) for found in both)
        if self.flow.partitions == 1 and self.flow.plan != "keyed":
            return [check_ledger([(n, n % 3, n + 1, True) for n in range(count)], found) for found in both]
        of_user = [[each[:2] + each[3:] for each in found if each[1] == user] for found in both for user in range(3)]
        return [check_ledger([(n, u % 3, True) for n in range(u % 3, count, 3)], of_user[u]) for u in range(6)]
