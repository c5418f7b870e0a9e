"""Starting, killing, stopping and judging real nodes that share the partitions of `node_app`."""

from __future__ import annotations

import json
import multiprocessing.process
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import reactivex
from forked import PROCESSES
from node_app import BATCH, CHECKPOINT_EVENTS, QUERIES, lines_path, source, table_path, told_path

from hosting.cli import main
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.opening import open_group
from hosting.partitioned.words import MemberId, Status
from reliable_rx.testing import check_ledger

APP = Path(__file__).with_name("node_app.py")
GROUP = "node_app"
SESSION_S = 1.5
WAIT_S = 90.0
AGAIN_MAX = 2 * (CHECKPOINT_EVENTS + BATCH)
"""How much one loss repeats at most: up to a checkpoint that is under way, what comes meanwhile, and a batch each."""
KILLED = -signal.SIGKILL
SHARED = ("group/*.sqlite*", "group/offsets/*.sqlite*", "group/partitions/**/*.sqlite*", "out/*.db*", "out/*.epoch")
"""The files that several nodes write or read, if only one after the other."""
Record = tuple[int, Any]
"""An epoch, and what was written under it."""


Node = multiprocessing.process.BaseProcess


def run(command: list[str], environment: dict[str, str], log: Path) -> None:
    """Be a node: what ``reliable-rx`` does with *command*, writing to *log*."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(environment)
    sys.modules.pop("node_app", None)  # made anew, from this environment
    sys.exit(main(command))


class Cluster:
    """A folder, the nodes that share it, and what came out."""

    def __init__(
        self, folder: Path, *, script: str = "", session_s: float = SESSION_S, rate_per_s: float = 50.0
    ) -> None:
        self.folder, self.script, self.session_s, self.rate_per_s = folder, script, session_s, rate_per_s
        self.nodes: dict[str, Node] = {}
        self.codes = {0, KILLED}
        (folder / "out").mkdir()
        self.shared = open_group(folder / "group", GROUP)

    def begin(self, *, events_max: int = 1 << 30) -> None:
        """Let events come from now on, or go on coming, up to so many of each partition."""
        beside, begun = self.folder / "begun.tmp", self.folder / "begun"
        since = begun.read_text().split()[0] if begun.exists() else str(time.time())
        beside.write_text(f"{since} {(events_max + 0.5) / self.rate_per_s}")
        beside.rename(begun)

    # ---- nodes

    def start(self, name: str, *options: str, faults: str = "", gate: str = "") -> Node:
        """Start a node; it ends by itself when all partitions have ended. One with a *gate* waits until it is open."""
        environment = {
            "RELIABLE_RX_FAULTS": faults, "NODE_FOLDER": str(self.folder), "NODE_SCRIPT": self.script,
            "NODE_RATE": str(self.rate_per_s), "NODE_GATE": str(self.folder / gate) if gate else "",
        }  # fmt: skip
        command = [
            "node", f"{APP}:app", "--plain", "--until-ended", "--tag", name, "--store", str(self.folder / "group"),
            "--session", str(self.session_s), "--commit-interval", "0.1",
            *(options if "--gather" in options else ("--gather", "0", *options)),
        ]  # fmt: skip
        node = PROCESSES.Process(target=run, args=(command, environment, self.folder / f"{name}.log"), daemon=True)
        self.nodes[name] = node
        node.start()
        return node

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def signal(self, name: str, number: int) -> None:
        os.kill(self.nodes[name].pid or 0, number)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else "(not begun)"

    def logs(self) -> str:
        return "\n".join(f"---- {name}\n{self.log(name)}" for name in self.nodes)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for a condition, not for a time."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline, f"{what} has not come in {WAIT_S:g} s\n{self.logs()}"
            assert all(each.exitcode in (None, *self.codes) for each in self.nodes.values()), self.logs()
            time.sleep(0.01)

    def finish(self) -> None:
        """Wait until everybody who lives has ended by himself, in peace."""
        for name, node in self.nodes.items():
            self.until(partial(is_over, node), f"the end of node {name}")

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()
            node.join()
        self.shared.close()

    # ---- the group

    def group(self) -> Group | None:
        _, document = self.shared.registry.load()
        return None if document is None else read_group(document, name=GROUP)

    def owners(self) -> dict[str, str]:
        """Name the tag of the owner of each partition that somebody has."""
        group = self.group()
        if group is None:
            return {}
        tags: dict[MemberId | None, str] = {member: str(seat.profile.tag) for member, seat in group.members.items()}
        return {each.name: tags[hold.owner] for each, hold in group.holds.items() if hold.owner in tags}

    def tags(self) -> list[str]:
        """Name the members by their tags."""
        group = self.group()
        return [] if group is None else [str(seat.profile.tag) for seat in group.members.values()]

    def written_by(self, name: str) -> bool:
        """Whether each partition that has not ended is held by *name*, who has written a line of it."""
        group, owners = self.group(), self.owners()
        return group is not None and all(
            hold.status is Status.TERMINATED
            or (owners.get(each.name) == name and self._newest_epoch(each.name) == hold.epoch)
            for each, hold in group.holds.items()
        )

    def _newest_epoch(self, partition: str) -> int:
        path = lines_path(self.folder, partition)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return json.loads(lines[-1]).get("value", [0])[0] if lines else 0

    def ended(self) -> bool:
        group = self.group()
        return group is not None and bool(group.holds) and all(
            each.status is Status.TERMINATED for each in group.holds.values()
        )  # fmt: skip

    # ---- what came out

    def values(self, partition: str) -> list[int]:
        return list(source(self.script).open(partition, 0).fetch(1 << 20).values)

    def partitions(self) -> list[str]:
        return list(source(self.script).partitions())

    def records(self, partition: str) -> dict[str, list[Record]]:
        """Return what came of both queries, in order; the end is a record too. Ids leave out and repeat nothing."""
        path = lines_path(self.folder, partition)
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        assert [line["id"] for line in lines] == list(range(len(lines)))
        sums = [tuple(line["value"]) for line in lines if "value" in line]
        return {"sums": sums + [(1 << 30, "end")] * ("completed" in lines[-1]), "fives": self._rows(partition)}

    def _rows(self, partition: str) -> list[Record]:
        database = sqlite3.connect(table_path(self.folder, partition))
        try:
            rows = database.execute("SELECT id, epoch, sum FROM fives ORDER BY id").fetchall()
            (ended,) = database.execute("SELECT ended_id FROM reliable_rx_sinks").fetchone()
        finally:
            database.close()
        assert [n for n, _, _ in rows] == list(range(len(rows)))
        return [(epoch, value) for _, epoch, value in rows] + [(1 << 30, "end")] * (ended == len(rows))

    def check(self, *, losses: int = 1) -> None:
        """Every partition has come out once and in order, as un-hosted, and nobody wrote behind a later epoch.

        After *losses* of an owner a sink that cannot know was told little again: what came since the last checkpoint.
        """
        assert self.ended(), self.group()
        for partition in self.partitions():
            for name, records in self.records(partition).items():
                what = f"{name} of {partition}"
                wanted = [*unhosted(name, self.values(partition)), "end"]
                check_ledger(wanted, [value for _, value in records]).check(f"{what}\n{self.logs()}")
                epochs = [epoch for epoch, _ in records]
                assert epochs == sorted(epochs), f"{what}: written by one whose epoch was over\n{self.logs()}"
        again = self.told_again()
        assert max(again.values()) <= losses * AGAIN_MAX, again
        self.check_logs()

    def told_again(self) -> dict[str, int]:
        """Count per partition what a sink was told twice that cannot know it; it was told everything, and in order."""
        again = {}
        for partition in self.partitions():
            lines = [line.split() for line in told_path(self.folder, partition).read_text().splitlines()]
            came = {int(n): int(value) for n, value in lines}
            assert len({(n, value) for n, value in lines}) == len(came), f"one id, two values, of {partition}"
            wanted = unhosted("told", self.values(partition))
            check_ledger(wanted, [came[n] for n in sorted(came)]).check(f"told of {partition}")
            again[partition] = len(lines) - len(came)
        return again

    def check_logs(self) -> None:
        """No node has met anything that it has no word for."""
        for name in self.nodes:
            assert "Traceback" not in self.log(name), self.logs()


def locks_others_out(node: Node, folder: Path) -> bool:
    """Whether *node* holds a lock that others need: they are held for milliseconds, and nobody can take one away."""
    shared = set()
    for path in listed(folder):
        with suppress(FileNotFoundError):  # SQLite makes and removes some of its files as it goes
            shared.add(path.stat().st_ino)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        lock[3:5] == ["WRITE", str(node.pid)] and int(lock[5].rpartition(":")[2]) in shared
        for lock in locks
        if lock[1] in ("POSIX", "FLOCK")
    )


def listed(folder: Path) -> list[Path]:
    """Return the files that nodes share; folders come and go, and while one is read it may be gone."""
    while True:
        with suppress(FileNotFoundError):
            return [path for pattern in SHARED for path in folder.glob(pattern)]


def unhosted(name: str, values: list[int]) -> list[Any]:
    found: list[Any] = []
    QUERIES[name].bind(numbers=reactivex.from_iterable(values)).subscribe(found.append)
    return found


@contextmanager
def cluster(folder: Path, **options: Any) -> Iterator[Cluster]:
    found = Cluster(folder, **options)
    try:
        yield found
    finally:
        found.close()


def is_over(node: Node) -> bool:
    """Whether *node* has ended, in whatever way."""
    return node.exitcode is not None


def is_stopped(node: Node) -> bool:
    """Whether *node* has stopped itself with SIGSTOP."""
    if node.exitcode is not None:
        return False
    return Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
