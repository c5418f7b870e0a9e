"""A process that writes a store until it is killed, and says on its output what was acknowledged.

Each line is written after the store has answered, so the reader of the lines knows what must be there.
``generation``, ``turn`` and ``pushed`` are followed by a number; the content of each is made from the number, so that
it can be checked (`check_written`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from checkpoint import Checkpoint, PostgresStore, SqliteStore, Store
from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing.faults import arm_from_environment

FULL_EVERY = 4
T = TypeVar("T")


def chunks_of(generation: int) -> list[bytes]:
    return [b"%d.%d " % (generation, index) * 2_000 for index in range(4)]


def chain_of(generation: int) -> list[bytes]:
    base = generation - generation % FULL_EVERY
    return [chunk for number in range(max(base, 1), generation + 1) for chunk in chunks_of(number)]


def say(what: str, number: int) -> None:
    # One write of few bytes to a pipe is atomic, so lines of two threads do not mix.
    os.write(1, f"{what} {number}\n".encode())


def persist(do: Callable[[], T]) -> T:
    """Do it again while the store cannot, as its callers do."""
    while True:
        try:
            return do()
        except StoreUnavailable:
            say("away", 0)
            time.sleep(0.02)


def push(store: Store) -> None:
    log = persist(lambda: store.log("in"))
    while True:
        say("pushed", persist(lambda: log.append([b"value %d" % log.end])))


def write(store: Store) -> None:
    recovered = persist(store.recover)
    generation = recovered.generation if recovered else 0
    while True:
        turn = store.journal.last_turn + 1
        if turn > 5 * (generation + 1):
            generation += 1
            commit(store, generation, 5 * generation)
        persist(lambda: store.journal.append(turn, 1, b"turn %d" % turn))
        say("turn", turn)


def commit(store: Store, generation: int, turn: int) -> None:
    kind: Literal["full", "differential"] = (
        "full" if generation % FULL_EVERY == 0 or generation == 1 else "differential"
    )
    made = Checkpoint(generation, kind, turn, b"%d" % turn, chunks_of(generation), 4)
    start = 5 * (generation - 1)
    outputs, kept_from = {"out": [(start, 5, b"outputs from %d" % start)]}, {"out": start - 50}
    persist(lambda: store.commit(made, outputs=outputs, kept_from=kept_from))
    say("generation", generation)
    persist(lambda: store.journal.truncate(store.generations()[0].turn))


def check_written(store: Store, acknowledged: dict[str, int]) -> None:
    """Nothing acknowledged is lost, what is there is whole, and at most the one unanswered step is there besides."""
    found = store.recover()
    generation = found.generation if found else 0
    assert acknowledged["generation"] <= generation <= acknowledged["generation"] + 1
    if found is not None:
        assert found.chunks == chain_of(generation) and not found.fallbacks
        assert found.turn == generation * 5 and found.meta == b"%d" % found.turn
        segments = list(store.outputs("out", 0))
        assert segments[-1] == (found.turn - 5, 5, b"outputs from %d" % (found.turn - 5))
        assert store.bounds("out") == (segments[0][0], found.turn)
    after = found.turn if found else 0
    turns = list(store.journal.read(after))
    assert turns == [(turn, 1, b"turn %d" % turn) for turn in range(after + 1, store.journal.last_turn + 1)]
    assert acknowledged["turn"] <= store.journal.last_turn <= acknowledged["turn"] + 1
    log = store.log("in")
    assert acknowledged["pushed"] + 1 <= log.end <= acknowledged["pushed"] + 2
    assert log.read(0, log.end)[1] == [b"value %d" % number for number in range(log.end)]
    # What is found is durable, whether it was acknowledged or not: the next check builds on it.
    acknowledged.update(generation=generation, turn=store.journal.last_turn, pushed=log.end - 1)


def open_store(where: str, name: str = "store", epoch: str = "") -> Store:
    """Open the store in a directory, or the one of that *name* in a database, with *epoch* if there is one."""
    if where.startswith("postgresql://"):
        return PostgresStore(where, name, epoch=int(epoch) if epoch else None)
    return SqliteStore(where)


if __name__ == "__main__":
    arm_from_environment()
    with open_store(*sys.argv[1:]) as opened:
        say("opened", os.getpid())
        threading.Thread(target=push, args=(opened,), daemon=True).start()
        write(opened)
