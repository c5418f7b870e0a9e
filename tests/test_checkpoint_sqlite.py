"""The embedded store among real processes, real full disks and real kills."""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from checkpoint_writer import check_written
from forked import Forked, script

from checkpoint import Checkpoint, SqliteStore, Store
from checkpoint.sqlite.database import Database
from checkpoint.sqlite.files import DirectoryLock
from reliable_rx.errors import StoreOwned, StoreUnavailable
from reliable_rx.testing.faults import arm

WRITER = str(Path(__file__).with_name("checkpoint_writer.py"))


def full(generation: int, size: int = 10) -> Checkpoint:
    return Checkpoint(generation, "full", generation, b"meta", [bytes([generation % 256]) * size], 1)


def start_writer(directory: Path, faults: str = "") -> Forked:
    return Forked([WRITER, str(directory)], script, environment={"RELIABLE_RX_FAULTS": faults})


def test_a_second_owner_is_refused_by_name(tmp_path: Path) -> None:
    """While a process has the store, another one and the same one are refused, naming pid and directory."""
    with SqliteStore(tmp_path):
        with pytest.raises(StoreOwned, match=f"{tmp_path}.*this very process {os.getpid()}") as caught:
            SqliteStore(tmp_path)
        assert caught.value.owner == os.getpid()
        done = subprocess.run([sys.executable, WRITER, str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 1 and f"in use by process {os.getpid()}" in done.stderr
    SqliteStore(tmp_path).close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A store whose owner was killed is free at once; while the owner lives, its pid is named."""
    with start_writer(tmp_path) as writer:
        assert writer.stdout.readline() == f"opened {writer.pid}\n"
        with pytest.raises(StoreOwned) as caught:
            SqliteStore(tmp_path)
        assert caught.value.owner == writer.pid
        writer.kill()
    SqliteStore(tmp_path).close()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A child forked while the store was open does not own it, and does not hold it beyond its parent."""
    (ours, childs), (born, tells) = os.pipe(), os.pipe()
    with SqliteStore(tmp_path):
        child = os.fork()
        if child == 0:
            os.write(tells, b"x")
            os.read(ours, 1)
            os._exit(0)
        os.read(born, 1)  # it lets go when it is born, which may be later than we go on
    try:
        SqliteStore(tmp_path).close()
    finally:
        os.write(childs, b"x")
        os.waitpid(child, 0)
        for end in (ours, childs, born, tells):
            os.close(end)


def test_a_child_that_is_being_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    """Another thread may start a program while a store is closed: until it runs, it has what its parent has."""
    lock = DirectoryLock(tmp_path)
    copy = os.dup(lock._descriptor)  # as between the fork and the exec of a child
    try:
        lock.release()
        DirectoryLock(tmp_path).release()
    finally:
        os.close(copy)


def test_a_failed_opening_lets_go(tmp_path: Path) -> None:
    """A store that cannot be opened is not owned afterwards."""
    SqliteStore(tmp_path).close()
    key = (tmp_path / "seal.key").read_bytes()
    (tmp_path / "seal.key").unlink()
    with pytest.raises(ValueError):
        SqliteStore(tmp_path)
    (tmp_path / "seal.key").write_bytes(key)
    SqliteStore(tmp_path).close()


def test_the_key_is_for_its_owner_only(tmp_path: Path) -> None:
    """Nobody else may read the key file, whatever the umask."""
    before = os.umask(0)
    try:
        SqliteStore(tmp_path / "deep" / "store").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "store" / "seal.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_making_is_finished(tmp_path: Path, after: int) -> None:
    """A store whose first opening was cut off after any of its files is finished by the next one."""
    SqliteStore(tmp_path).close()
    made = ["seal.key", "journal.sqlite", "log.sqlite", "checkpoint.sqlite"]
    for name in made[after:]:
        (tmp_path / name).unlink()
    if after == 0:
        (tmp_path / "seal.key.new").write_bytes(b"torn")
    with SqliteStore(tmp_path) as store:
        assert store.recover() is None
        store.commit(full(1))
    SqliteStore(tmp_path).close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """After `close`, which may be called twice, every use is an error with a remedy."""
    store = SqliteStore(tmp_path)
    log = store.log("in")
    store.close()
    store.close()
    for use in (lambda: store.commit(full(1)), lambda: store.journal.append(1, 1, b""), lambda: log.append([b""])):
        with pytest.raises(StoreUnavailable, match="open it again"):
            use()


def test_looking_at_a_store_in_use(tmp_path: Path) -> None:
    """A reader sees what is committed while the owner goes on, and can change nothing."""
    with pytest.raises(StoreUnavailable, match="no store"):
        SqliteStore.read_only(tmp_path)
    with SqliteStore(tmp_path) as store:
        store.journal.append(1, 2, b"turns")
        store.commit(full(1), outputs={"out": [(0, 1, b"a")]})
        with SqliteStore.read_only(tmp_path) as reader:
            store.commit(full(2), outputs={"out": [(1, 1, b"b")]})
            store.acknowledge("out", "me", 0)
            found = reader.recover()
            assert found is not None and found.generation == 2
            assert [info.generation for info in reader.generations()] == [1, 2]
            assert (reader.streams(), reader.bounds("out")) == (["out"], (0, 2))
            assert list(reader.outputs("out", 1)) == [(1, 1, b"b")]
            assert list(reader.journal.read(0)) == [(1, 2, b"turns")]
            assert reader.acknowledged("out") == {"me": 0}
            with pytest.raises(StoreUnavailable, match="read-only"):
                reader.journal.append(3, 1, b"")
    listing = sorted(path.name for path in tmp_path.iterdir())
    with SqliteStore.read_only(tmp_path) as reader:
        assert reader.recover() == found
    assert sorted(path.name for path in tmp_path.iterdir()) == listing


def test_a_reader_follows_a_journal_that_moves(tmp_path: Path) -> None:
    """A reader opened before turns were written or dropped sees them as they are now."""
    with SqliteStore(tmp_path) as store, SqliteStore.read_only(tmp_path) as reader:
        for turn in range(1, 5):
            store.journal.append(turn, 1, b"%d" % turn)
        assert [first for first, _, _ in reader.journal.read(2)] == [3, 4]
        store.journal.truncate(3)
        assert [first for first, _, _ in reader.journal.read(3)] == [4]


def test_a_reader_sees_an_owner_come(tmp_path: Path) -> None:
    """A reader of a store that nobody had open sees what an owner writes afterwards."""
    SqliteStore(tmp_path).close()
    with SqliteStore.read_only(tmp_path) as reader:
        assert reader.recover() is None
        with SqliteStore(tmp_path) as store:
            store.commit(full(1))
            found = reader.recover()
            assert found is not None and found.generation == 1
            store.commit(full(2))
        found = reader.recover()
        assert found is not None and found.generation == 2


def test_a_commit_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """In the midst of a checkpoint commit, turns and pushes become durable and everything can be read."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert go_on.wait(60)

    with SqliteStore(tmp_path) as store:
        store.commit(full(1), outputs={"out": [(0, 1, b"a")]})
        with arm("checkpoint.mid_commit", wait):
            committing = threading.Thread(target=store.commit, args=(full(2),))
            committing.start()
            assert inside.wait(60)
            store.journal.append(1, 1, b"turn")
            store.log("in").append([b"pushed"])
            store.acknowledge("out", "me", 0)
            found = store.recover()
            assert found is not None and found.generation == 1
            assert list(store.outputs("out", 0)) == [(0, 1, b"a")]
            go_on.set()
            committing.join()
        found = store.recover()
        assert found is not None and found.generation == 2


def test_a_full_disk_and_after(tmp_path: Path) -> None:
    """With no page left in the file a commit is `StoreUnavailable`; with pages again the same commit succeeds."""
    with SqliteStore(tmp_path) as store:
        store.commit(full(1), outputs={"out": [(0, 1, b"a")]})
        connection = store._parts.checkpoint._writing
        assert connection is not None
        connection.execute("PRAGMA max_page_count = 20")
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="full"):
                store.commit(full(2, size=1_000_000), outputs={"out": [(1, 1, b"b")]})
        found = store.recover()
        assert found is not None and found.generation == 1
        connection.execute("PRAGMA max_page_count = 100000")
        store.commit(full(2, size=1_000_000), outputs={"out": [(1, 1, b"b")]})
    with SqliteStore(tmp_path) as store:
        found = store.recover()
        assert found is not None and len(found.chunks[0]) == 1_000_000
        assert store.bounds("out") == (0, 2)


def write_until_full(store: Store) -> dict[str, int]:
    """Write commits, turns and pushes until each has failed; return how many of each were acknowledged."""
    log, done = store.log("in"), {"generation": 0, "turn": 0, "pushed": 0}
    writes: dict[str, Callable[[int], object]] = {
        "generation": lambda n: store.commit(full(n, size=50_000)),
        "turn": lambda n: store.journal.append(n, 1, bytes(10_000)),
        "pushed": lambda n: log.append([bytes(10_000)]),
    }
    for what, write in writes.items():
        with pytest.raises(StoreUnavailable):
            while True:
                write(done[what] + 1)
                done[what] += 1
    return done


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """When the system lets no file grow (here by a limit of the process), nothing is lost, and it goes on later."""
    child = os.fork()
    if child == 0:
        os._exit(_fill_in_child(tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with SqliteStore(tmp_path) as store:
        found = store.recover()
        assert found is not None
        assert found.generation == store.log("in").end == store.journal.last_turn


def _fill_in_child(tmp_path: Path) -> int:
    """Fill the store under a file size limit, lift it, and bring all three counts to the same number."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with SqliteStore(tmp_path, retain=1) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
        done = write_until_full(store)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        found = store.recover()
        if min(done.values()) < 2 or found is None or found.generation != done["generation"]:
            return 1
        if (store.journal.last_turn, store.log("in").end) != (done["turn"], done["pushed"]):
            return 2
        end = max(done.values()) + 5
        store.commit(full(end))
        store.journal.append(done["turn"] + 1, end - done["turn"], b"")
        store.log("in").append([b""] * (end - done["pushed"]))
    return 0


def check_after_kill(directory: Path, acknowledged: dict[str, int]) -> None:
    with SqliteStore(directory) as store:
        check_written(store, acknowledged)


def run_and_kill(directory: Path, acknowledged: dict[str, int], *, faults: str, lines: int) -> None:
    """Let a writer run for *lines* answers or until its fault kills it, kill it, and note what it acknowledged."""
    with start_writer(directory, faults) as writer:
        for number, line in enumerate(writer.stdout, 1):
            what, value = line.split()
            acknowledged[what] = int(value)
            if number == lines:
                writer.kill()
    assert writer.returncode == -signal.SIGKILL


POINTS = [
    f"{part}.{when}"
    for part, whens in (
        ("journal", ("before_commit", "after_commit")),
        ("checkpoint", ("before_commit", "mid_commit", "after_commit")),
        ("log", ("before_commit", "after_commit")),
    )
    for when in whens
]


def test_killed_at_every_named_point(tmp_path: Path) -> None:
    """Killed at each probe in turn, the store is whole and has everything that was acknowledged."""
    acknowledged = {"generation": 0, "turn": 0, "pushed": -1}
    for number, point in enumerate(POINTS):
        run_and_kill(tmp_path, acknowledged, faults=f"{point}:kill@{2 + number}", lines=-1)
        check_after_kill(tmp_path, acknowledged)


@pytest.mark.slow
def test_killed_at_random(tmp_path: Path) -> None:
    """Fifty kills at random moments and points of one growing store lose nothing that was acknowledged."""
    chance = random.Random(7)
    acknowledged = {"generation": 0, "turn": 0, "pushed": -1}
    for _ in range(50):
        faults = f"{chance.choice(POINTS)}:kill@{chance.randrange(1, 60)}" if chance.random() < 0.5 else ""
        run_and_kill(tmp_path, acknowledged, faults=faults, lines=chance.randrange(2, 200))
        check_after_kill(tmp_path, acknowledged)


def test_reading_waits_for_no_transaction_and_sees_none_that_is_open(tmp_path: Path) -> None:
    """Whoever reads while something is written, in a snapshot or not, sees what was committed last, and at once."""
    SqliteStore(tmp_path).close()
    database = Database(tmp_path / "log.sqlite", "log")
    rows = "SELECT n FROM positions"
    insert = "INSERT INTO positions VALUES ('s', ?, 1, x'00')"
    with database.transaction() as writing:
        writing.execute(insert, ("first",))
        assert database.read(rows) == []
        with database.snapshot():
            assert database.read(rows) == []
    with database.snapshot():
        assert database.read(rows) == [(1,)]
        late = threading.Thread(target=add, args=(database, insert))
        late.start()
        assert database.read(rows) == [(1,)]
    late.join()
    assert database.read(rows) == [(1,), (1,)]
    database.close()


def add(database: Database, insert: str) -> None:
    with database.transaction() as writing:
        writing.execute(insert, ("second",))


def test_what_is_committed_while_the_store_is_taken_over_is_not_acknowledged(tmp_path: Path) -> None:
    """Whoever owns the file by then may have read it before, so the writer is told; a later write is refused, too."""
    taken = threading.Event()

    def fence() -> None:
        if taken.is_set():
            raise StoreOwned("taken over", owner=1)

    with closing(Database(tmp_path / "part.sqlite", "part", fence=fence)) as database:
        with pytest.raises(StoreOwned, match="taken over"), database.transaction():
            taken.set()
        with pytest.raises(StoreOwned, match="taken over"), database.transaction():
            pytest.fail("it was begun")
