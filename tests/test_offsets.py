"""What an offset store promises, on all stores.

What is asked of progress, and where it is shown:

| point | claim | test |
|---|---|---|
| K8 | the position is the next id | test_a_position_is_the_next_id |
| K9 | one number per partition, small, part of any checkpoint | test_the_vector_is_plain_and_small |
| K11 | one commit acknowledges all before | test_a_commit_acknowledges_all_before_and_may_be_repeated |
| K16 | the vector is committed periodically, newest wins | test_offsets_committer.py |
| K17 | one store holds all groups, each by itself | test_groups_do_not_see_each_other |
| K18 | automatic or by hand | test_offsets_committer.py |
| K19 K20 | whoever is asked says which store is in charge | test_offsets_dual.py |
| K21 | a commit is appended to a log | test_a_commit_is_one_row_of_the_log |
| K22 | success only when durable | test_nothing_is_promised_that_is_not_durable |
| K23 | a failed commit may be retried | the same, and test_offsets_committer.py |
| K24 | compaction keeps the newest per partition | test_compaction_changes_nothing_visible |
| K25 K26 | answers come from a table in memory | test_answers_come_from_memory |
| K27 | while the log is read, whoever asks shall come again | test_while_the_log_is_read |
| K28 K29 | dual commit, migration, roll-back | test_offsets_dual.py |
| S1 S3 S5 S16 S17 | over all histories | test_offsets_machine.py, test_offsets_kill.py |
| S1 S3 S16 S17 | in all states near the way to another store | model/test_offsets_model.py |
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer
from postgres_worlds import Place

from checkpoint.format.envelope import KeyRing
from checkpoint.offsets import Committed, MemoryOffsets, PostgresOffsets, SqliteOffsets, lag, retire
from checkpoint.offsets.log import PAGE
from checkpoint.offsets.store import LeaseAuthority
from reliable_rx.errors import (
    CheckpointRefused,
    LimitExceeded,
    OffsetsLoading,
    StoreOwned,
    StoreUnavailable,
)
from reliable_rx.testing.faults import arm, disk_full, nth

P, Q = ("flights", "0"), ("flights", "1")
AnyOffsets = MemoryOffsets | SqliteOffsets | PostgresOffsets


class World:
    """Leases, a clock, and a store that is opened, or opened again, over the same rows."""

    def __init__(self, kind: str, directory: Path, place: Place | None = None) -> None:
        self.kind, self.directory, self.place = kind, directory, place
        self.held = {P: ("a", 1), Q: ("a", 1)}
        self.now = 1_000.0
        self.memory: MemoryOffsets | None = None
        self.opened: list[AnyOffsets] = []

    def open(self, *, load: bool = True, compact_rows: int = 1_000) -> AnyOffsets:
        store: AnyOffsets
        if self.kind == "sqlite":
            store = SqliteOffsets(
                self.directory, self.leases, clock=lambda: self.now, load=load, compact_rows=compact_rows
            )
        elif self.place is not None:
            store = PostgresOffsets(
                self.place.dsn, self.leases, name=self.place.name, clock=lambda: self.now, load=load,
                compact_rows=compact_rows,
            )  # fmt: skip
        elif self.memory is None:
            store = self.memory = MemoryOffsets(
                self.leases, clock=lambda: self.now, load=load, compact_rows=compact_rows
            )
        else:
            store = self.memory.beside(load=load)
        self.opened.append(store)
        return store

    def leases(self, group: str, partition: tuple[str, str]) -> tuple[str, int] | None:
        return self.held.get(partition)

    def rows(self, store: AnyOffsets) -> int:
        if isinstance(store, MemoryOffsets):
            return len(store.committed.rows)
        if self.place is not None:
            return int(self.place.sql("SELECT count(*) FROM offsets WHERE store = MINE")[0][0])
        assert isinstance(store, SqliteOffsets)
        return int(store._database.read("SELECT count(*) FROM offsets")[0][0])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    server: PostgresServer | None = request.getfixturevalue("postgres") if request.param == "postgres" else None
    world = World(request.param, tmp_path, server and Place(server.dsn))
    yield world
    for store in world.opened:
        store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[World]:
    world = World("sqlite", tmp_path)
    yield world
    for store in world.opened:
        store.close()


def commit(store: AnyOffsets, world: World, **positions: int) -> None:
    """Commit for the present holders; partition 0 is called p and 1 is called q."""
    vector = {{"p": P, "q": Q}[name]: position for name, position in positions.items()}
    answers = store.commit("g", vector, world.held)
    assert not any(answers.values()), answers


def positions(store: AnyOffsets, group: str = "g") -> dict[tuple[str, str], int]:
    return {partition: committed.position for partition, committed in store.fetch(group).items()}


def test_a_position_is_the_next_id(world: World) -> None:
    """What is fetched is what was committed: the id of the next event, with its epoch, owner, time and metadata."""
    store = world.open()
    assert store.commit("g", {P: 12}, world.held, metadata="héllo") == {P: None}
    assert store.fetch("g", [P, Q]) == {P: Committed(12, 1, "a", 1_000.0, "héllo")}
    assert lag(store, "g", {P: 15, Q: 4}) == {P: 3, Q: 4}
    assert lag(store, "g", {P: 10}) == {P: 0}


def test_a_position_before_the_first_id_is_refused(world: World) -> None:
    """There is no such event; 0 is where nothing has been taken, and may be committed."""
    store = world.open()
    with pytest.raises(ValueError, match="is -1: commit the id of the next event"):
        store.commit("g", {P: -1}, world.held)
    assert store.commit("g", {P: 0}, world.held) == {P: None}


def test_the_vector_is_plain_and_small(world: World) -> None:
    """A thousand partitions take a thousand numbers and names, and go into any checkpoint."""
    store, many = world.open(), {("s", str(n)): n for n in range(1_000)}
    world.held = dict.fromkeys(many, ("a", 1))
    store.commit("g", many, world.held)
    assert len(pickle.dumps(positions(store))) < 20_000


def test_a_commit_acknowledges_all_before_and_may_be_repeated(world: World) -> None:
    """One commit stands for every event before it; when its answer was lost it is made again, to the same effect."""
    store = world.open()
    commit(store, world, p=1_000_000)
    commit(store, world, p=1_000_000)
    assert positions(store) == {P: 1_000_000}


def test_groups_do_not_see_each_other(world: World) -> None:
    """Each group has its own vector; all are listed with the time of their last commit."""
    store = world.open()
    commit(store, world, p=5)
    world.now += 10
    store.commit("h", {P: 7}, world.held)
    assert (positions(store), positions(store, "h"), positions(store, "none")) == ({P: 5}, {P: 7}, {})
    world.now -= 60
    store.commit("h", {P: 7}, world.held)
    assert store.groups() == {"g": 1_000.0, "h": 1_010.0}, "also by a clock that was set back"


def test_partial_success(world: World) -> None:
    """Every partition has an answer of its own, and the good ones are committed."""
    store = world.open()
    commit(store, world, p=5, q=5)
    answers = store.commit("g", {P: 4, Q: 6, ("x", "0"): 1}, world.held)
    assert {p: refusal and refusal.reason for p, refusal in answers.items()} == {
        P: "behind", Q: None, ("x", "0"): "fenced"
    }  # fmt: skip
    assert positions(store) == {P: 5, Q: 6}
    assert "5 is committed, 4 is before it" in str(answers[P])


@pytest.mark.parametrize("lease", [("b", 1), ("a", 0), ("a", 2), ("", 1)])
def test_only_the_present_lease_commits(world: World, lease: tuple[str, int]) -> None:
    """Another owner, an older epoch, and one that was never granted are fenced, for a claim too."""
    store = world.open()
    for answers in (store.commit("g", {P: 9}, {P: lease}), store.claim("g", {P: lease})):
        refusal = answers[P]
        assert refusal is not None and refusal.reason == "fenced"
    assert positions(store) == {}


def test_a_claim_fences_what_the_authority_forgot(world: World) -> None:
    """After a claim no older epoch commits, also if the question who holds the lease was answered before."""
    store = world.open()
    commit(store, world, p=5)
    world.held[P] = ("b", 2)
    assert store.claim("g", {P: ("b", 2)}) == {P: None}
    world.held[P] = ("a", 1)  # the answer that a was given before b's grant
    refusal = world.open().commit("g", {P: 9}, {P: ("a", 1)})[P]
    assert refusal is not None and refusal.message.endswith("epoch 1 is over, 2 was seen")
    assert store.fetch("g")[P] == Committed(5, 2, "b", 1_000.0)


def test_one_epoch_has_one_owner(world: World) -> None:
    """Two members with the same epoch cannot both commit, whatever the authority says."""
    store = world.open()
    commit(store, world, p=5)
    world.held[P] = ("b", 1)
    refusal = store.commit("g", {P: 9}, world.held)[P]
    assert refusal is not None and refusal.reason == "fenced"


def test_reset_is_the_only_way_back(world: World) -> None:
    """A reset needs that nobody holds the partition, changes all or nothing, and ends the epoch."""
    store = world.open()
    commit(store, world, p=5, q=5)
    del world.held[Q]
    with pytest.raises(StoreOwned, match="flights/0 is held by a") as caught:
        store.reset("g", {Q: 1, P: 1})
    assert (caught.value.owner, positions(store)) == ("a", {P: 5, Q: 5})
    store.reset("g", {Q: 1})
    store.reset("g", {Q: 2})
    world.held[Q] = ("a", 1)
    refusal = store.commit("g", {Q: 9}, world.held)[Q]
    assert refusal is not None and refusal.reason == "fenced", "a commit under way while it was reset"
    world.held[Q] = ("a", 2)
    assert store.commit("g", {Q: 3}, world.held) == {Q: None}
    assert positions(world.open()) == {P: 5, Q: 3}


def test_retention(world: World) -> None:
    """Groups that have not committed for the stated time go, those that hold something stay."""
    store = world.open()
    commit(store, world, p=5)
    world.now += 100
    store.commit("h", {P: 7}, world.held)
    assert retire(store, idle_s=50, now=world.now) == []
    world.held.clear()
    assert retire(store, idle_s=50, now=world.now) == ["g"]
    assert store.groups() == {"h": 1_100.0}
    assert not store.delete("h", unless_after=1_099.0)
    assert (positions(store), positions(store, "h")) == ({}, {P: 7})


def test_limits(world: World) -> None:
    """Too much metadata and too many partitions are refused, and nothing of them is written."""
    store = world.open()
    with pytest.raises(LimitExceeded, match="4,097 bytes"):
        store.commit("g", {P: 1}, world.held, metadata="x" * 4_097)
    small = MemoryOffsets(world.leases, entries_max=1)
    with pytest.raises(LimitExceeded, match="more than 1 entries"):
        small.commit("g", {P: 1, Q: 1}, world.held)
    assert (positions(store), positions(small)) == ({}, {})


def test_a_commit_is_one_row_of_the_log(world: World) -> None:
    """A vector is appended as one row; nothing that is there is changed."""
    store = world.open()
    commit(store, world, p=1, q=1)
    commit(store, world, p=2, q=2)
    assert world.rows(store) == 2


FAULTS = ("offsets.before_commit", "offsets.mid_commit", "offsets.after_commit")


@pytest.mark.parametrize("point", FAULTS)
def test_nothing_is_promised_that_is_not_durable(world: World, point: str) -> None:
    """When the disk fails the caller learns it; the commit has happened whole or not at all, and can be made again."""
    store = world.open()
    commit(store, world, p=1, q=1)
    with arm(point, nth(1, disk_full())), pytest.raises(StoreUnavailable):
        store.commit("g", {P: 2, Q: 2}, world.held)
    whole = {P: 2, Q: 2} if point == "offsets.after_commit" else {P: 1, Q: 1}
    assert positions(store) == positions(world.open()) == whole
    commit(store, world, p=2, q=2)
    assert positions(store) == positions(world.open()) == {P: 2, Q: 2}


@pytest.mark.parametrize("point", ["offsets.mid_compaction", "offsets.after_compaction"])
def test_a_failed_compaction_takes_nothing_back(world: World, point: str) -> None:
    """The commit that a compaction follows is answered; the compaction is made again later."""
    store = world.open(compact_rows=3)
    with arm(point, nth(1, disk_full())):
        for position in range(6):
            commit(store, world, p=position)
            assert positions(store) == {P: position} == positions(world.open())


def test_compaction_changes_nothing_visible(world: World) -> None:
    """The log stays short, the newest of every partition is kept, and other stores on it go on."""
    store = world.open(compact_rows=10)
    other = world.open()
    for position in range(100):
        commit(store, world, p=position)
        assert world.rows(store) <= 11
    store.commit("h", {Q: 3}, world.held)
    store.compact()
    assert world.rows(store) == 1
    assert positions(other) == positions(store) == positions(world.open()) == {P: 99}
    commit(other, world, p=100)
    assert positions(store) == {P: 100} and positions(store, "h") == {Q: 3}


def test_tombstones_last_one_round(world: World) -> None:
    """A deleted partition fences its epoch through one compaction, and then takes no room any more."""
    store = world.open()
    commit(store, world, p=5)
    held, world.held = world.held, {}
    assert store.delete("g")
    world.held = held
    store.compact()
    for each in (store, world.open()):
        refusal = each.commit("g", {P: 9}, held)[P]
        assert refusal is not None and refusal.reason == "fenced"
    store.compact()
    assert store._log._table.size == world.open()._log._table.size == 0
    commit(store, world, p=1)


def test_answers_come_from_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch reads what was appended since the last look, which is nothing, and decodes nothing."""
    store = world.open()
    commit(store, world, p=5)
    monkeypatch.setattr("checkpoint.offsets.log.decode", None)
    assert positions(store) == {P: 5}


def test_while_the_log_is_read(world: World) -> None:
    """Until the log is read, every use is told to come again; from then on all of it is there."""
    first = world.open()
    for position in range(PAGE + 10):
        commit(first, world, p=position)
    store = world.open(load=False)
    seen: list[str] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: seen.extend(refused(store, world)))
        thread.start()
        thread.join()

    with arm("offsets.loading", look):
        store.load()
    assert seen == ["fetch", "commit", "compact"]
    assert positions(store) == {P: PAGE + 9}


def refused(store: AnyOffsets, world: World) -> Iterator[str]:
    uses: dict[str, Callable[[], object]] = {
        "fetch": lambda: store.fetch("g"),
        "commit": lambda: store.commit("g", {P: 1}, world.held),
        "compact": store.compact,
    }
    for name, use in uses.items():
        try:
            use()
        except BlockingIOError as error:
            assert isinstance(error, OffsetsLoading) and "ask again soon" in str(error)
            yield name


def test_many_threads_share_commits(world: World) -> None:
    """Commits of many threads are all durable, and those that wait together are one row."""
    store, threads = world.open(), 8
    world.held = {("s", str(n)): ("a", 1) for n in range(threads)}

    def work(partition: tuple[str, str]) -> None:
        for position in range(1, 21):
            assert store.commit("g", {partition: position}, world.held) == {partition: None}

    running = [threading.Thread(target=work, args=(partition,)) for partition in world.held]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert positions(world.open()) == dict.fromkeys(world.held, 20)
    assert world.rows(store) <= 20 * threads


def test_one_commit_for_all_who_wait(world: World) -> None:
    """Whoever comes while a commit is under way is in the next one, together; one that fails fails alone."""
    store, done = world.open(), []
    world.held = {("s", str(n)): ("a", 1) for n in range(8)}
    waiting = [
        threading.Thread(target=lambda p=p: done.append(store.commit("g", {p: 1}, world.held))) for p in world.held
    ]

    def others() -> None:
        for each in waiting:
            each.start()
        while len(store._log._committing._pending) < len(waiting):
            pass

    with arm("offsets.before_commit", nth(1, others)):
        store.claim("h", {("s", "0"): ("a", 1)})
    for each in waiting:
        each.join()
    assert len(done) == 8 and world.rows(store) == 2


def test_two_stores_on_one_log_fence_each_other(world: World) -> None:
    """Two processes see each other's commits at once, and neither goes back behind the other."""
    one, two = world.open(), world.open()
    commit(one, world, p=5)
    commit(two, world, p=6)
    refusal = one.commit("g", {P: 5}, world.held)[P]
    assert refusal is not None and refusal.reason == "behind"
    assert positions(one) == positions(two) == {P: 6}


def test_a_closed_store_says_so(world: World) -> None:
    """After `close`, which may be called twice, a commit is an error with a remedy."""
    store = world.open()
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="open it again"):
        store.commit("g", {P: 1}, world.held)


def test_a_missing_row_is_found(world: World) -> None:
    """A row that is gone from the midst of the log, or exchanged for another, is refused, not passed over."""
    store = world.open()
    for position in range(3):
        commit(store, world, p=position)
    if isinstance(store, MemoryOffsets):
        del store.committed.rows[1]
    elif world.place is not None:
        world.place.sql("DELETE FROM offsets WHERE store = MINE AND number = 2")
    else:
        assert isinstance(store, SqliteOffsets)
        with store._database.transaction() as connection:
            connection.execute("DELETE FROM offsets WHERE number = 2")
    with pytest.raises(CheckpointRefused, match="row 2 is needed and the next one there is 3"):
        world.open()


def test_an_exchanged_row_is_found(sqlite: World) -> None:
    """An older row in a newer one's place does not open."""
    with sqlite.open() as store:
        commit(store, sqlite, p=1)
        commit(store, sqlite, p=2)
        with store._database.transaction() as connection:
            connection.execute("UPDATE offsets SET blob = (SELECT blob FROM offsets WHERE number = 1) WHERE number = 2")
    with pytest.raises(CheckpointRefused, match="it is from number 1 and stands where 2 should be"):
        sqlite.open()


def test_another_name_or_key_is_refused(postgres: PostgresServer) -> None:
    """In a database, a name that nothing is stored under, another key, and a key that is missing are told apart."""
    held: LeaseAuthority = lambda group, partition: ("a", 1)  # noqa: E731
    with pytest.raises(StoreUnavailable, match="no stores in this database"):
        PostgresOffsets(postgres.new_database(), held, create=False)
    place = Place(postgres.dsn)
    PostgresOffsets(place.dsn, held, name=place.name).close()
    with pytest.raises(StoreUnavailable, match="no offset store"):
        PostgresOffsets(place.dsn, held, name="another", create=False)
    with pytest.raises(CheckpointRefused, match="key that is not on the key ring"):
        PostgresOffsets(place.dsn, held, name=place.name, keys=KeyRing(bytes(32)))
    place.sql("UPDATE stores SET key = NULL WHERE id = MINE")
    with pytest.raises(CheckpointRefused, match="give those keys"):
        PostgresOffsets(place.dsn, held, name=place.name)


def test_another_store_or_key_is_refused(sqlite: World) -> None:
    """A lost key file, another key, and a directory without a store are told apart."""
    with pytest.raises(StoreUnavailable, match="no offset store"):
        SqliteOffsets(sqlite.directory / "none", sqlite.leases, create=False)
    sqlite.open().close()
    with pytest.raises(CheckpointRefused, match="key that is not on the key ring"):
        SqliteOffsets(sqlite.directory, sqlite.leases, keys=KeyRing(bytes(32)))
    (sqlite.directory / "seal.key").unlink()
    with pytest.raises(CheckpointRefused, match="key file is missing"):
        sqlite.open()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_open_it_at_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Whoever opens a new store together with others ends up on the same one."""
    database = request.getfixturevalue("postgres").new_database() if kind == "postgres" else None
    world = World(kind, tmp_path, database and Place(database))
    stores: list[AnyOffsets] = []
    opening = [threading.Thread(target=lambda: stores.append(world.open())) for _ in range(6)]
    for each in opening:
        each.start()
    for each in opening:
        each.join()
    commit(stores[0], world, p=3)
    assert [positions(store) for store in stores] == [{P: 3}] * 6
    for store in stores:
        store.close()
