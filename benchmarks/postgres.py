"""A store in PostgreSQL on the loopback interface, beside one in SQLite on the same disk, in the same rounds.

    journal_ms, journal_vs_sqlite       one turn of 200 bytes made durable; how many times as long as in SQLite
    push_ms, push_vs_sqlite             one value pushed into a log
    checkpoint_ms, checkpoint_vs_sqlite a full checkpoint of 4 MB in 64 chunks, with an output
    positions_ms, positions_vs_sqlite   one commit of ten partitions' positions
    take_over_ms                        opening the store of a partition under the next epoch, as a node does
    stopped_take_over_ms                the same, while the owner before stands still inside a transaction

Times are medians of the rounds; both sides sync to the disk. Without ``--dsn`` a server is started for the while.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from postgres_server import PostgresServer, find

from benchmarks.measuring import Result, Times, arguments, interleaved, report, store_directory, times_as_fast
from checkpoint import Checkpoint, PostgresStore, SqliteStore, Store
from checkpoint.offsets import PostgresOffsets, SqliteOffsets
from checkpoint.offsets.store import OffsetStore
from hosting.partitioned.postgres_stores import PostgresStores
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from reliable_rx.errors import LeaseLost
from reliable_rx.testing.faults import arm

POSITIONS = {("flights", str(number)): 0 for number in range(10)}


class Side:
    """One store and one offset store, and what is timed on them."""

    def __init__(self, store: Store, offsets: OffsetStore) -> None:
        self.store, self.offsets, self.generation, self.position = store, offsets, 0, 0
        self.chunks = [os.urandom(65_536) for _ in range(64)]

    def journal(self) -> None:
        self.store.journal.append(self.store.journal.last_turn + 1, 1, bytes(200))

    def push(self) -> None:
        self.store.log("in").append([bytes(200)])

    def checkpoint(self) -> None:
        self.generation += 1
        made = Checkpoint(self.generation, "full", self.generation, b"", self.chunks, 64)
        self.store.commit(made, outputs={"out": [(self.generation, 1, bytes(200))]})

    def positions(self) -> None:
        self.position += 1
        vector = dict.fromkeys(POSITIONS, self.position)
        refused = [each for each in self.offsets.commit("g", vector, dict.fromkeys(vector, ("me", 1))).values() if each]
        if refused:
            raise RuntimeError(str(refused[0]))

    def timed(self, name: str, count: int) -> float:
        what: Callable[[], None] = getattr(self, name)
        began = time.perf_counter()
        for _ in range(count):
            what()
        return (time.perf_counter() - began) / count


def compare(dsn: str, directory: Path, rounds: int, many: int) -> dict[str, float | None]:
    held = lambda group, partition: ("me", 1)  # noqa: E731
    figures: dict[str, float | None] = {}
    with ExitStack() as opened:
        ours = opened.enter_context(PostgresStore(dsn, uuid.uuid4().hex))
        theirs = opened.enter_context(SqliteStore(directory / "store"))
        offsets = opened.enter_context(PostgresOffsets(dsn, held, name=uuid.uuid4().hex))
        beside = opened.enter_context(SqliteOffsets(directory / "offsets", held))
        sides = {"postgres": Side(ours, offsets), "sqlite": Side(theirs, beside)}
        for what, count in (("journal", many), ("push", many), ("checkpoint", 1), ("positions", many)):
            times: Times = interleaved(
                {name: partial(each.timed, what, count) for name, each in sides.items()},
                rounds=rounds,
                budget_s=60,
            )
            figures[f"{what}_ms"] = median(times["postgres"]) * 1e3
            figures[f"{what}_vs_sqlite"] = times_as_fast(times, "sqlite", "postgres")
    return figures


def take_overs(dsn: str, rounds: int) -> dict[str, float | None]:
    stores, plain, stopped = PostgresStores(dsn, uuid.uuid4().hex), [], []
    jfk = Partition("flights", "JFK")
    store = stores.open(Lease(jfk, MemberId("m"), Epoch(1)))
    for number in range(rounds):
        for times, hold in ((plain, False), (stopped, True)):
            with standing_still(store, number + 1) if hold else ExitStack():
                began = time.perf_counter()
                store = stores.open(Lease(jfk, MemberId("m"), Epoch(stores.newest(jfk) + 1)))
                times.append(time.perf_counter() - began)
    stores.close()
    return {"take_over_ms": median(plain) * 1e3, "stopped_take_over_ms": median(stopped) * 1e3}


@contextmanager
def standing_still(store: Store, generation: int) -> Iterator[None]:
    """Let a thread stand in the midst of a commit meanwhile."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait()

    def commit() -> None:
        try:
            store.commit(Checkpoint(generation, "full", 1, b"", [b""], 0))
        except LeaseLost:
            return
        raise RuntimeError("a former owner has committed")

    with arm("checkpoint.mid_commit", wait):
        committing = threading.Thread(target=commit)
        committing.start()
        inside.wait()
    yield
    go_on.set()
    committing.join()


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--dsn", help="an empty database to use; default: a server of our own")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--many", type=int, default=100, help="how many short commits make one time")
    args = parser.parse_args()
    with ExitStack() as made:
        dsn, binaries = args.dsn, find()
        if dsn is None:
            if binaries is None:
                print("postgres  not measured: PostgreSQL is not installed here; or say --dsn=postgresql://...")
                return
            server = PostgresServer(binaries, durable=True)
            made.callback(server.remove)
            dsn = server.dsn
        directory = made.enter_context(store_directory(args.dir))
        directory.mkdir()
        figures = compare(dsn, directory, args.rounds, args.many) | take_overs(dsn, args.rounds)
    report([Result("postgres", figures, note="the server on the same machine")], as_json=args.json)


if __name__ == "__main__":
    main()
