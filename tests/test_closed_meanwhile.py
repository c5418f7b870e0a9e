"""What waits for the lock of an evaluator that is closed meanwhile writes nothing: its store may be another one's."""

from __future__ import annotations

import threading
from pathlib import Path

from conditions import until
from lanes import left_to_commits
from test_every_method import EVALUATOR, STREAM, SUBSCRIPTION, Calls, World, tried

from checkpoint import SqliteStore

TABLES: dict[str, Calls] = {"evaluator": EVALUATOR, "stream": STREAM, "subscription": SUBSCRIPTION}
CASES = [(table, name) for table, calls in TABLES.items() for name in calls]


def closed_meanwhile(world: World, table: str, name: str) -> bool:
    """Close the evaluator while a thread's call waits for its lock; return whether it did wait."""
    caller = threading.Thread(target=tried, args=(TABLES[table][name], world), daemon=True)
    world.evaluator.lock.__enter__()
    try:
        caller.start()
        until(lambda: world.evaluator.lock.waiting or not caller.is_alive(), "the call waits")
        waits = caller.is_alive()
        world.evaluator.close()
        before = said(world.store)
    finally:
        world.evaluator.lock.__exit__()
    caller.join()
    assert said(world.store) == before
    return waits


def said(store: SqliteStore) -> tuple[object, ...]:
    """Return what is in a store of turns, checkpoints and streams."""
    streams = {name: store.stream(name) for name in store.streams()}
    return store.journal.last_turn, store.generations(), streams


@left_to_commits
def test_a_call_that_waited_writes_nothing(tmp_path: Path) -> None:
    """Each method of an evaluator and its streams, called before it was closed and let in afterwards."""
    wrong, waited = [], 0
    for table, name in CASES:
        folder = tmp_path / f"{table}-{name}"
        folder.mkdir()
        world = World(folder, SqliteStore(folder / "store"))
        world.settle()
        try:
            waited += closed_meanwhile(world, table, name)
        except AssertionError as error:
            wrong.append(f"{table}.{name}: {error}")
        finally:
            world.store.close()
    assert not wrong, "\n".join(wrong)
    assert waited > 10, "hardly any call waits for the lock: nothing was shown"
