"""An owner as a process: it takes a partition over, writes turns, says which of them it was told are durable, and stops
when it is told that it has lost its lease."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

from checkpoint import Checkpoint, Store, decode, encode
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from reliable_rx.errors import LeaseLost
from reliable_rx.failpoints import ARMED
from reliable_rx.testing.faults import arm_from_environment, nth, stop

PARTITION = Partition("flights", "JFK")
LOST = 3
COMMIT_EVERY = 4
STAY_OPEN: list[object] = []


def lease(epoch: int) -> Lease:
    return Lease(PARTITION, MemberId(f"member {epoch}"), Epoch(epoch))


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Owner:
    """Writes turns as an evaluator does: journal, then show; now and then a checkpoint with outputs, then truncate."""

    def __init__(self, store: Store, epoch: int) -> None:
        self.store, self.epoch = store, epoch
        self.writers: dict[int, int] = {}
        recovered = store.recover()
        self.generation = recovered.generation if recovered else 0
        turn = recovered.turn if recovered else 0
        if recovered:
            self.writers = dict(decode(recovered.chunks[-1]))
        if store.journal.last_turn < turn:
            store.journal.truncate(turn)
        for first, count, payload in store.journal.read(turn):
            assert count == 1
            self.writers[first] = decode(payload)
        self.turn = max(self.writers, default=0)
        self.inputs = store.log("inputs")

    def write(self) -> None:
        turn = self.turn + 1
        say("input", self.inputs.append([encode(self.epoch)]), self.epoch)
        self.store.journal.append(turn, 1, encode(self.epoch))
        self.writers[turn], self.turn = self.epoch, turn
        say("shown", turn, self.epoch)
        if turn % COMMIT_EVERY == 0:
            self.commit()

    def commit(self) -> None:
        self.generation += 1
        checkpoint = Checkpoint(self.generation, "full", self.turn, b"", [encode(list(self.writers.items()))], 1)
        first = self.turn - COMMIT_EVERY
        segment = (first, COMMIT_EVERY, encode([self.writers[turn + 1] for turn in range(first, self.turn)]))
        self.store.commit(checkpoint, outputs={"turns": [segment]})
        self.store.journal.truncate(self.store.generations()[0].turn)

    def inputs_written(self) -> list[int]:
        return [decode(value) for value in self.inputs.read(0, self.inputs.end)[1]]


def stop_with_a_torn_header(root: Path, at: int) -> None:
    """Stop inside a transaction of the journal, between the two copies of the header of the log's index."""

    def tear() -> None:
        file = open(root / "flights" / "JFK" / "1" / "journal.sqlite-shm", "r+b")  # noqa: SIM115
        shared = mmap.mmap(file.fileno(), 96)
        STAY_OPEN.extend((file, shared))  # closing it would cost SQLite its locks, which belong to the process
        shared[52] ^= 0xFF
        stop()()
        shared[52] ^= 0xFF

    ARMED["take_over.fence"] = nth(at, tear)


def main(root: str, epoch: str, turns: str, torn_at: str = "0") -> int:
    arm_from_environment()
    if torn_at != "0":
        stop_with_a_torn_header(Path(root), int(torn_at))
    stores = FolderStores(root)
    try:
        with stores.open(lease(int(epoch))) as store:
            owner = Owner(store, int(epoch))
            for _ in range(int(turns)):
                owner.write()
    except LeaseLost as error:
        say("lost", error.epoch, error.newest)
        return LOST
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
