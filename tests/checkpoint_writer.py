"""A process that writes a store until it is killed, and says on its output what was acknowledged.

Each line is written after the store has answered, so the reader of the lines knows what must be there.
``generation``, ``turn`` and ``pushed`` are followed by a number; the content of each is made from the number, so that
it can be checked.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Literal

from checkpoint import Checkpoint, SqliteStore, Store
from reliable_rx.testing.faults import arm_from_environment

FULL_EVERY = 4


def chunks_of(generation: int) -> list[bytes]:
    return [b"%d.%d " % (generation, index) * 2_000 for index in range(4)]


def chain_of(generation: int) -> list[bytes]:
    base = generation - generation % FULL_EVERY
    return [chunk for number in range(max(base, 1), generation + 1) for chunk in chunks_of(number)]


def say(what: str, number: int) -> None:
    # One write of few bytes to a pipe is atomic, so lines of two threads do not mix.
    os.write(1, f"{what} {number}\n".encode())


def push(store: Store) -> None:
    log = store.log("in")
    while True:
        say("pushed", log.append([b"value %d" % log.end]))


def write(store: Store) -> None:
    recovered = store.recover()
    generation = recovered.generation if recovered else 0
    while True:
        turn = store.journal.last_turn + 1
        if turn > 5 * (generation + 1):
            generation += 1
            commit(store, generation, 5 * generation)
        store.journal.append(turn, 1, b"turn %d" % turn)
        say("turn", turn)


def commit(store: Store, generation: int, turn: int) -> None:
    kind: Literal["full", "differential"] = (
        "full" if generation % FULL_EVERY == 0 or generation == 1 else "differential"
    )
    made = Checkpoint(generation, kind, turn, b"%d" % turn, chunks_of(generation), 4)
    start = 5 * (generation - 1)
    store.commit(made, outputs={"out": [(start, 5, b"outputs from %d" % start)]}, kept_from={"out": start - 50})
    say("generation", generation)
    store.journal.truncate(store.generations()[0].turn)


if __name__ == "__main__":
    arm_from_environment()
    with SqliteStore(sys.argv[1]) as opened:
        say("opened", os.getpid())
        threading.Thread(target=push, args=(opened,), daemon=True).start()
        write(opened)
