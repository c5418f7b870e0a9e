"""What sharing partitions costs: per event, per idle partition, beside a laggard, at a hand-over, over two processes.

`spread`   one node in this process over 1, 8, 64 and 1,000 partitions, beside one plain evaluator over all the events;
           they come in portions to all partitions, of which the first three wake them and are not counted
`idle`     memory, threads and processor time of 1,000 partitions where nothing happens
`laggard`  how fast seven paced partitions go while the eighth catches up, beside how fast they go without it
`handover` from SIGTERM, and from kill -9, to the first output of the next node; a partition with 10,000 rows
`two`      two node processes beside one, over the same events

    python benchmarks/partitions.py [spread idle laggard handover two]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ctypes
import gc
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import reliable_rx as rx
from benchmarks.measuring import Bar, Result, arguments, report, sqlite_store
from hosting import App, QueryEvaluator
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Status
from reliable_rx.reliable import Batch, Reader

EVENTS = 400_000
SPREAD = (1, 8, 64, 1000)
PORTIONS, WARM = 10, 3
SESSION_S = 3.0
DEADLINE_S = 300.0
HERE = Path(__file__).resolve().parent


class Logs:
    """Partitions of numbers that grow when they are told to, and wake who listens."""

    def __init__(self, count: int) -> None:
        self.ends = {str(number): 0 for number in range(count)}
        self.wakes: dict[str, Callable[[], None]] = {}

    def partitions(self) -> Sequence[str]:
        return list(self.ends)

    def open(self, partition: str, at: int, /) -> Reader:
        return LogReader(self, partition, at)

    def grow(self, partition: str, count: int) -> None:
        self.ends[partition] += count
        wake = self.wakes.get(partition)
        if wake is not None:
            wake()


class LogReader:
    def __init__(self, logs: Logs, partition: str, at: int) -> None:
        self.logs, self.partition, self.position = logs, partition, at

    def fetch(self, count_max: int, /) -> Batch:
        first = self.position
        self.position = min(first + count_max, self.logs.ends[self.partition])
        return Batch(first, list(range(first, self.position)))

    def acknowledge(self, n: int, /) -> None: ...
    def close(self) -> None: ...
    def on_available(self, wake: Callable[[], None], /) -> None:
        self.logs.wakes[self.partition] = wake


def query() -> rx.Observable[int]:
    return rx.source("n").filter(lambda n: n % 3 > 0).map(lambda n: n + 1).scan(lambda a, b: a + b, 0)


@contextmanager
def node_over(logs: Logs, where: str | None, *, sleep_after_s: float = 30.0, awake_max: int = 256) -> Iterator[Node]:
    """Run a node in this process, all partitions open."""
    app = App(checkpoint_interval_s=1.0)
    app.source("n", logs)
    app.query("sums", query())
    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        shared = open_group(directory, "bench")
        timing = Timing(session_s=30.0, gather_s=0.0)
        node = Node(app, *shared, group="bench", timing=timing, sleep_after_s=sleep_after_s, awake_max=awake_max)
        thread = threading.Thread(target=node.run)
        thread.start()
        try:
            until(lambda: len(node.agents) == len(logs.ends) and all(each.opened for each in node.agents.values()))
            yield node
        finally:
            node.stop()
            thread.join()
            shared.close()


def until(holds: Callable[[], object]) -> float:
    """Wait until something is so; return how long it took, in seconds."""
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > DEADLINE_S:
            raise TimeoutError(f"this has not come in {DEADLINE_S:g} s")
        time.sleep(0.002)
    return time.perf_counter() - began


def wait_for(node: Node, events: int) -> None:
    until(lambda: taken(node) >= events)


def taken(node: Node) -> int:
    return sum(each.taken for each in list(node.agents.values()))


def spread(where: str | None) -> list[Result]:
    """Cost per event over more and more partitions."""
    results = []
    for count in SPREAD:
        logs = Logs(count)
        began = time.perf_counter()
        with node_over(logs, where, awake_max=count) as node:
            opening_s = time.perf_counter() - began
            each = EVENTS // count // PORTIONS
            seconds = [portion(node, logs, each) for _ in range(WARM + PORTIONS)]
            spent = sum(seconds[WARM:]) / (each * count * PORTIONS)
        plain = alone(where)
        figures = {
            "us_per_event": spent * 1e6,
            "alone_us_per_event": plain / EVENTS * 1e6,
            "times_alone": spent / (plain / EVENTS),
            "ms_to_open": opening_s / count * 1e3,
            "ms_to_wake": seconds[1] / count * 1e3,
        }
        results.append(Result(f"{count:,} partitions", figures))
    return results


def portion(node: Node, logs: Logs, each: int) -> float:
    """Let *each* events come to every partition; return how long it took until all were taken, in seconds."""
    end, began = taken(node) + each * len(logs.ends), time.perf_counter()
    for partition in logs.ends:
        logs.grow(partition, each)
    wait_for(node, end)
    return time.perf_counter() - began


def alone(where: str | None) -> float:
    """The same events through one plain evaluator; seconds."""
    logs = Logs(1)
    logs.ends["0"] = EVENTS
    with sqlite_store(where) as store, QueryEvaluator(store) as evaluator:
        evaluator.source("n", logs)
        evaluator.create("sums", query())
        began = time.perf_counter()
        evaluator.run(until=lambda: evaluator.events_in >= EVENTS)
        return time.perf_counter() - began


def idle(where: str | None) -> list[Result]:
    """What 1,000 silent partitions take beyond 8 of them."""
    figures = {count: silent(count, where) for count in (8, 1000)}
    (few, few_threads, _), (many, many_threads, cpu) = figures[8], figures[1000]
    return [
        Result(
            "1,000 idle partitions",
            {
                "kB_per_partition": (many - few) / 992 / 1000,
                "threads_more": float(many_threads - few_threads),
                "processor_percent": cpu * 100,
            },
            [Bar("kB_per_partition", 50.0, most=True), Bar("threads_more", 8.0, most=True)],
            "beyond 8 partitions; every partition has had 100 events; the eight writers start as they are needed",
        )
    ]


def silent(count: int, where: str | None) -> tuple[int, int, float]:
    """Return the resident bytes, the threads and the share of a processor while *count* partitions sleep."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before, logs = resident(), Logs(count)
    with node_over(logs, where, sleep_after_s=0.5) as node:
        for partition in logs.ends:
            logs.grow(partition, 100)
        until(lambda: taken(node) == 100 * count)
        until(lambda: all(each.asleep for each in node.agents.values()))
        gc.collect()
        bytes_, threads = resident() - before, threading.active_count()
        began, cpu = time.perf_counter(), time.process_time()
        time.sleep(5.0)
        return bytes_, threads, (time.process_time() - cpu) / (time.perf_counter() - began)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def laggard(where: str | None) -> list[Result]:
    """Seven partitions get 3,000 events a second each; the eighth has a million to catch up with."""
    logs = Logs(8)
    paced = [str(number) for number in range(1, 8)]
    with node_over(logs, where) as node:
        agents = {partition.name: agent for partition, agent in node.agents.items()}

        def speed(seconds: float) -> tuple[float, float]:
            others, lag = sum(agents[each].taken for each in paced), agents["0"].taken
            began = last = time.perf_counter()
            while (now := time.perf_counter()) - began < seconds:
                if now - last >= 0.02:
                    for each in paced:
                        logs.grow(each, int(3_000 * (now - last)))
                    last = now
                time.sleep(0.005)
            spent = time.perf_counter() - began
            return (sum(agents[each].taken for each in paced) - others) / spent, (agents["0"].taken - lag) / spent

        ratios, catching = [], []
        for _ in range(3):
            without, _ = speed(2.0)
            logs.grow("0", 10_000_000)
            beside, lag = speed(2.0)
            logs.ends["0"] = agents["0"].taken + 100_000
            until(lambda: agents["0"].taken >= logs.ends["0"])
            ratios.append(beside / without)
            catching.append(lag)
    figures = {"others_speed_kept": statistics.median(ratios), "laggard_events_per_s": statistics.median(catching)}
    return [Result("a laggard catches up", figures, [Bar("others_speed_kept", 0.8)])]


class Processes:
    """Node processes over one folder."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder, self.settings = folder, settings | {"out": str(folder / "out")}
        (folder / "out").mkdir(parents=True)
        self.running: list[subprocess.Popen[bytes]] = []
        self.shared = open_group(folder / "group", "bench")

    def start(self) -> subprocess.Popen[bytes]:
        log = (self.folder / f"node{len(self.running)}.log").open("wb")
        node = subprocess.Popen(
            [
                sys.executable, "-m", "hosting.cli", "node", f"{HERE / 'partitions_app.py'}:app", "--plain",
                "--store", str(self.folder / "group"), "--group", "bench", "--session", str(SESSION_S), "--gather", "0",
            ],
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "BENCH": json.dumps(self.settings)},
            stdout=log, stderr=log,
        )  # fmt: skip
        self.running.append(node)
        return node

    def group(self) -> Group | None:
        _, document = self.shared.registry.load()
        return None if document is None else read_group(document, name="bench")

    def share(self, members: int) -> bool:
        """Whether so many members share all partitions."""
        group = self.group()
        if group is None or len(group.members) != members or not group.holds:
            return False
        return all(
            hold.status is Status.OPEN and group.target.get(each) == hold.owner for each, hold in group.holds.items()
        )

    def ended(self) -> bool:
        group = self.group()
        return group is not None and all(hold.status is Status.TERMINATED for hold in group.holds.values())

    def first_output_after(self, epoch: int) -> float | None:
        """Return the moment of the first output under a later epoch than *epoch*."""
        lines = [line.split() for path in (self.folder / "out").iterdir() for line in path.read_text().splitlines()]
        return min((float(line[0]) for line in lines if len(line) == 3 and int(line[1]) > epoch), default=None)

    def epoch(self) -> int:
        group = self.group()
        return 0 if group is None else max(hold.epoch for hold in group.holds.values())

    def close(self) -> None:
        for node in self.running:
            node.kill()
            node.wait()
        self.shared.close()


def handover(where: str | None) -> list[Result]:
    """How long nothing comes out of a partition with 10,000 rows when its node leaves, and when it dies."""
    spent: dict[int, list[float]] = {signal.SIGTERM: [], signal.SIGKILL: []}
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        spent[number].append(one_handover(number, where))
    return [
        Result(
            "a partition with 10,000 rows changes hands",
            {"sigterm_s": statistics.median(spent[signal.SIGTERM]), "kill_s": statistics.median(spent[signal.SIGKILL])},
            [Bar("sigterm_s", 1.0, most=True), Bar("kill_s", SESSION_S + 1.0, most=True)],
            f"from the signal to the first output of the next node; session {SESSION_S:g} s",
        )
    ]


def one_handover(number: int, where: str | None) -> float:
    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        processes = Processes(Path(directory), app="keyed", rows=10_000, start=time.time())
        try:
            first = processes.start()
            until(lambda: processes.first_output_after(0) is not None)
            processes.start()
            until(lambda: processes.share(2))
            time.sleep(1.0)
            epoch, began = processes.epoch(), time.time()
            first.send_signal(number)
            until(lambda: processes.first_output_after(epoch) is not None)
            moment = processes.first_output_after(epoch)
            return (moment or 0.0) - began
        finally:
            processes.close()


def two(where: str | None) -> list[Result]:
    """Events per second of two node processes, as a ratio to one."""
    rounds = [(timed(1, where), timed(2, where)) for _ in range(3)]
    ratio = statistics.median(one / both for one, both in rounds)
    figures = {"times_one": ratio, "one_s": statistics.median(one for one, _ in rounds)}
    return [Result("two node processes", figures, [Bar("times_one", 1.7)], f"{os.cpu_count()} processors")]


def timed(nodes: int, where: str | None) -> float:
    """How long *nodes* processes need for 8 partitions from the moment when the first event may be read."""
    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        start = time.time() + 6.0
        processes = Processes(Path(directory), app="busy", count=300_000, start=start)
        try:
            for _ in range(nodes):
                processes.start()
            until(lambda: processes.share(nodes))
            if time.time() > start:
                raise TimeoutError("the nodes were not ready in time; the machine is busy with something else")
            until(processes.ended)
            return time.time() - start
        finally:
            processes.close()


PARTS = {"spread": spread, "idle": idle, "laggard": laggard, "handover": handover, "two": two}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    given = parser.parse_args()
    for name in given.parts or PARTS:
        report(PARTS[name](given.dir), as_json=given.json)


if __name__ == "__main__":
    main()
