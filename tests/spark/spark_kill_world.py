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
from spark_bridge.micro_batch_log import append

HERE = Path(__file__).parent
ROWS_PER_FILE, BACKLOG_ROWS = 10, 40
PATIENCE_S = 600
LATE, TRIES_MAX = "Python worker failed to connect back", 5
SPANS = (4, 16)
"""Of how many batches blocks are made, in all processes."""
Side = Literal["spark", "evaluator"]
Victim = Literal["session", "self"]
Part = Literal["session", "driver", "java", "worker"]


@dataclass(frozen=True)
class Kill:
    """Where a process is killed, how often it has been there before, on whose side, and what dies with it.

    Only what is done to the log of *flow* counts; where it has none (""), whatever is done.
    """

    point: str
    nth: int = 2
    side: Side = "spark"
    victim: Victim = "session"
    flow: str = ""


PARTS: dict[Part, str] = {
    "session": "",
    "driver": "spark_kill_app.py",
    "java": "org.apache.spark",
    "worker": "pyspark.daemon",
}
"""What may be killed at a random moment, by what is in the command that started it."""


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
        arguments = [str(world.folder), role, *(each.flow.name for each in world.feeds)]
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

    def has_left(self) -> bool:
        """Whether nothing lives that it has started."""
        return not self.members()

    def end(self) -> None:
        """Kill whatever of it still lives, and wait until nothing does."""
        while members := self.members():
            for pid in members:
                kill_one(pid)
            self.popen.poll()
        self.popen.wait(timeout=PATIENCE_S)
        self._complaint.close()


class Feed:
    """The rows of one flow: those that come, those that are in its log, and what is right at the end."""

    def __init__(self, folder: Path, flow: Flow) -> None:
        self.folder, self.flow = folder / flow.name, flow
        self.files = 0
        self.log = MicroBatchSource(self.folder / "log")
        MicroBatchSink(self.folder / "back", SAID).open("counted")

    def feed(self) -> None:
        """Let more rows come if those that are there are nearly used up."""
        if self.flow.source not in ("files", "log"):
            return
        if self.files * ROWS_PER_FILE < self.published() + BACKLOG_ROWS:
            numbers = range(self.files * ROWS_PER_FILE, (self.files + 1) * ROWS_PER_FILE)
            if self.flow.source == "files":
                put(self.folder / "in", self.files, numbers)
            else:
                columns = {"n": list(numbers), "user": [USERS[n % len(USERS)] for n in numbers]}
                append(self.folder / "in", [pa.record_batch(columns)], batch=self.files)
            self.files += 1

    def published(self) -> int:
        """Return how many rows of the source the log covers."""
        return rows_in(self.log) * (ROWS_PER_FILE if self.flow.plan == "windows" else 1)

    def say_last(self) -> None:
        """Say with how many rows in its log the flow ends."""
        last = rows_in(self.log) + 20 if self.files == 0 else self.files * ROWS_PER_FILE
        (self.folder / "last.new").write_text(str(self.files - 2 if self.flow.plan == "windows" else last))
        (self.folder / "last.new").rename(self.folder / LAST)

    def ledgers(self) -> list[Ledger]:
        """Compare what came out with what went in, in the file and in the log that Spark may read."""
        count = rows_in(self.log)
        lines = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        assert [line["id"] for line in lines] == list(range(count))
        back = MicroBatchSource(self.folder / "back", reader="ledger", values="tuple")
        both = [[tuple(line["value"]) for line in lines], list(back.open("0", 0).fetch(count + 1).values)]
        assert both[0] == both[1]
        assert [seen for _, _, seen, _ in both[0]] == list(range(1, count + 1))
        if self.flow.plan == "windows":  # of those that end in one batch Spark says no order
            right = sorted((n, user, right) for n, user, _, right in both[0])
            return [check_ledger([(n, n % 3, True) for n in range(count)], right)]
        if self.flow.partitions == 1 and self.flow.plan != "keyed":
            return [check_ledger([(n, n % 3, n + 1, True) for n in range(count)], found) for found in both]
        of_user = [[each[:2] + each[3:] for each in found if each[1] == user] for found in both for user in range(3)]
        return [check_ledger([(n, u % 3, True) for n in range(u % 3, count, 3)], of_user[u]) for u in range(6)]


class World:
    """Rows that go on coming, and the processes of some flows."""

    def __init__(self, folder: Path, *flows: Flow) -> None:
        self.folder = folder
        self.lives = self.kills = 0
        self.processes: list[Process] = []
        self.fed_up = False
        self.feeds = [Feed(folder, flow) for flow in flows]

    def published(self) -> list[int]:
        return [each.published() for each in self.feeds]

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
            for feed in () if self.fed_up else self.feeds:
                feed.feed()
            time.sleep(0.05)

    def wait_for_more(self, what: str, rows: int, *alive: Process, unless: Process | None = None) -> None:
        """Let rows come until each log has *rows* more, or *unless* has ended."""
        enough = [before + rows for before in self.published()]

        def came() -> bool:
            return all(now >= goal for now, goal in zip(self.published(), enough, strict=True))

        self.wait(what, lambda: came() or (unless is not None and unless.has_ended()), *alive)

    def killed(self, role: str, kill: Kill, *alive: Process) -> None:
        """Let a process live until it is killed where *kill* says. *Raises* `AssertionError` if it never is."""
        process = self.start(role, kill)
        self.wait(f"{kill} of {role}", lambda: process.was_reached or process.has_ended(), *alive)
        assert process.was_reached, f"{kill} was not reached by {role}: {process.said()}"
        if kill.victim == "self":  # it may go on without: Spark tries a task again
            self.wait_for_more(f"after {kill}", 2 * ROWS_PER_FILE, *alive, unless=process)
        process.end()
        self.kills += 1

    def lives_on(self, role: str, kill: Kill) -> Process:
        """Start a process, and let it lose a worker where *kill* says; return it, at work."""
        process = self.start(role, kill)
        self.wait(f"{kill} of {role}", lambda: process.was_reached, process)
        self.wait_for_more(f"after {kill}", ROWS_PER_FILE, process)
        self.kills += 1
        return process

    def killed_at_random(self, role: str, draw: random.Random, *alive: Process, part: Part | None = None) -> None:
        """Start a process; kill it, or *part* of what it has started, at a moment that *draw* chooses."""
        process = self.start(role)
        self.lose(process, part or draw.choice(tuple(PARTS)), draw, *alive)
        process.end()

    def lose(self, process: Process, part: Part, draw: random.Random, *alive: Process) -> None:
        """Kill *part* of a process at work. Python and Java end without each other; without a worker both may go on."""
        goal = sum(self.published()) + draw.randrange(4) * ROWS_PER_FILE
        self.wait("rows", lambda: sum(self.published()) > goal and bool(process.members(PARTS[part])), process, *alive)
        time.sleep(draw.random() * 0.5)
        for pid in sorted(process.members(PARTS[part]))[-1 if part == "worker" else 0 :]:
            kill_one(pid)
        if part == "java":
            self.wait("the end of who has lost Java", process.has_ended, *alive)
        elif part == "driver":
            self.wait("the end of a JVM without a driver", lambda: not process.members(PARTS["java"]), *alive)
        elif part == "worker":
            self.wait_for_more("what comes without a worker", 2 * ROWS_PER_FILE, *alive, unless=process)
        self.kills += 1

    def finish(self, *processes: Process) -> None:
        """Live on to the end in peace, with *processes*, and find that nothing is wrong with what came out."""

        def has_enough() -> bool:
            return all(now >= 6 * ROWS_PER_FILE for now in self.published())

        self.wait_for_more("more rows", 1, *processes)
        self.wait("rows enough", has_enough, *processes)
        self.fed_up = True
        for feed in self.feeds:
            feed.say_last()
        for process in processes:
            self.wait(f"the end of {process.role}", process.has_ended)
            assert process.popen.returncode == 0, process.said()
            self.wait(f"the end of what {process.role} has started", process.has_left)
            process.end()
        for ledger in [ledger for feed in self.feeds for ledger in feed.ledgers()]:
            assert ledger.expected > 1
            ledger.check()
