"""Stores by epoch: taken over from owners that closed, died or were stopped, in any order, without loss."""

from __future__ import annotations

import filecmp
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from folder_store_process import PARTITION, Owner, lease

from checkpoint import SqliteStore, encode
from checkpoint.sqlite import copy as sqlite_copy
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from reliable_rx import failpoints as probes
from reliable_rx.errors import LeaseLost, StoreOwned, StoreUnavailable
from reliable_rx.testing.faults import disk_full, nth, raise_

POINTS = (
    "take_over.after_claim", "take_over.mid_copy", "take_over.before_rename", "take_over.after_rename",
    "take_over.before_clean",
)  # fmt: skip


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[FolderStores]:
    yield FolderStores(tmp_path)
    probes.ARMED.clear()


def sweep(upto: int, *, fast: tuple[int, ...]) -> list[Any]:
    """All numbers from 1 on; only some of them in the fast lane."""
    return [pytest.param(number, marks=() if number in fast else pytest.mark.slow) for number in range(1, upto + 1)]


def entries(root: Path) -> list[str]:
    return sorted(os.listdir(root / "flights" / "JFK"))


def write(store: SqliteStore, epoch: int, turns: int) -> dict[int, int]:
    owner = Owner(store, epoch)
    for _ in range(turns):
        owner.write()
    return owner.writers


def test_closed_or_not_the_next_epoch_has_everything(stores: FolderStores, tmp_path: Path) -> None:
    """Ten owners, every second of which never closes: each finds all turns of all before it; one folder is left."""
    open_ones: list[SqliteStore] = []
    expected: dict[int, int] = {}
    for epoch in range(1, 11):
        store = stores.open(lease(epoch))
        assert Owner(store, epoch).writers == expected
        expected = write(store, epoch, 3)
        assert Owner(store, epoch).inputs_written() == list(expected.values())
        if epoch % 2:
            store.close()
        else:
            open_ones.append(store)
        assert entries(tmp_path) == [str(epoch)]
    for store in open_ones:
        store.close()
    assert stores.newest(PARTITION) == 10


def test_a_former_owner_is_told_at_every_write(stores: FolderStores) -> None:
    """Journal, log, checkpoint, truncation and positions of subscribers: none of them counts any more."""
    old = stores.open(lease(1))
    owner = Owner(old, 1)
    for _ in range(5):
        owner.write()
    told = dict(owner.writers)
    new = stores.open(lease(2))
    for attempt in (
        owner.write,
        owner.commit,
        lambda: old.journal.append(6, 1, b""),
        lambda: old.journal.truncate(5),
        lambda: old.log("inputs").trim(0),
        lambda: old.acknowledge("turns", "someone", 0),
        lambda: old.release("turns", "someone"),
    ):
        with pytest.raises(LeaseLost) as caught:
            attempt()
        assert (caught.value.partition, caught.value.epoch, caught.value.newest) == (PARTITION, 1, 2)
    assert old.journal.last_turn == 5
    assert Owner(new, 2).writers == told
    for store in (old, new):
        store.close()


def test_an_older_epoch_that_opens_later_is_refused(stores: FolderStores, tmp_path: Path) -> None:
    """It leaves nothing behind and disturbs nobody."""
    with stores.open(lease(5)) as store:
        with pytest.raises(LeaseLost, match="epoch 5"):
            stores.open(lease(4))
        write(store, 5, 1)
    assert entries(tmp_path) == ["5"]


def test_an_owner_may_close_and_open_its_own_store_again(stores: FolderStores) -> None:
    """As a partition does that sleeps; once another one has been here, it may not."""
    with stores.open(lease(3)) as store:
        write(store, 3, 2)
        with pytest.raises(StoreOwned):
            stores.open(lease(3))
    with stores.open(lease(3)) as store:
        assert write(store, 3, 1) == {1: 3, 2: 3, 3: 3}
    stores.open(lease(4)).close()
    with pytest.raises(LeaseLost):
        stores.open(lease(3))


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_two_take_over_at_once(stores: FolderStores, point: str, held: bool) -> None:
    """Whatever step the older one has come to when the newer one comes: the newer one has everything, the other stops.

    With *held* the first owner still has its store open, so that it is copied; else it is renamed.
    """
    first = stores.open(lease(1))
    expected = write(first, 1, 5)
    if not held:
        first.close()
    newer: list[SqliteStore] = []
    probes.ARMED[point] = nth(1, lambda: newer.append(stores.open(lease(3))))
    reached = held or point != "take_over.mid_copy"
    if reached and point != "take_over.before_clean":
        with pytest.raises(LeaseLost):
            stores.open(lease(2))
    else:
        older = stores.open(lease(2))
        if reached:
            with pytest.raises(LeaseLost):
                older.journal.append(6, 1, b"")
        older.close()
    store = newer[0] if newer else stores.open(lease(3))
    assert write(store, 3, 1) == {**expected, 6: 3}
    store.close()
    first.close()
    with stores.open(lease(4)) as store:
        assert Owner(store, 4).writers == {**expected, 6: 3}


@pytest.mark.parametrize("number", sweep(12, fast=(1, 4, 7)))
def test_a_former_owner_that_goes_on_meanwhile(stores: FolderStores, number: int) -> None:
    """It writes turns, one and five (a checkpoint and a truncation too), at every step of being taken over: what it was
    told is durable is in the new store; what it was not told changes nothing that it was."""
    first = stores.open(lease(1))
    owner = Owner(first, 1)
    for _ in range(6):
        owner.write()
    told = dict(owner.writers)

    def go_on() -> None:
        try:
            for _ in range(5):
                owner.write()
        except LeaseLost:
            pass

    for point in POINTS:
        probes.ARMED[point] = go_on if number == 1 else nth(number - 1, go_on)
    second = stores.open(lease(2))
    probes.ARMED.clear()
    assert owner.writers == told, "after the claim nothing is told to be durable"
    found = Owner(second, 2).writers
    assert {turn: found.get(turn) for turn in told} == told
    assert set(found.values()) == {1}
    for store in (first, second):
        store.close()


@pytest.mark.parametrize("number", sweep(19, fast=(1, 3, 4, 18)))
def test_a_claim_at_every_step_of_a_write(stores: FolderStores, number: int) -> None:
    """A newer epoch claims at each place where the owner looks, inside a transaction and behind it: told is kept."""
    first = stores.open(lease(1))
    owner = Owner(first, 1)
    newer: list[SqliteStore] = []
    probes.ARMED["take_over.fence"] = nth(number, lambda: newer.append(stores.open(lease(2))))
    with pytest.raises(LeaseLost):
        for _ in range(8):
            owner.write()
    told, inputs = dict(owner.writers), owner.inputs.end
    (second,) = newer
    now = Owner(second, 2)
    assert {turn: now.writers.get(turn) for turn in told} == told
    assert now.inputs.end >= inputs
    now.write()
    for store in (first, second):
        store.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_disk_that_fails_on_the_way(stores: FolderStores, point: str, tmp_path: Path) -> None:
    """The same call made again takes over, and nothing of the first attempt is left."""
    first = stores.open(lease(1))
    expected = write(first, 1, 5)
    probes.ARMED[point] = nth(1, disk_full(by_sqlite=False))
    with pytest.raises(StoreUnavailable, match="No space left"):
        stores.open(lease(2))
    with stores.open(lease(2)) as store:
        assert Owner(store, 2).writers == expected
    assert entries(tmp_path) == ["2"]
    first.close()


def test_a_store_whose_files_move_is_read_through_sqlite(stores: FolderStores, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner at work: its files differ from one reading to the next, and the copy is what it has committed."""
    first = stores.open(lease(1))
    expected = write(first, 1, 9)
    compared = iter(range(3))
    monkeypatch.setattr(filecmp, "cmp", lambda *_, shallow: shallow or next(compared) < 0)
    with stores.open(lease(2)) as store:
        assert Owner(store, 2).writers == expected
    assert next(compared, None) is None
    first.close()


def test_files_that_neither_stand_still_nor_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not guessed at, and can be taken over later."""
    monkeypatch.setattr(filecmp, "cmp", lambda *_, shallow: shallow)
    monkeypatch.setattr(sqlite_copy, "_copied_committed", lambda *_: False)
    stores = FolderStores(tmp_path)
    with stores.open(lease(1)) as first:
        expected = write(first, 1, 2)
        with pytest.raises(StoreUnavailable, match="neither stands still nor can be read"):
            stores.open(lease(2))
        monkeypatch.undo()
        with stores.open(lease(3)) as store:
            assert Owner(store, 3).writers == expected


def test_copied_while_its_owner_writes_without_a_pause(stores: FolderStores) -> None:
    """A thread commits as fast as it can while its store is taken over: all that it was told is in the new one."""
    first = stores.open(lease(1))
    told: list[int] = []

    def go_on() -> None:
        try:
            while True:
                first.journal.append(len(told) + 1, 1, encode(1))
                told.append(len(told) + 1)
        except (LeaseLost, StoreUnavailable):  # whichever it sees first: the newer epoch, or that its files have gone
            pass

    writer = threading.Thread(target=go_on)
    writer.start()
    while len(told) < 20:
        time.sleep(0.001)
    second = stores.open(lease(2))
    writer.join()
    assert second.journal.last_turn in (len(told), len(told) + 1)
    assert [first for first, _, _ in second.journal.read(0)][: len(told)] == told
    for store in (first, second):
        store.close()


def test_looking(stores: FolderStores) -> None:
    """A partition is looked at without owning it; a reader finds out that what it read was taken over."""
    assert stores.look(PARTITION) is None
    assert stores.newest(PARTITION) == 0
    first = stores.open(lease(1))
    write(first, 1, 4)
    before = stores.newest(PARTITION)
    reader = stores.look(PARTITION)
    assert reader is not None
    assert reader.bounds("turns") == (0, 4)
    assert stores.newest(PARTITION) == before
    second = stores.open(lease(2))
    assert stores.newest(PARTITION) != before
    again = stores.look(PARTITION)
    assert again is not None
    write(second, 2, 4)
    assert (reader.bounds("turns"), again.bounds("turns")) == ((0, 4), (0, 8))
    for store in (reader, again, first, second):
        store.close()


def test_looking_while_it_is_taken_over(stores: FolderStores) -> None:
    """Nothing is shown that might not be in the new store; a moment later it can be looked at."""
    stores.open(lease(1)).close()
    probes.ARMED["take_over.after_claim"] = raise_(OSError("no"))
    with pytest.raises(StoreUnavailable):
        stores.open(lease(2))
    with pytest.raises(StoreUnavailable, match="being taken over"):
        stores.look(PARTITION)
    probes.ARMED.clear()
    stores.open(lease(2)).close()
    reader = stores.look(PARTITION)
    assert reader is not None
    reader.close()


def test_forgetting(stores: FolderStores, tmp_path: Path) -> None:
    """An open store is kept; a closed one goes with all its files, and a late owner is told."""
    store = stores.open(lease(1))
    with pytest.raises(StoreOwned):
        stores.forget(PARTITION)
    store.close()
    stores.forget(PARTITION)
    stores.forget(PARTITION)
    assert os.listdir(tmp_path / "flights") == []
    assert stores.newest(PARTITION) == 0
    stores.close()


NAMES = ("", ".", "..", "a/b", "a%2Fb", "%x", "x%gone", "ü" * 90, "ü" * 90 + "2", "JFK.tmp", "7")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_partition_is_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    """Odd and long names neither leave the root nor meet each other."""
    stores = FolderStores(tmp_path / "root")
    partition = Partition("s", name)
    stores.open(Lease(partition, MemberId("a"), Epoch(1))).close()
    assert [each for each in NAMES if stores.newest(Partition("s", each))] == [name]
    assert not any(stores.newest(Partition(each, name)) for each in NAMES)
    assert os.listdir(tmp_path) == ["root"]
    stores.forget(partition)
    assert not stores.newest(partition)


OPENED = [
    Partition("a", "b/c"), Partition("a+b", "%2F"), Partition("a", ""), Partition("d" * 300, "e" * 300),
    Partition("*", "all"), Partition("a", "..%gone"),
]  # fmt: skip


def test_every_partition_that_was_opened_is_listed(stores: FolderStores) -> None:
    """Whatever it is called, and whoever has it now; not one that was forgotten."""
    for number, partition in enumerate(OPENED, 1):
        stores.open(Lease(partition, MemberId("m"), Epoch(1))).close()
        assert stores.opened() == sorted(OPENED[:number])
    with stores.open(Lease(OPENED[0], MemberId("m"), Epoch(2))):
        assert stores.opened() == sorted(OPENED)
    stores.forget(OPENED[1])
    assert stores.opened() == sorted({*OPENED} - {OPENED[1]})


@pytest.mark.parametrize("point", [*POINTS, "database.made"])
def test_one_whose_making_was_interrupted_was_not_opened(point: str, stores: FolderStores, tmp_path: Path) -> None:
    """Nothing can be in it. Behind one that was whole it is listed, and can be looked into while it is taken over."""
    if point == "database.made":
        stores.open(lease(1)).close()
        (tmp_path / "flights" / "JFK" / "1" / "checkpoint.sqlite").unlink()
    else:
        probes.ARMED[point] = raise_(OSError("killed"))
        with suppress(StoreUnavailable):
            stores.open(lease(1)).close()
        probes.ARMED.clear()
    is_whole = point in ("take_over.mid_copy", "take_over.before_rename", "take_over.before_clean")  # or not met
    assert stores.opened() == [PARTITION] * is_whole
    with stores.open(lease(2)) as store:
        store.journal.append(1, 1, b"a turn")
    probes.ARMED[point] = raise_(OSError("killed"))
    with suppress(StoreUnavailable):
        stores.open(lease(3)).close()
    probes.ARMED.clear()
    assert stores.opened() == [PARTITION]
    reader = stores.look(PARTITION, claimed=True)
    assert reader is not None and [turn for turn, *_ in reader.journal.read(0)] == [1]
    reader.close()
