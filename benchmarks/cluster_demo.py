"""Twelve logs of flights on three nodes; every round one is killed, one is stopped past its session, and two join.

The flights of the main job in twelve partitions, each a log of its own, hosted by real processes that share a folder.
A round sends SIGKILL to a node and starts another, sends SIGSTOP to one for twice its session and then SIGCONT (it
must write nothing any more, though it believes that it may), starts two more and has two leave in order. After each
step it is looked at how evenly the partitions are spread, and how many moved beyond those that had to. At the end
everything that came out is compared, partition by partition, with the same queries run un-hosted. The group (leases,
positions, the stores of the partitions) lives in a folder, in a database that is given, or in a PostgreSQL of its own.

    python benchmarks/cluster_demo.py --rounds 10 [--postgres]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import reactivex

from benchmarks.cluster_app import QUERIES, Departure, logs
from hosting.demo.data import installed_folder
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.opening import Opened, open_group
from hosting.partitioned.words import Status
from hosting.sinks.plain import to_plain
from reliable_rx.testing import check_ledger

GROUP = "flights"
SESSION_S = 3.0
NODES = 3
SETTLE_S = 90.0
HERE = Path(__file__).resolve().parent


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--folder", type=Path, default=Path("runs/cluster"))
    arguments.add_argument("--seed", type=int, default=None)
    arguments.add_argument(
        "--seconds", type=float, default=None, help="how long the logs take (default: for the rounds)"
    )
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("--store", default=None, help="where the group lives (default: FOLDER/group)")
    where.add_argument("--postgres", action="store_true", help="it lives in a PostgreSQL started for the while")
    given = arguments.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    shutil.rmtree(given.folder, ignore_errors=True)
    counts = prepare(given.folder)
    seconds = given.seconds or 25.0 * given.rounds
    pace = {"start": time.time() + 2.0, "per_s": max(counts.values()) / seconds}
    (given.folder / "pace.json").write_text(json.dumps(pace))
    (given.folder / "out").mkdir()
    with home(given.folder, given.store, postgres=given.postgres) as store:
        cluster = Cluster(given.folder, store, random.Random(seed))
        try:
            return run(cluster, given.rounds, counts)
        finally:
            cluster.stop_all()


@contextmanager
def home(folder: Path, store: str | None, *, postgres: bool) -> Iterator[str]:
    """Give the place where the group lives: a server that syncs what it commits, *store*, or a part of *folder*."""
    if not postgres:
        yield store or str(folder / "group")
        return
    from postgres_server import PostgresServer, find

    binaries = find()
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed here (apt-get install postgresql), or give --store=postgresql://")
    server = PostgresServer(binaries, durable=True)
    try:
        yield server.dsn
    finally:
        server.remove()


def run(cluster: Cluster, rounds: int, counts: dict[str, int]) -> int:
    for _ in range(NODES):
        cluster.start()
    cluster.settle("three nodes")
    for number in range(1, rounds + 1):
        if cluster.ended():
            print(f"all {sum(counts.values()):,} flights were read before round {number}", flush=True)
            break
        print(f"round {number}", flush=True)
        cluster.round()
    while not cluster.ended():
        time.sleep(0.5)
    cluster.stop_all()
    return judge(cluster, counts)


def prepare(folder: Path) -> dict[str, int]:
    """Split the flights into twelve logs: an airport's destinations in four parts. Return how long each is."""
    rows: dict[str, list[list[str]]] = {}
    for row in flights():
        part = f"{row['origin']}-{sum(map(ord, row['dest'])) % 4}.csv"
        rows.setdefault(part, []).append(
            [row["carrier"], row["dest"], "" if row["dep_delay"] == "NA" else row["dep_delay"]]
        )
    (folder / "logs").mkdir(parents=True)
    for name, part in rows.items():
        with open(folder / "logs" / name, "w", newline="") as file:
            csv.writer(file).writerows([["carrier", "dest", "delay_min"], *part])
    return {name: len(part) for name, part in sorted(rows.items())}


def flights() -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(installed_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, newline=""))


@dataclass
class Cluster:
    """The processes, and what was seen of them."""

    folder: Path
    store: str
    dice: random.Random
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0
    moved: int = 0
    least: int = 0
    unbalanced: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    shared: Opened | None = None

    def start(self) -> str:
        self.started += 1
        name = f"node{self.started}"
        with open(self.folder / f"{name}.log", "wb") as log:
            self.nodes[name] = subprocess.Popen(
                [
                    sys.executable, "-m", "hosting.cli", "node", f"{HERE / 'cluster_app.py'}:app", "--plain",
                    "--store", self.store, "--group", GROUP, "--tag", name, "--session", str(SESSION_S),
                ],
                env={**os.environ, "PYTHONPATH": str(HERE.parent), "CLUSTER_DEMO": str(self.folder)},
                stdout=log, stderr=log,
            )  # fmt: skip
        return name

    def round(self) -> None:
        """Kill one and start another, stop one and let it go on, add two and have two leave."""
        victim = self.pick()
        self.nodes.pop(victim).kill()
        self.start()
        self.settle("killed, another started")
        sleeper = self.pick()
        self.nodes[sleeper].send_signal(signal.SIGSTOP)
        self.settle("stopped", without=sleeper)
        time.sleep(SESSION_S)
        self.nodes[sleeper].send_signal(signal.SIGCONT)
        self.settle("continued")
        added = [self.start(), self.start()]
        self.settle("two joined")
        for name in added:
            self.nodes[name].terminate()
        for name in added:
            self.nodes.pop(name).wait(SETTLE_S)
        self.settle("two left")

    def pick(self) -> str:
        return self.dice.choice(sorted(self.nodes))

    def settle(self, what: str, *, without: str | None = None) -> None:
        """Wait until everybody who lives has his share; note how long it took and what moved."""
        began, want = time.monotonic(), self.nodes.keys() - {without}
        while True:
            owners = self.owners(want)
            if owners is not None:
                break
            if time.monotonic() - began > SETTLE_S:
                raise TimeoutError(f"{what}: not settled in {SETTLE_S:g} s; see {self.folder}")
            if any(node.poll() is not None for node in self.nodes.values()):
                raise RuntimeError(f"{what}: a node has ended by itself; see {self.folder}")
            time.sleep(0.02)
        took = time.monotonic() - began
        self.times.setdefault(what, []).append(took)
        moved, least = moves(self.before, owners)
        spread = Counter(owners.values())
        self.moved, self.least = self.moved + moved, self.least + least
        self.unbalanced += bool(owners) and max(spread.values()) - min(spread.values()) > 1
        self.before = owners
        shares = " ".join(f"{each}:{count}" for each, count in sorted(spread.items()))
        print(f"  {what}: settled in {took:.2f} s, {moved} moved (at least {least} had to); {shares}", flush=True)

    def owners(self, want: Set[str]) -> dict[str, str] | None:
        """Return who runs what, once exactly the nodes *want* share all that is not at its end."""
        document = self.document()
        if document is None or Counter(seat.profile.tag for seat in document.members.values()) != Counter(want):
            return None
        alive = {each: hold for each, hold in document.holds.items() if hold.status is not Status.TERMINATED}
        if any(
            hold.status is not Status.OPEN or document.target.get(each) != hold.owner for each, hold in alive.items()
        ):
            return None
        return {each.name: str(hold.owner) for each, hold in alive.items()}

    def document(self) -> Group | None:
        if self.shared is None:
            self.shared = open_group(self.store, GROUP)
        _, document = self.shared.registry.load()
        return None if document is None else read_group(document, name=GROUP)

    def ended(self) -> bool:
        document = self.document()
        return document is not None and all(each.status is Status.TERMINATED for each in document.holds.values())

    def stop_all(self) -> None:
        for node in self.nodes.values():
            node.send_signal(signal.SIGCONT)
            node.terminate()
        for node in self.nodes.values():
            try:
                node.wait(SETTLE_S)
            except subprocess.TimeoutExpired:
                node.kill()
        self.nodes.clear()


def moves(before: dict[str, str], after: dict[str, str]) -> tuple[int, int]:
    """How many partitions changed hands, and the fewest that could have for shares within one of each other."""
    kept = {each: owner for each, owner in before.items() if each in after}
    moved = sum(after[each] != owner for each, owner in kept.items())
    members = set(after.values())
    if not kept or not members:
        return moved, 0
    held = Counter(owner for owner in kept.values() if owner in members)
    low, extra = divmod(len(after), len(members))
    loads = sorted((held.get(each, 0) for each in members), reverse=True)
    above = sum(max(0, load - low - (index < extra)) for index, load in enumerate(loads))
    return moved, above + sum(owner not in members for owner in kept.values())


def judge(cluster: Cluster, counts: dict[str, int]) -> int:
    """Compare everything that came out with the same queries un-hosted, and say how it went."""
    lost = duplicated = reordered = corrupted = records = 0
    for partition in counts:
        values = logs(cluster.folder).open(partition, 0).fetch(1 << 30).values
        for name in QUERIES:
            wanted = expected(name, values)
            found = read_out(cluster.folder / "out" / f"{name}-{partition}.jsonl")
            ledger = check_ledger(wanted, found)
            lost, duplicated = lost + ledger.lost, duplicated + ledger.duplicated
            reordered, corrupted = reordered + ledger.reordered, corrupted + ledger.corrupted
            records += ledger.expected
            if not ledger.clean:
                print(f"{name} of {partition}: {ledger}")
    for what, times in cluster.times.items():
        print(f"{what}: median {sorted(times)[len(times) // 2]:.2f} s, at most {max(times):.2f} s, {len(times)} times")
    print(
        f"moved {cluster.moved} partitions, {cluster.least} at least had to; {cluster.unbalanced} times not within one"
    )
    print(f"{records:,} records: lost {lost} · duplicated {duplicated} · reordered {reordered} · corrupted {corrupted}")
    return 1 if lost or duplicated or reordered or corrupted or cluster.unbalanced else 0


def expected(name: str, values: list[Departure]) -> list[str]:
    """Return what a query gives for *values* as lines of a file, run un-hosted."""
    found: list[Any] = []
    QUERIES[name]().bind(flights=reactivex.from_iterable(values)).subscribe(found.append)
    return [json.dumps([n, to_plain(value)]) for n, value in enumerate(found)] + [json.dumps([len(found), "end"])]


def read_out(path: Path) -> list[str]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [json.dumps([each["id"], each.get("value", "end")]) for each in lines]


if __name__ == "__main__":
    sys.exit(main())
