"""What every store must do for odd names and contents, as a check of `reliable_rx.testing.stores`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from reliable_rx.names import check_name
from reliable_rx.testing.claims import same
from reliable_rx.testing.hostile import NAMES, RECORDS

if TYPE_CHECKING:
    from checkpoint.store import Store


def allowed() -> Iterator[str]:
    """Yield the hostile names that a stream may have."""
    for name in NAMES:
        try:
            yield check_name("query", name)
        except (TypeError, ValueError):
            continue


def check_hostile(open_store: Callable[[], Store]) -> None:
    """Odd bytes come back as they were from state, outputs, journal and log, under each odd name that is allowed."""
    from checkpoint.store import Checkpoint

    names = tuple(allowed())
    with open_store() as store:
        generations, end = store.generations(), store.journal.last_turn
        number = generations[-1].generation + 1 if generations else 1
        segments = {name: [(at, 1, each) for at, each in enumerate(RECORDS)] for name in names}
        checkpoint = Checkpoint(number, "full", end, RECORDS[-1], RECORDS, len(RECORDS))
        store.commit(checkpoint, outputs=segments, kept_from={})
        firsts = {name: store.log(name).append(list(RECORDS)) for name in names}
        for turn, each in enumerate(RECORDS, end + 1):
            store.journal.append(turn, 1, each)
        for at, name in enumerate(names):
            store.acknowledge(names[0], name, at)
    with open_store() as store:
        recovered = store.recover()
        found = recovered and (recovered.generation, recovered.meta, tuple(recovered.chunks))
        same(found, (number, RECORDS[-1], RECORDS), "a state of odd bytes")
        same([each for _, _, each in store.journal.read(end)], list(RECORDS), "turns of odd bytes")
        same(store.acknowledged(names[0]), {name: at for at, name in enumerate(names)}, "positions under odd names")
        for name in names:
            same(list(store.outputs(name, 0)), segments[name], f"the outputs of {name!r}")
            same(store.log(name).read(firsts[name], 99), (firsts[name], list(RECORDS)), f"what was logged for {name!r}")
            store.release(names[0], name)
