"""The store in PostgreSQL: owners that succeed each other, connections that are lost, servers that die, damage."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from checkpoint_writer import check_written
from conditions import until
from postgres_server import PostgresServer
from postgres_worlds import Place

from checkpoint import Checkpoint, KeyRing, PostgresStore, Store
from checkpoint.postgres import connections as postgres_connections
from checkpoint.postgres import owner
from checkpoint.postgres.connections import Connections
from checkpoint.postgres.schema import look
from checkpoint.postgres.store import KIND
from checkpoint.store import Kind
from reliable_rx.errors import CheckpointRefused, LeaseLost, StoreOwned, StoreUnavailable
from reliable_rx.testing.faults import arm

WRITER = str(Path(__file__).with_name("checkpoint_writer.py"))
WAIT_S = 60.0


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place(postgres.dsn)


def opened(place: Place, epoch: int | None = None, keys: KeyRing | None = None) -> PostgresStore:
    return PostgresStore(place.dsn, place.name, epoch=epoch, keys=keys)


def generation(number: int, kind: Kind = "full", size: int = 10) -> Checkpoint:
    return Checkpoint(number, kind, number, b"meta", [b"%d" % number * size, b"second"], 2)


def fill(store: Store) -> None:
    for number in range(1, 5):
        store.journal.append(number, 1, b"turn %d" % number)
        made = generation(number, "full" if number % 2 else "differential")
        store.commit(made, outputs={"out": [(number, 1, b"out %d" % number)]})
    store.log("in").append([b"pushed"])
    store.acknowledge("out", "me", 1)


def writes(store: Store) -> dict[str, Callable[[], object]]:
    """Everything that changes something."""
    log = store.log("in")
    return {
        "append": lambda: store.journal.append(store.journal.last_turn + 1, 1, b"more"),
        "truncate": lambda: store.journal.truncate(2),
        "commit": lambda: store.commit(generation(5)),
        "push": lambda: log.append([b"more"]),
        "push many": lambda: store._logs.rows.insert([("in", 1, 1, b"x"), ("other", 0, 1, b"y")]),  # type: ignore
        "trim": lambda: log.trim(0),
        "acknowledge": lambda: store.acknowledge("out", "me", 3),
        "release": lambda: store.release("out", "me"),
    }


def everything(place: Place) -> list[object]:
    """All rows of the store, in all its tables."""
    tables = ("generations", "chunks", "outputs", "turns", "turn_bases", "entries", "entry_bases", "positions")
    return [sorted(place.sql(f"SELECT * FROM {table} WHERE store = MINE")) for table in tables]


def test_a_former_owner_is_told_at_every_write(place: Place) -> None:
    """From the moment that a later epoch has opened the store, nothing of an earlier one changes a single row."""
    with opened(place, 1) as old:
        fill(old)
        with opened(place, 3) as new:
            before = everything(place)
            for name, write in writes(old).items():
                with pytest.raises(LeaseLost, match="taken over by epoch 3") as caught:
                    write()
                assert (name, caught.value.epoch, caught.value.newest) == (name, 1, 3)
            assert everything(place) == before
            with pytest.raises(LeaseLost, match="by epoch 3"):
                opened(place, 2)
            for write in writes(new).values():
                write()


def test_the_same_epoch_again_ends_its_first_opening(place: Place) -> None:
    """A lease that is opened twice is owned by the later opening: two writers of one epoch are none too few."""
    with opened(place, 1) as first, opened(place, 1) as second:
        second.journal.append(1, 1, b"second")
        with pytest.raises(LeaseLost, match="a later opening"):
            first.journal.append(1, 1, b"first")
        assert list(second.journal.read(0)) == [(1, 1, b"second")]


def test_without_an_epoch_a_living_owner_is_named(place: Place) -> None:
    """While somebody has the store, whoever comes without an epoch is refused; afterwards he has it."""
    with opened(place) as first:
        first.journal.append(1, 1, b"a turn")
        with pytest.raises(StoreOwned, match=f"in use by process {os.getpid()} on") as caught:
            opened(place)
        assert f"process {os.getpid()}" in caught.value.owner
        first.journal.append(2, 1, b"another")
    with opened(place) as second:
        assert second.journal.last_turn == 2
    first.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        first.journal.append(3, 1, b"late")


def test_an_owner_in_the_midst_of_a_commit_is_not_waited_for(place: Place) -> None:
    """Whoever stands still inside his transaction is ended by his successor; nothing that he wrote is there."""
    inside, go_on, told = threading.Event(), threading.Event(), []

    def wait() -> None:
        inside.set()
        assert go_on.wait(WAIT_S)

    def commit() -> None:
        try:
            old.commit(generation(5))
        except LeaseLost as lost:
            told.append(lost.newest)

    with opened(place, 1) as old:
        fill(old)
        with arm("checkpoint.mid_commit", wait):
            committing = threading.Thread(target=commit)
            committing.start()
            assert inside.wait(WAIT_S)
        with opened(place, 2) as new:
            found = new.recover()
            assert found is not None and found.generation == 4
            new.commit(generation(5, size=20))
            go_on.set()
            committing.join(WAIT_S)
            assert told == [2]
            found = new.recover()
            assert found is not None and found.chunks[0] == b"5" * 20


def test_a_commit_does_not_hold_up_the_others(place: Place) -> None:
    """In the midst of a checkpoint commit, turns and pushes become durable and everything can be read."""
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert go_on.wait(WAIT_S)

    with opened(place) as store:
        fill(store)
        with arm("checkpoint.mid_commit", wait):
            committing = threading.Thread(target=store.commit, args=(generation(5),))
            committing.start()
            assert inside.wait(WAIT_S)
            store.journal.append(5, 1, b"turn")
            store.log("in").append([b"pushed"])
            store.acknowledge("out", "me", 4)
            found = store.recover()
            assert found is not None and found.generation == 4
            assert list(store.outputs("out", 4)) == [(4, 1, b"out 4")]
            go_on.set()
            committing.join(WAIT_S)
        found = store.recover()
        assert found is not None and found.generation == 5


END_ALL = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'reliable_rx %'"


def test_whoever_is_cut_off_while_idle_notices_nothing(place: Place) -> None:
    """All connections are ended by the server: the next call connects anew, and the store is still ours alone."""
    with opened(place) as store:
        store.journal.append(1, 1, b"a turn")
        place.sql(END_ALL)
        store.journal.append(2, 1, b"a turn")
        with pytest.raises(StoreOwned):
            opened(place)


def test_what_was_lost_in_flight_is_ended_before_it_is_repeated(place: Place) -> None:
    """A commit whose connection breaks is unavailable; when it is repeated, the server no longer works on the first."""
    with opened(place) as store, psycopg.connect(place.dsn) as blocking:
        blocking.execute("LOCK TABLE reliable_rx.turns")
        failed: list[BaseException] = []

        def append() -> None:
            try:
                store.journal.append(1, 1, b"lost")
            except StoreUnavailable as error:
                failed.append(error)

        appending = threading.Thread(target=append)
        appending.start()
        waiting = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'INSERT INTO turns%' AND wait_event_type = 'Lock'"
        ((lost,),) = until(lambda: place.sql(waiting))
        cut(lost)
        appending.join(WAIT_S)
        assert len(failed) == 1
        repeating = threading.Thread(target=store.journal.append, args=(1, 2, b"again, and more"))
        repeating.start()
        until(lambda: [row for row in place.sql(waiting) if row != (lost,)])
        assert not place.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (lost,))
        blocking.rollback()
        repeating.join(WAIT_S)
        assert list(store.journal.read(0)) == [(1, 2, b"again, and more")]


def cut(backend: int) -> None:
    """Shut the socket of the connection that *backend* serves, as a broken network would."""
    import socket

    from checkpoint.postgres import connections as postgres_connections

    (connection,) = [
        each for each in postgres_connections._OPEN if not each.closed and each.info.backend_pid == backend
    ]
    with closing(socket.socket(fileno=os.dup(connection.fileno()))) as shared:
        shared.shutdown(socket.SHUT_RDWR)


def test_damage_is_found(place: Place) -> None:
    """Edited, exchanged and missing rows are refused or fallen back from, as in every other store."""
    edit = "set_byte(blob, octet_length(blob) - 40, 255 - get_byte(blob, octet_length(blob) - 40))"
    with opened(place) as store:
        fill(store)
        for damage, expected in (
            (f"UPDATE chunks SET blob = {edit} WHERE store = MINE AND generation = 4 AND number = 0", "seal"),
            ("DELETE FROM chunks WHERE store = MINE AND generation = 4 AND number = 1", "of its chunks 1 are stored"),
        ):
            place.sql(damage)
            found = store.recover()
            assert found is not None and found.generation == 3 and expected in found.fallbacks[0]
        place.sql("UPDATE turns SET blob = (SELECT blob FROM turns WHERE store = MINE AND first = 1)"
                  " WHERE store = MINE AND first = 2")  # fmt: skip
        with pytest.raises(CheckpointRefused, match="is from number 1"):
            list(store.journal.read(0))
        place.sql(f"UPDATE outputs SET blob = {edit} WHERE store = MINE AND first = 2")
        with pytest.raises(CheckpointRefused, match="seal does not match"):
            list(store.outputs("out", 2))
        place.sql(f"UPDATE positions SET n = 2, blob = {edit} WHERE store = MINE")
        with pytest.raises(CheckpointRefused, match="seal does not match"):
            store.acknowledged("out")
        place.sql(f"UPDATE entries SET blob = {edit} WHERE store = MINE")
        with pytest.raises(CheckpointRefused, match="seal does not match"):
            store.log("in").read(0, 1)


def test_keys_are_given_or_lie_beside_the_data_and_can_be_changed(place: Place) -> None:
    """Another key is refused; the ring that holds both opens old and new; afterwards the new one is enough."""
    old, new = KeyRing(b"o" * 32), KeyRing(b"n" * 32)
    with opened(place, keys=old) as store:
        store.commit(generation(1))
    with pytest.raises(CheckpointRefused, match="give those keys"):
        opened(place)
    with pytest.raises(CheckpointRefused, match="not on the key ring"):
        opened(place, keys=new)
    with opened(place, keys=KeyRing(b"n" * 32, older=(b"o" * 32,))) as store:
        assert store.recover() is not None
        for number in range(2, 6):
            store.commit(generation(number))
    with opened(place, keys=new) as store:
        found = store.recover()
        assert found is not None and not found.fallbacks


def test_looking_at_a_store_that_goes_on(place: Place, postgres: PostgresServer) -> None:
    """A reader owns nothing, sees what its owner commits meanwhile, and finds nothing where there is nothing."""
    with opened(place) as store, PostgresStore.read_only(place.dsn, place.name) as reader:
        assert reader.recover() is None and reader.journal.last_turn == 0
        fill(store)
        found = reader.recover()
        assert found is not None and found.generation == 4 and reader.owner == store.owner
        assert reader.journal.last_turn == 4 and reader.streams() == ["out"] and reader.acknowledged("out") == {"me": 1}
        with pytest.raises(StoreUnavailable, match="read-only"):
            reader.journal.append(5, 1, b"x")
    with pytest.raises(StoreUnavailable, match="no store 'none'"):
        PostgresStore.read_only(place.dsn, "none")
    with pytest.raises(StoreUnavailable, match="no stores in this database"):
        PostgresStore.read_only(postgres.new_database(), "none")


def test_names_that_cannot_be_stored(place: Place) -> None:
    """A name that PostgreSQL cannot hold is refused when it is used, by name and not by a stack of the driver."""
    with opened(place) as store:
        with pytest.raises(ValueError, match="control character"):
            store.log("a\0b")
        with pytest.raises(ValueError, match="255 are the most"):
            store.log(os.urandom(9_000).hex()).append([b"x"])
        store.log("ü" * 127).append([b"x"])


def test_the_database_is_looked_at_before_it_is_used(postgres: PostgresServer) -> None:
    """No server, no database, one in another encoding: each is an error of its own; commits are durable even if the
    database would have it otherwise."""
    with pytest.raises(StoreUnavailable, match="refused"):
        PostgresStore("postgresql://rrx@127.0.0.1:1/postgres", "s")
    with pytest.raises(StoreUnavailable, match="does not exist"):
        PostgresStore(f"{postgres.dsn}_none", "s")
    with pytest.raises(ValueError, match="no address"):
        PostgresStore("postgresql://[", "s")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(CheckpointRefused, match="UTF8"):
        PostgresStore(f"{postgres.dsn.rpartition('/')[0]}/ascii", "s")
    dsn = postgres.new_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {dsn.rpartition('/')[2]} SET synchronous_commit = off")
    with closing(Connections(dsn)) as connections, connections.use() as lent:
        assert lent.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_whoever_comes_later_needs_few_rights(postgres: PostgresServer) -> None:
    """Once the tables are there, a role that may read and write them has all it needs; one that may not is told so."""
    dsn, reader = postgres.new_database(), Place(postgres.dsn)
    PostgresStore(dsn, "s").close()
    role = f"r{reader.name}"
    theirs = dsn.replace("rrx@", f"{role}@")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        with pytest.raises(StoreUnavailable, match="permission denied"):
            PostgresStore(theirs, "s")
        connection.execute(f"GRANT USAGE ON SCHEMA reliable_rx TO {role}".encode())
        rights = f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reliable_rx TO {role}"
        connection.execute(rights.encode())
    with PostgresStore(theirs, "s", epoch=1) as old, PostgresStore(theirs, "new", epoch=1) as new:
        fill(old)
        fill(new)
        inside, go_on = threading.Event(), threading.Event()

        def commit() -> None:
            with pytest.raises(LeaseLost):
                old.commit(generation(5))

        with arm("checkpoint.mid_commit", lambda: (inside.set(), go_on.wait(WAIT_S))):  # type: ignore
            committing = threading.Thread(target=commit)
            committing.start()
            assert inside.wait(WAIT_S)
        PostgresStore(theirs, "s", epoch=2).close()
        go_on.set()
        committing.join(WAIT_S)


def test_connections_are_few_and_a_place_is_kept_for_short_uses(postgres: PostgresServer) -> None:
    """Long users never take the last places; whoever waits too long for one is told; a closed pool lends nothing."""
    with closing(Connections(postgres.dsn, connections_max=2, wait_s=0.05)) as connections:
        with connections.use(long=True), pytest.raises(StoreUnavailable, match="was free"), connections.use(long=True):
            pass
        with connections.use(long=True), connections.use() as one:
            assert one.execute("SELECT 1").fetchone() == (1,)
            with pytest.raises(StoreUnavailable, match="was free"), connections.use():
                pass
    with pytest.raises(StoreUnavailable, match="closed"), connections.use():
        pass
    with pytest.raises(ValueError, match="two are the least"):
        Connections(postgres.dsn, connections_max=1)


# -- real processes


def start_writer(dsn: str, epoch: int | None = None, faults: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, WRITER, dsn, "store", *([] if epoch is None else [str(epoch)])]
    environment = {**os.environ, "RELIABLE_RX_FAULTS": faults}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def note(lines: IO[bytes], acknowledged: dict[str, int], *, enough: int = sys.maxsize) -> None:
    for number, line in enumerate(lines, 1):
        what, value = line.split()
        acknowledged[what.decode()] = int(value)
        if number == enough:
            return


POINTS = (
    "journal.before_commit", "journal.after_commit", "checkpoint.before_commit", "checkpoint.mid_commit",
    "checkpoint.after_commit", "log.before_commit", "log.after_commit",
)  # fmt: skip


@pytest.mark.slow
def test_killed_at_every_named_point(postgres: PostgresServer) -> None:
    """Killed at each probe in turn, the store is free again, whole, and has everything that was acknowledged."""
    dsn, acknowledged = postgres.new_database(), {"generation": 0, "turn": 0, "pushed": -1}
    for number, point in enumerate(POINTS):
        with start_writer(dsn, faults=f"{point}:kill@{2 + number}") as writer:
            assert writer.stdout is not None
            note(writer.stdout, acknowledged)
        assert writer.returncode == -signal.SIGKILL
        with PostgresStore(dsn, "store") as store:
            check_written(store, acknowledged)


FORKING = """
import os, signal, sys
from checkpoint import PostgresStore
store = PostgresStore(sys.argv[1], "store")
store.journal.append(1, 1, b"a turn")
child = os.fork()
if not child:
    signal.pause()
print(child, flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_a_forked_child_does_not_own_the_store_beyond_its_parent(postgres: PostgresServer) -> None:
    """A child that was forked while the store was open neither keeps the connections open nor ends them."""
    dsn = postgres.new_database()
    with subprocess.Popen([sys.executable, "-c", FORKING, dsn], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            with pytest.raises(StoreOwned, match=f"process {parent.pid} on"):
                PostgresStore(dsn, "store")
            parent.kill()
            parent.wait(WAIT_S)
            with PostgresStore(dsn, "store") as store:
                assert store.journal.last_turn == 1
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["checkpoint.mid_commit", "journal.before_commit", "log.after_commit"])
def test_a_stopped_owner_is_succeeded_and_told(postgres: PostgresServer, point: str) -> None:
    """A process stopped inside its transaction holds nobody up; continued, it is told, and has written nothing.

    Its successor finds all that it acknowledged, goes on, and finds its own writes alone afterwards.
    """
    dsn, acknowledged = postgres.new_database(), {"generation": 0, "turn": 0, "pushed": -1}
    with start_writer(dsn, 1, f"{point}:stop@4") as writer:
        until(lambda: state_of(writer.pid) == "T")
        assert writer.stdout is not None
        os.set_blocking(writer.stdout.fileno(), False)
        note(writer.stdout, acknowledged)
        os.set_blocking(writer.stdout.fileno(), True)
        with PostgresStore(dsn, "store", epoch=2) as store:
            check_written(store, acknowledged)
            turn, end = store.journal.last_turn, store.log("in").end
            store.journal.append(turn + 1, 3, b"of the successor")
            writer.send_signal(signal.SIGCONT)
            _, complaint = writer.communicate(timeout=WAIT_S)
            assert writer.returncode == 1
            assert b"taken over by epoch 2 (this is epoch 1)" in complaint.splitlines()[-1]
            assert list(store.journal.read(turn)) == [(turn + 1, 3, b"of the successor")]
            acknowledged = {"generation": acknowledged["generation"], "turn": turn + 3, "pushed": end - 1}
            assert store.log("in").end == end and store.journal.last_turn == turn + 3
            found = store.recover()
            assert (found.generation if found else 0) == acknowledged["generation"]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.slow
def test_a_server_that_dies_loses_nothing_acknowledged(mortal_postgres: PostgresServer) -> None:
    """The server is stopped at once, time after time: the writer goes on, and everything answered is there."""
    dsn, acknowledged = mortal_postgres.dsn, {"generation": 0, "turn": 0, "pushed": -1}
    with start_writer(dsn) as writer:
        assert writer.stdout is not None
        for _ in range(4):
            note(writer.stdout, acknowledged, enough=60)
            mortal_postgres.stop(signal.SIGQUIT)
            while acknowledged.pop("away", None) is None:
                note(writer.stdout, acknowledged, enough=1)
            mortal_postgres.start()
        note(writer.stdout, acknowledged, enough=60)
        writer.kill()
        note(writer.stdout, acknowledged)
    with PostgresStore(dsn, "store") as store:
        check_written(store, acknowledged)


@pytest.mark.slow
def test_a_damaged_page_is_fallen_back_from(mortal_postgres: PostgresServer) -> None:
    """A page that the server finds damaged costs its generation, and is not written over."""
    server, place = mortal_postgres, Place(mortal_postgres.dsn)
    with opened(place) as store:
        for number in (1, 2):
            store.commit(generation(number, size=50_000))
    ((path,),) = place.sql("SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'chunks'")
    server.stop()
    with open(server.folder / "data" / path, "rb+") as file:
        file.seek(-4_000, os.SEEK_END)
        file.write(b"damaged")
    server.start()
    with opened(place) as store:
        found = store.recover()
        assert found is not None and found.generation == 1 and "invalid page" in found.fallbacks[0]
        with pytest.raises(CheckpointRefused, match="invalid page"):
            store.commit(generation(2))
        store.journal.append(1, 1, b"what lies elsewhere is well")


class Open:
    """A connection that is open, as far as a fork is concerned: its socket."""

    def __init__(self, end: socket.socket) -> None:
        self.fileno, self.closed = end.fileno, False


def test_a_child_lets_go_of_the_sockets_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sees at once that the parent has died, however long its child lives; what is closed is left alone."""
    here, there = socket.socketpair()
    with here, there:
        connection, closed = Open(here), Open(here)
        closed.closed, closed.fileno = True, lambda: pytest.fail("a closed connection has no socket")
        monkeypatch.setattr(postgres_connections, "_OPEN", {connection, closed})
        postgres_connections._after_fork()
        there.settimeout(WAIT_S)
        assert there.recv(1) == b""


def test_who_opens_a_store_while_it_is_forgotten_keeps_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its owner and the lock, somebody may come; what he has is not deleted, nor is he ended."""
    with opened(place) as store:
        fill(store)
    alone, late = owner.alone, ExitStack()

    @contextmanager
    def later(*given: Any, **named: Any) -> Iterator[Any]:
        monkeypatch.setattr(owner, "alone", alone)
        late.enter_context(opened(place))
        with alone(*given, **named) as connection:
            yield connection

    monkeypatch.setattr(owner, "alone", later)
    with closing(Connections(place.dsn, prepare=look)) as connections, late:
        identity = owner.find_unverified(connections, KIND, place.name)
        assert identity is not None
        with pytest.raises(StoreOwned, match="in use by process"):
            owner.forget(connections, identity)
    with opened(place) as store:
        assert store.journal.last_turn == 4
