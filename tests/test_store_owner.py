"""An owner is one for as long as its process, its files and their folder are: else no write is called durable."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import every, left_to_commits
from postgres_server import PostgresServer

import reliable_rx as rx
from checkpoint import Checkpoint, MemoryStore, PostgresStore, SqliteStore, Store
from checkpoint.offsets import SqliteOffsets
from hosting import JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.evaluator.store_watch import INTERVAL_S_MIN
from hosting.partitioned.sqlite_registry import SqliteRegistry
from reliable_rx.errors import LeaseLost, ReliableRxError, StoreOwned, StoreUnavailable


class Child:
    """A forked process that does *work* and says what came of each step."""

    def __init__(self, work: Callable[[Callable[[str], None], Callable[[], str]], None]) -> None:
        (said, says), (asked, asks) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(60)
            code = 1
            try:
                work(lambda text: void(os.write(says, f"{text}\n".encode())), lambda: os.read(asked, 1).decode())
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(says)
        os.close(asked)
        self._said, self._asks = os.fdopen(said, "r"), asks

    def line(self) -> str:
        found = self._said.readline()
        assert found, "the child has ended without a word"
        return found.strip()

    def go_on(self) -> None:
        os.write(self._asks, b"x")

    def __enter__(self) -> Child:
        return self

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._said.close()
        os.close(self._asks)


def void(_: object) -> None: ...


def outcome(do: Callable[[], object]) -> str:
    """'done', or what was raised: only errors of ours may be."""
    try:
        do()
    except ReliableRxError as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return "done"


# ---- whatever happens to the files


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))


def replace_by_copy(path: Path) -> None:
    beside = path.with_name(f"{path.name}.copy")
    shutil.copytree(path, beside) if path.is_dir() else shutil.copy2(path, beside)
    move(path)
    beside.rename(path)


def replace_by_nothing(path: Path) -> None:
    is_folder = path.is_dir()
    move(path)
    path.mkdir() if is_folder else path.touch()


HARMS = (delete, move, replace_by_copy, replace_by_nothing)
FILES = (
    ".", "lock", "seal.key",
    *(f"{part}.sqlite{end}" for part in ("checkpoint", "journal", "log") for end in ("", "-wal", "-shm")),
)  # fmt: skip
WRITES: dict[str, Callable[[Store, int], object]] = {
    "turn": lambda store, n: store.journal.append(n, 1, b"turn %d" % n),
    "push": lambda store, n: store.log("in").append([b"push %d" % n]),
    "checkpoint": lambda store, n: store.commit(Checkpoint(n, "full", n, b"", [b"state %d" % n], 1)),
    "position": lambda store, n: store.acknowledge("s", "reader", n),
}


def found(folder: Path) -> dict[str, bool]:
    """Which of the second writes a process finds that opens the store behind this one."""
    store = SqliteStore(folder)
    with store:
        recovered, log = store.recover(), store.log("in")
        return {
            "turn": store.journal.last_turn == 2,
            "push": log.end == 2 and log.read(1, 1)[1] == [b"push 2"],
            "checkpoint": recovered is not None and recovered.generation == 2,
            "position": store.acknowledged("s").get("reader") == 2,
        }


def owner(folder: Path, *, harm: Callable[[], None] | None = None, at: int = 0) -> Any:
    """What an owner does: each write once, then again when it is told that the harm is done, or at a fence."""

    def work(say: Callable[[str], None], wait: Callable[[], str]) -> None:
        calls = 0

        def fence() -> None:
            nonlocal calls
            calls += told
            if calls == at and harm is not None and told:
                harm()

        told = 0
        with SqliteStore(folder, fence=fence) as store:
            for write in WRITES.values():
                write(store, 1)
            say("written")
            wait()
            told = 1
            for name, write in WRITES.items():
                say(f"{name}={outcome(lambda write=write: write(store, 2))}")
            say("over")
            wait()

    return work


def check(child: Child, folder: Path) -> dict[str, str]:
    said = dict(line.split("=", 1) for line in iter(child.line, "over"))
    assert said.keys() == WRITES.keys()
    durable = {name for name, what in said.items() if what == "done"}
    child.kill()  # it does not close what it has, which would tidy up
    if durable:
        there = found(folder)
        assert all(there[name] for name in durable), f"called durable: {durable}, found: {there}"
    return said


@pytest.mark.parametrize("harm", every(len(HARMS), HARMS, commits=1), ids=lambda harm: harm.__name__)
def test_what_is_called_durable_is_found(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """Each file, and the folder, is deleted, moved, or replaced under a running owner: whatever it calls durable
    after that is found by the next process; all else is refused in words of ours."""
    for name in FILES:
        folder = tmp_path / f"{harm.__name__} {name}" / "store"
        with Child(owner(folder)) as child:
            assert child.line() == "written"
            harm(folder if name == "." else folder / name)
            child.go_on()
            said = check(child, folder)
        if not name.endswith("-shm"):
            assert not any(what == "done" for what in said.values()), f"{harm.__name__} of {name}: {said}"


@left_to_commits
@pytest.mark.parametrize("at", [1, 2], ids=["within its transaction", "behind its commit"])
def test_what_happens_meanwhile_is_seen(at: int, tmp_path: Path) -> None:
    """The same in the midst of a write: it is looked before anything is changed, and once more when it is durable."""
    for harm in (delete, replace_by_copy):
        for name in (".", "lock", "journal.sqlite", "journal.sqlite-wal"):
            folder = tmp_path / f"{harm.__name__} {name}" / "store"
            path = folder if name == "." else folder / name
            with Child(owner(folder, harm=lambda harm=harm, path=path: harm(path), at=at)) as child:
                assert child.line() == "written"
                child.go_on()
                said = check(child, folder)
            assert said["turn"] != "done"


def test_no_second_owner_is_written_over(tmp_path: Path) -> None:
    """The lock is deleted and another process lets itself in: the first writes nothing more, and says whose it is."""
    folder = tmp_path / "store"
    with Child(owner(folder)) as child:
        assert child.line() == "written"
        (folder / "lock").unlink()
        with SqliteStore(folder) as second:
            assert second.log("in").append([b"second"]) == 1
            child.go_on()
            said = dict(line.split("=", 1) for line in iter(child.line, "over"))
            assert all(what.startswith("StoreOwned") and str(os.getpid()) in what for what in said.values()), said
            assert second.log("in").append([b"third"]) == 2
            assert second.log("in").read(0, 9)[1] == [b"push 1", b"second", b"third"]


def test_a_folder_that_comes_back_is_gone_on_with(tmp_path: Path) -> None:
    """A folder that was moved, or whose disk was away, stops an evaluator without loss, and seen; it goes on when it is
    there again."""
    folder, came = tmp_path / "store", list[int]()
    with SqliteStore(folder) as store, QueryEvaluator(store, checkpoint_interval_s=0.05) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("all", rx.source("n"))
        evaluator.start()
        evaluator.stream("all").observable().subscribe(came.append)
        pushed.on_next(1)
        running = threading.Thread(target=lambda: evaluator.run(until=lambda: len(came) == 2))
        running.start()
        until(lambda: came == [1])
        folder.rename(tmp_path / "away")
        with pytest.raises(StoreUnavailable, match="moved"):
            pushed.on_next(2)
        until(lambda: "moved" in str(evaluator.statistics().trouble), "the trouble")
        until(lambda: {"pushed", "checkpoint"} <= {each.kind for each in evaluator.incidents.open()}, "the incidents")
        assert all("moved" in each.message for each in evaluator.incidents.open())
        (tmp_path / "away").rename(folder)
        until(lambda: not evaluator.statistics().trouble)
        assert {each.kind for each in evaluator.incidents.open()} == {"pushed"}
        pushed.on_next(2)
        assert not evaluator.incidents.open()
        running.join(60)
        assert came == [1, 2]


@contextmanager
def idle(store: Store) -> Iterator[tuple[QueryEvaluator, list[BaseException]]]:
    """An evaluator that runs in another thread and has all in its checkpoint, and what its run ends with."""
    ended = list[BaseException]()

    def run() -> None:
        try:
            evaluator.run()
        except Exception as error:
            ended.append(error)

    evaluator = QueryEvaluator(store, checkpoint_interval_s=0.05)
    pushed = evaluator.push("n")
    evaluator.create("all", rx.source("n"))
    evaluator.start()
    running = threading.Thread(target=run)
    running.start()
    pushed.on_next(1)
    until(lambda: evaluator.events_in and evaluator.checkpointer.has_all, "the checkpoint of all there is")
    try:
        yield evaluator, ended
    finally:
        evaluator.stop()
        running.join(60)
        with suppress(ReliableRxError):
            evaluator.close()


def test_who_has_nothing_to_write_sees_that_its_folder_is_gone(tmp_path: Path) -> None:
    """An evaluator that waits for its next event says that its folder was moved, and that it is there again."""
    folder = tmp_path / "store"
    with SqliteStore(folder) as store, idle(store) as (evaluator, ended):
        folder.rename(tmp_path / "away")
        until(lambda: any("moved" in each.message for each in evaluator.incidents.open()), "the incident")
        assert "moved" in str(evaluator.statistics().trouble)
        (tmp_path / "away").rename(folder)
        until(lambda: not evaluator.statistics().trouble and not evaluator.incidents.open(), "the end of it")
        assert not ended


def test_who_has_nothing_to_write_asks_now_and_then(tmp_path: Path) -> None:
    """Not again and again, where a checkpoint is taken as often as may be."""
    asked = list[None]()

    class Store(MemoryStore):
        def check_owned(self) -> None:
            asked.append(None)

    with Store() as store, QueryEvaluator(store, checkpoint_interval_s=0, background=False) as evaluator:
        evaluator.push("n")
        evaluator.create("all", rx.source("n"))
        evaluator.start()
        began = time.monotonic()
        while not asked:
            evaluator.step()
        for _ in range(2_000):
            evaluator.step()
        assert 1 <= len(asked) <= 1 + (time.monotonic() - began) / INTERVAL_S_MIN


def test_who_has_nothing_to_write_sees_that_it_owns_nothing(tmp_path: Path) -> None:
    """An evaluator that waits for its next event ends once another process owns its store."""
    folder = tmp_path / "store"
    with SqliteStore(folder) as store, idle(store) as (_, ended):
        (folder / "lock").unlink()
        with SqliteStore(folder):
            until(lambda: ended, "the end of the run")
    assert isinstance(ended[0], StoreOwned)


def test_who_has_nothing_to_write_sees_that_its_server_is_gone(mortal_postgres: PostgresServer) -> None:
    """An evaluator that waits for its next event says that its server is away and back, and ends where a later epoch
    has its store."""
    dsn = mortal_postgres.new_database()
    with PostgresStore(dsn, "store", epoch=1) as store, idle(store) as (evaluator, ended):
        mortal_postgres.stop()
        until(lambda: evaluator.statistics().trouble, "the trouble")
        mortal_postgres.start()
        until(lambda: not evaluator.statistics().trouble, "the end of it")
        assert not ended
        with PostgresStore(dsn, "store", epoch=2):
            until(lambda: ended, "the end of the run")
    assert isinstance(ended[0], LeaseLost)


def test_an_owner_that_is_none_any_more_stops(tmp_path: Path) -> None:
    """Without its lock, which another one took, an evaluator ends with the reason."""
    folder = tmp_path / "store"
    evaluator = QueryEvaluator(SqliteStore(folder), checkpoint_interval_s=0.01)
    evaluator.source("n", ListSource(list(range(10))))
    evaluator.create("all", rx.source("n"))
    evaluator.start()
    (folder / "lock").unlink()
    with SqliteStore(folder), pytest.raises(StoreOwned, match="owned by process"):
        evaluator.run()
    evaluator.close()
    evaluator.store.close()


def test_what_nodes_share_is_not_swapped_beside(tmp_path: Path) -> None:
    """A registry or an offset store whose file was deleted says so, instead of committing to what nobody will find."""
    registry = SqliteRegistry(tmp_path / "registry.sqlite", "g")
    assert registry.swap(0, b"one", notice=False)
    (tmp_path / "registry.sqlite").unlink()
    with pytest.raises(StoreUnavailable, match="deleted or moved"):
        registry.swap(1, b"two", notice=False)
    registry.close()
    with SqliteOffsets(tmp_path / "offsets", lambda group, partition: ("a", 1)) as offsets:
        offsets.commit("g", {("log", "0"): 1}, {("log", "0"): ("a", 1)})
        shutil.rmtree(tmp_path / "offsets")
        with pytest.raises(StoreUnavailable, match="deleted or moved"):
            offsets.commit("g", {("log", "0"): 2}, {("log", "0"): ("a", 1)})


# ---- a child that was forked


@contextmanager
def some_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    if kind == "memory":
        with MemoryStore() as memory:
            yield memory
    elif kind == "sqlite":
        with SqliteStore(tmp_path / "store") as sqlite:
            yield sqlite
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with PostgresStore(server.new_database(), "store") as postgres:
            yield postgres


def said_by_child(steps: dict[str, Callable[[], object]]) -> dict[str, str]:
    def work(say: Callable[[str], None], wait: Callable[[], str]) -> None:
        for name, step in steps.items():
            say(f"{name}={outcome(step)}")
        say("over")

    with Child(work) as child:
        found = dict(line.split("=", 1) for line in iter(child.line, "over"))
    assert found.keys() == steps.keys()
    return found


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_forked_child_writes_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every way to write is refused in a child, naming both processes and the remedy; closing does nothing there; and
    the parent goes on, undisturbed, under the ids that follow."""
    with some_store(kind, tmp_path, request) as store:
        evaluator = QueryEvaluator(store)
        pushed = evaluator.push("n")
        evaluator.create("all", rx.source("n"))
        evaluator.start()
        assert pushed.on_next("parent") == 0
        evaluator.run(until=lambda: evaluator.events_in == 1)
        steps: dict[str, Callable[[], object]] = {
            "push": lambda: pushed.on_next("child"),
            "step": evaluator.step,
            "run": evaluator.run,
            "checkpoint": evaluator.checkpoint,
            "create": lambda: evaluator.create("more", rx.source("n")),
            "dispose": lambda: evaluator.dispose("all"),
        }
        if kind != "memory":
            steps |= {
                name: lambda name=name, write=write: write(store, store.journal.last_turn + 1 if name == "turn" else 9)
                for name, write in WRITES.items()
            }
        closing: dict[str, Callable[[], object]] = {"close": evaluator.close, "close store": store.close}
        said = said_by_child(steps | closing)
        assert {said.pop(each) for each in closing} == {"done"}
        for name, what in said.items():
            assert what.startswith("StoreOwned") and str(os.getpid()) in what and "forked" in what, (name, what)
        assert pushed.on_next("parent again") == 1
        evaluator.run(until=lambda: evaluator.events_in == 2)
        evaluator.checkpoint()
        evaluator.close()
    if kind == "sqlite":
        with SqliteStore(tmp_path / "store") as store:
            assert store.log("n").end == 2


def test_a_child_is_refused_though_a_lock_was_held(tmp_path: Path) -> None:
    """A child that was born while another thread of its parent was in a commit does not wait for that for ever."""
    inside, go_on = threading.Event(), threading.Event()
    harm = threading.local()

    def fence() -> None:
        if getattr(harm, "here", False):
            inside.set()
            go_on.wait(60)

    with SqliteStore(tmp_path, fence=fence) as store:
        log = store.log("in")

        def held() -> None:
            harm.here = True
            log.append([b"slow"])

        thread = threading.Thread(target=held)
        thread.start()
        assert inside.wait(60)
        said = said_by_child({"push": lambda: log.append([b"x"]), "turn": lambda: WRITES["turn"](store, 1)})
        go_on.set()
        thread.join(60)
        assert all(each.startswith("StoreOwned") for each in said.values()), said
        assert log.append([b"next"]) == 1


def test_a_child_that_ends_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    """It ends as Python does, with all that it cleans up: neither the lock nor the log of the parent is touched."""
    with SqliteStore(tmp_path) as store:
        store.log("in").append([b"one"])
        child = os.fork()
        if child == 0:
            store.close()
            del store
            import gc

            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (tmp_path / "log.sqlite-wal").exists()
        with pytest.raises(StoreOwned):
            SqliteStore(tmp_path)
        store.log("in").append([b"two"])


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_a_fenced_sink_writes_nothing_in_a_child(kind: str, tmp_path: Path) -> None:
    """A sink that its parent has opened refuses a child's writes."""
    sink: Any = JsonLinesSink(tmp_path / "out.jsonl") if kind == "lines" else SqliteTableSink(tmp_path / "out.db", "t")
    sink.fence(3)
    sink.open("s")
    sink.write(0, [1])
    sink.flush()

    def write() -> None:
        sink.write(1, [2])
        sink.flush()

    assert said_by_child({"write": write})["write"].startswith("StoreOwned")
    sink.write(1, ["parent"])
    sink.flush()
    sink.close()
