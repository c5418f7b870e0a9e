"""The stores of a group in PostgreSQL: taken over in any order, over few connections, looked at and forgotten."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from postgres_server import PostgresServer

from checkpoint import Checkpoint, KeyRing
from checkpoint.postgres.store import PostgresStore
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.postgres_stores import PostgresStores
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from hosting.reports.store_commands import command_on
from reliable_rx.errors import CheckpointRefused, LeaseLost, StoreOwned, StoreUnavailable
from reliable_rx.testing.faults import arm

JFK = Partition("flights", "JFK")
WAIT_S = 60.0


@pytest.fixture
def pair(postgres: PostgresServer) -> Iterator[tuple[PostgresStores, PostgresStores]]:
    """Two nodes of one group."""
    group = uuid.uuid4().hex
    nodes = [PostgresStores(postgres.dsn, group) for _ in range(2)]
    yield nodes[0], nodes[1]
    for each in nodes:
        each.close()


def lease(epoch: int, partition: Partition = JFK) -> Lease:
    return Lease(partition, MemberId(f"m{epoch}"), Epoch(epoch))


def test_closed_or_not_the_next_epoch_has_everything(pair: tuple[PartitionStores, PartitionStores]) -> None:
    """Six owners on two nodes, every second of which never closes: each finds all turns of all before it."""
    with ExitStack() as open_ones:
        for epoch in range(1, 7):
            stores = pair[epoch % 2]
            store = stores.open(lease(epoch))
            assert [turn for turn, _, _ in store.journal.read(0)] == list(range(1, epoch))
            store.journal.append(epoch, 1, b"a turn")
            if epoch % 2:
                store.close()
            else:
                open_ones.callback(store.close)
            assert pair[0].newest(JFK) == pair[1].newest(JFK) == epoch
        with pytest.raises(LeaseLost) as caught:
            pair[0].open(lease(5))
        lost = caught.value
        assert (lost.partition, lost.epoch, lost.newest) == (JFK, 5, 6)


def test_partitions_and_groups_do_not_meet(
    pair: tuple[PostgresStores, PostgresStores], postgres: PostgresServer
) -> None:
    """However names are put together, two partitions, or the same one of two groups, have two stores."""
    names = [
        Partition("a", "b/c"),
        Partition("a/b", "c"),
        Partition("a", "b%2Fc"),
        Partition("", "a"),
        Partition("a", ""),
    ]
    stores, _ = pair
    for number, partition in enumerate(names, 1):
        with stores.open(lease(number, partition)) as store:
            assert store.journal.last_turn == 0
            store.journal.append(1, number, b"")
    for number, partition in enumerate(names, 1):
        assert stores.newest(partition) == number
        reader = stores.look(partition)
        assert reader is not None and reader.journal.last_turn == number
    other = PostgresStores(postgres.dsn, "another group")
    assert other.look(names[0]) is None and other.newest(names[0]) == 0
    other.close()


def test_looking_and_forgetting(pair: tuple[PostgresStores, PostgresStores]) -> None:
    """What is looked at is what was committed; what is open is not forgotten; what is forgotten leaves no row."""
    one, other = pair
    assert one.look(JFK) is None and one.newest(JFK) == 0
    one.forget(JFK)
    with one.open(lease(1)) as store:
        store.journal.append(1, 1, b"a turn")
        store.commit(Checkpoint(1, "full", 1, b"", [b"x"], 1), outputs={"out": [(0, 1, b"o")]})
        store.log("in").append([b"x"])
        store.acknowledge("out", "me", 0)
        reader = other.look(JFK)
        assert reader is not None
        with reader:
            assert reader.streams() == ["out"] and reader.journal.last_turn == 1
            whole = command_on(store, "restart", "q")  # who looks is told of the group, as who owns it is
            assert whole is not None and whole == command_on(reader, "restart", "q")
        for stores in pair:
            with pytest.raises(StoreOwned, match="in use by process"):
                stores.forget(JFK)
        store.journal.append(2, 1, b"goes on")
    other.forget(JFK)
    assert one.newest(JFK) == 0 and one.look(JFK) is None
    with pytest.raises(StoreUnavailable, match="closed"):
        store.journal.append(3, 1, b"late")
    with one.open(lease(1)) as store:
        assert store.recover() is None and store.journal.last_turn == 0 and store.log("in").end == 0


def test_a_stopped_commit_of_one_partition_holds_up_neither_its_successor_nor_others(
    pair: tuple[PostgresStores, PostgresStores],
) -> None:
    """While one partition of a node stands still inside a transaction, others commit, and it is taken over."""
    inside, go_on, told = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert go_on.wait(WAIT_S)

    def commit() -> None:
        try:
            old.commit(Checkpoint(1, "full", 1, b"", [b"old"], 1))
        except LeaseLost:
            told.set()

    one, other = pair
    with one.open(lease(1)) as old, one.open(lease(1, Partition("flights", "EWR"))) as neighbour:
        with arm("checkpoint.mid_commit", wait):
            committing = threading.Thread(target=commit)
            committing.start()
            assert inside.wait(WAIT_S)
        neighbour.commit(Checkpoint(1, "full", 1, b"", [b"y"], 1))
        with other.open(lease(2)) as new:
            new.commit(Checkpoint(1, "full", 1, b"", [b"new"], 1))
            go_on.set()
            committing.join(WAIT_S)
            found = new.recover()
            assert told.is_set() and found is not None and found.chunks == [b"new"]


def many(postgres: PostgresServer, count: int) -> None:
    dsn = postgres.new_database()
    stores = PostgresStores(dsn, "g", connections_max=4)
    with ExitStack() as opened:
        opened.callback(stores.close)
        every = [stores.open(lease(1, Partition("s", str(number)))) for number in range(count)]
        for each in every:
            opened.callback(each.close)

        def write(own: int) -> None:
            for turn in (1, 2):
                for each in every[own::8]:
                    each.journal.append(turn, 1, b"a turn")
            for each in every[own::8]:
                each.commit(Checkpoint(1, "full", 2, b"", [b"state"], 1))

        threads = [threading.Thread(target=write, args=(own,)) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S * 4)
        assert all(each.journal.last_turn == 2 and each.generations() for each in every)
        with psycopg.connect(postgres.dsn) as connection:
            sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            ((used,),) = connection.execute(sql, (dsn.rpartition("/")[2],)).fetchall()
        assert used <= 5


def test_many_partitions_share_few_connections(postgres: PostgresServer) -> None:
    """Sixteen open stores, used by eight threads at once, have four connections between them, and one more."""
    many(postgres, 16)


@pytest.mark.slow
def test_a_thousand_partitions_share_few_connections(postgres: PostgresServer) -> None:
    """So do a thousand."""
    many(postgres, 1_000)


def test_another_key_is_refused(postgres: PostgresServer) -> None:
    """Stores that were made with keys are opened with them, and forgotten with them, or not at all."""
    group = uuid.uuid4().hex
    ours, theirs = (PostgresStores(postgres.dsn, group, keys=KeyRing(key * 32)) for key in (b"o", b"t"))
    ours.open(lease(1)).close()
    for attempt in (lambda: theirs.open(lease(2)), lambda: theirs.look(JFK), lambda: theirs.forget(JFK)):
        with pytest.raises(CheckpointRefused, match="not on the key ring"):
            attempt()
    assert ours.newest(JFK) == 1
    for each in (ours, theirs):
        each.close()


def test_every_partition_that_was_opened_is_listed(
    pair: tuple[PostgresStores, PostgresStores], postgres: PostgresServer
) -> None:
    """Whatever it is called, and whoever has it now; not one that was forgotten, nor one of another group."""
    names = [Partition("a", "b/c"), Partition("a+b", "%2F"), Partition("a", ""), Partition("d" * 300, "e" * 300)]
    stores, others = pair
    group = stores._group
    for number, partition in enumerate(names, 1):
        stores.open(lease(number, partition)).close()
        assert others.opened() == sorted(names[:number])
    beside = [PostgresStores(postgres.dsn, each) for each in (f"{group}/a", f"{group}b", group[:-1])]
    for each in beside:
        assert each.opened() == []
        each.open(lease(1)).close()
        each.close()
    PostgresStore(stores._connections, f"{group}/no/partition").close()
    stores.forget(names[1])
    assert others.opened() == sorted({*names} - {names[1]})
