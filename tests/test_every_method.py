"""Every public method in every state and from everywhere: it works, or raises one of our errors, and nothing is lost.

The tables name a call for each public method; a method without one fails a test here, so that a new one is tried too.
"""

from __future__ import annotations

import faulthandler
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lanes import COMMIT, NIGHT, left_to_commits, of_lane, sample_of

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import App, CallbackSink, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.app import Pushed
from hosting.edges.egress import Stream
from hosting.sources.pushed import PushedStream
from hosting.subscriptions.subscription import Subscription
from reliable_rx.errors import InternalError, ReliableRxError, TooLate
from reliable_rx.reliable import Origin

WATCH_S = 30.0
VALUES = [0, 1, 2, 3, 4]
n, p = rx.source("n"), rx.source("p")
OURS = (TypeError, ValueError, KeyError, RuntimeError)


class Observer:
    """Does nothing, and calls once what it was told to call, from within the loop."""

    def on_next(self, n: int, value: Any, /) -> None: ...

    def on_error(self, n: int, error: Exception, /) -> None: ...

    def on_completed(self, n: int, /) -> None: ...


class World:
    """An evaluator with all that hangs on it, on a store that is opened again at the end."""

    def __init__(self, folder: Path, store: Any) -> None:
        self.folder, self.store = folder, store
        self.accepted: list[int] = []
        self.during: Callable[[], Any] | None = None
        self.app = App()
        self.app.source("n", ListSource(VALUES))
        self.declared = self.app.push("p")
        self.app.query("q", n.map(lambda x: 2 * x))
        self.app.query("r", p)
        self.app.query("gone", n)
        self.lines = JsonLinesSink(folder / "q.jsonl")
        self.app.sink("q", CallbackSink(self.called))
        self.app.sink("r", CallbackSink(self.called))
        self.app.sink("q", self.lines)
        self.evaluator = self.app.evaluator(store)
        self.pushed = self.declared.stream
        self.stream = self.evaluator.stream("q")
        self.subscription = self.stream.subscribe(Observer(), name="me")

    def called(self, *_: Any) -> None:
        during, self.during = self.during, None
        if during is not None:
            during()

    def push(self, *values: int) -> None:
        self.pushed.push(values)
        self.accepted += values

    def accept(self, _id: int) -> None:
        self.accepted.append(7)

    def meanwhile(self) -> None:
        self.evaluator.step()

    def settle(self) -> None:
        for _ in range(3):  # what is taken becomes durable, visible, and is written
            while self.evaluator.step():
                pass
            self.evaluator.flush()


def broken(world: World) -> None:
    take = world.evaluator.engine.take

    def fail(turn: Any) -> Any:
        raise InternalError("made by a test")

    world.evaluator.engine.take = fail  # type: ignore[method-assign]
    with pytest.raises(InternalError):
        world.settle()
    world.evaluator.engine.take = take  # type: ignore[method-assign]


def then(world: World, act: Callable[[QueryEvaluator], None]) -> None:
    world.settle()
    act(world.evaluator)


STATES: dict[str, Callable[[World], Any]] = {
    "before": lambda world: None,
    "started": lambda world: world.evaluator.start(),
    "running": World.settle,
    "stopping": lambda world: then(world, QueryEvaluator.stop),
    "failed": broken,
    "closed": lambda world: then(world, QueryEvaluator.close),
    "abandoned": lambda world: then(world, QueryEvaluator.abandon),
}


def noop(*_: Any) -> None: ...


def called(what: Any) -> Any:
    return what() if callable(what) else what


def drained(observable: Any) -> Any:
    observable.subscribe(noop).dispose()


Calls = dict[str, Callable[[World], Any]]
EVALUATOR: Calls = {
    "source": lambda w: w.evaluator.source("other", ListSource([1])),
    "push": lambda w: w.evaluator.push("another"),
    "sink": lambda w: w.evaluator.sink("gone", CallbackSink(noop)),
    "create": lambda w: w.evaluator.create("made", n),
    "create_many": lambda w: w.evaluator.create_many({"made": n, "more": n}),
    "dispose": lambda w: w.evaluator.dispose("gone"),
    "reopen": lambda w: w.evaluator.reopen("q"),
    "restart": lambda w: w.evaluator.restart("gone"),
    "forget": lambda w: w.evaluator.forget("gone"),
    "start": lambda w: w.evaluator.start(),
    "step": lambda w: w.evaluator.step(),
    "run": lambda w: w.evaluator.run(until=lambda: True),
    "stop": lambda w: w.evaluator.stop(),
    "wake": lambda w: w.evaluator.wake(),
    "flush": lambda w: w.evaluator.flush(),
    "checkpoint": lambda w: w.evaluator.checkpoint(),
    "close": lambda w: w.evaluator.close(),
    "abandon": lambda w: w.evaluator.abandon(),
    "finished": lambda w: w.evaluator.finished,
    "started": lambda w: w.evaluator.started,
    "closed": lambda w: w.evaluator.closed,
    "events_in": lambda w: w.evaluator.events_in,
    "had": lambda w: w.evaluator.had,
    "trouble": lambda w: w.evaluator.trouble,
    "stream": lambda w: w.evaluator.stream("q"),
    "queries": lambda w: w.evaluator.queries(),
    "query": lambda w: w.evaluator.query("q"),
    "statistics": lambda w: w.evaluator.statistics(),
}
STREAM: Calls = {
    "hold": lambda w: w.stream.hold("holder", 0),
    "release": lambda w: w.stream.release("holder"),
    "acknowledge": lambda w: w.stream.acknowledge("holder", 1),
    "read": lambda w: list(w.stream.read(0, 3)),
    "check": lambda w: w.stream.check(0),
    "subscribe": lambda w: w.stream.subscribe(Observer()).start(0),
    "observable": lambda w: drained(w.stream.observable(0)),
    "first": lambda w: w.stream.first,
    "depth": lambda w: w.stream.depth,
    "ended": lambda w: w.stream.ended,
    "lock": lambda w: w.stream.lock,
    "kept_from": lambda w: w.stream.kept_from(),
    "unstored": lambda w: w.stream.unstored(),
    "readable": lambda w: called(w.stream.readable),
}
STREAM_INSIDE = {"append", "keep_for", "mend", "show", "skip_to", "trim", "recovered", "leave", "unload"}
"""What the evaluator alone calls, under its lock."""
SUBSCRIPTION: Calls = {
    "start": lambda w: w.subscription.start(0),
    "acknowledge": lambda w: w.subscription.acknowledge(0),
    "detach": lambda w: w.subscription.detach(),
    "dispose": lambda w: w.subscription.dispose(),
    "halt": lambda w: w.subscription.halt(),
    "is_idle": lambda w: w.subscription.is_idle,
}
SUBSCRIPTION_INSIDE = {"attach", "step", "next", "refuse"}
"""What who delivers calls."""
PUSHED: Calls = {
    "on_next": lambda w: w.accept(w.pushed.on_next(7)),
    "push": lambda w: w.push(7, 8),
    "on_completed": lambda w: w.pushed.on_completed(),
    "on_error": lambda w: w.pushed.on_error(ValueError("made by a test")),
    "end": lambda w: w.pushed.end,
    "log": lambda w: w.pushed.log,
    "bounds": lambda w: w.pushed.bounds("0"),
    "end_of": lambda w: w.pushed.end_of("0"),
    "open": lambda w: w.pushed.open("0", 0).close(),
    "partitions": lambda w: w.pushed.partitions(),
}
DECLARED: Calls = {
    "on_next": lambda w: w.accept(w.declared.on_next(7)),
    "push": lambda w: w.accept(w.declared.push([7])),
    "on_completed": lambda w: w.declared.on_completed(),
    "on_error": lambda w: w.declared.on_error(ValueError("made by a test")),
    "end": lambda w: w.declared.end,
    "stream": lambda w: w.declared.stream,
}
APP: Calls = {
    "source": lambda w: w.app.source("other", ListSource([1])),
    "push": lambda w: w.app.push("another"),
    "query": lambda w: w.app.query("later", n),
    "sink": lambda w: w.app.sink("r", CallbackSink(noop)),
    "feed": lambda w: w.app.feed(noop),
    "companion": lambda w: w.app.companion(noop),  # type: ignore[arg-type]
    "evaluator": lambda w: w.app.evaluator(MemoryStore()).close(),
    "start_feeds": lambda w: w.app.start_feeds(w.evaluator, noop),
}
STORE: Calls = {
    "acknowledge": lambda w: w.store.acknowledge("r", "other", 0),
    "begin_anew": lambda w: w.store.begin_anew(),
    "check_owned": lambda w: w.store.check_owned(),
    "acknowledged": lambda w: w.store.acknowledged("r"),
    "release": lambda w: w.store.release("r", "other"),
    "subscribed": lambda w: w.store.subscribed(),
    "streams": lambda w: w.store.streams(),
    "bounds": lambda w: w.store.bounds("q"),
    "kept_outputs": lambda w: list(w.store.kept_outputs("q")),
    "outputs": lambda w: list(w.store.outputs("q", 0)),
    "generations": lambda w: w.store.generations(),
    "recover": lambda w: w.store.recover(),
    "size": lambda w: w.store.size(),
    "log": lambda w: w.store.log("fresh").end,
    "journal": lambda w: w.store.journal.last_turn,
    "keys": lambda w: w.store.keys,
    "owner": lambda w: w.store.owner,
    "read_only": lambda w: SqliteStore.read_only(w.folder / "store").close(),
    "close": lambda w: w.store.close(),
}
STORE_INSIDE = {"commit", "crash", "reopen"}
"""What a checkpoint calls with what it alone knows; what tests call."""
SINK: Calls = {
    "close": lambda w: w.lines.close(),
    "flush": lambda w: w.lines.flush(),
    "claim": lambda w: w.lines.claim(Origin("q", store="3f2a")),
    "fence": lambda w: w.lines.fence(0),
    "target": lambda w: w.lines.target,
    "stored_position": lambda w: w.lines.stored_position("q"),
}
SINK_INSIDE = {"label", "keeps_letters", "open", "write", "end", "skip", "forget_in_child"}
"""What the evaluator's writer calls."""

TABLES: dict[str, tuple[list[type], Calls, set[str]]] = {
    "evaluator": ([QueryEvaluator], EVALUATOR, set()),
    "stream": ([Stream], STREAM, STREAM_INSIDE),
    "subscription": ([Subscription], SUBSCRIPTION, SUBSCRIPTION_INSIDE),
    "pushed": ([PushedStream], PUSHED, set()),
    "declared": ([Pushed], DECLARED, set()),
    "app": ([App], APP, {"bare", "look"}),  # the command line, on a store of its own
    "store": ([SqliteStore, MemoryStore], STORE, STORE_INSIDE),
    "sink": ([JsonLinesSink, SqliteTableSink, CallbackSink], SINK, SINK_INSIDE),
}


@pytest.mark.parametrize("table", TABLES)
def test_every_public_method_has_a_call(table: str) -> None:
    """A public method that the tables do not name is not tried in any state: name it, or say who alone calls it."""
    kinds, calls, inside = TABLES[table]
    public = {name for kind in kinds for name, _ in inspect.getmembers(kind, is_method) if not name.startswith("_")}
    assert public - calls.keys() - inside == set()
    assert not calls.keys() & inside


def is_method(what: object) -> bool:
    return callable(what) or isinstance(what, property)


def tried(call: Callable[[Any], Any], world: Any) -> BaseException | None:
    """Call it; return what it raised, which must be an error that tells its reader something."""
    try:
        call(world)
    except ReliableRxError as error:
        return error
    except OURS as error:
        assert len(str(error).split()) > 3, f"{error!r} is no sentence"
        return error
    return None


def here(call: Callable[[Any], Any], world: Any) -> None:
    tried(call, world)


def twice(call: Callable[[Any], Any], world: Any) -> None:
    tried(call, world)
    tried(call, world)


def in_a_thread(call: Callable[[Any], Any], world: Any) -> None:
    """While something else goes on in this one."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            tried(call, world)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        tried(lambda world: world.meanwhile(), world)
    thread.join()
    assert not raised, raised


def in_a_callback(call: Callable[[World], Any], world: World) -> None:
    """From within the loop, where a sink is called."""
    raised: list[BaseException] = []

    def during() -> None:
        try:
            tried(call, world)
        except BaseException as error:
            raised.append(error)

    world.during = during
    is_well = not world.evaluator.closed and world.evaluator.lifecycle.broken is None
    tried(lambda world: world.push(9), world)
    tried(World.settle, world)
    assert not raised, raised
    assert not is_well or world.during is None, "the callback was not called"


def in_a_fork(call: Callable[[World], Any], world: World) -> None:
    """In a child of the process, which owns nothing of what it has."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)
        try:
            accepted = len(world.accepted)
            error = tried(call, world)
            os._exit(3 if error is None and len(world.accepted) > accepted else 0)
        except BaseException:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status), "the child hung"
    assert os.WEXITSTATUS(status) == 0, {3: "a push of the child was accepted", 4: "another error"}


FROM = {"here": here, "twice": twice, "thread": in_a_thread, "callback": in_a_callback, "fork": in_a_fork}


def nothing_is_lost(world: World) -> None:
    """The store opens again, and each stream has every value once, in order."""
    tried(lambda world: world.evaluator.close(), world)
    tried(lambda world: world.store.close(), world)
    assert not open_below(world.folder), "something is open though evaluator and store are closed"
    with SqliteStore(world.folder / "store") as store:
        app = App()
        app.source("n", ListSource(VALUES))
        pushed = app.push("p")
        app.query("q", n.map(lambda x: 2 * x))
        app.query("r", p)
        with app.evaluator(store) as evaluator:
            evaluator.start()
            with suppress(TooLate):  # the call under test may have ended it
                pushed.push([100])
            pushed.on_completed()
            evaluator.run(until=lambda: evaluator.stream("r").ended and evaluator.stream("q").ended)
            got = {name: values(evaluator.stream(name)) for name in ("q", "r")}
    assert got["q"] == [2 * value for value in VALUES]
    assert got["r"][: len(world.accepted)] == world.accepted


def open_below(folder: Path) -> list[str]:
    """Return the files below *folder* that this process has open, where the system tells."""
    found: list[str] = []
    for each in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        with suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{each}")
            found += [path] if path.startswith(f"{folder}/") else []
    return found


def values(stream: Stream) -> list[Any]:
    found: list[Any] = []
    at = stream.first
    while at < stream.visible:
        for part in stream.read(at, 100):
            found += part.values
            at = part.next
    return found


CASES = [(table, name) for table, (_, calls, _) in TABLES.items() for name in calls]


def lane(state: str, origin: str) -> Any:
    """Where the loop runs and nothing else goes on is for each change, the rest for each commit and for the night."""
    each_commit = COMMIT if state == "running" or origin == "here" else NIGHT
    marks = () if (state, origin) == ("running", "here") else each_commit
    return pytest.param(state, origin, marks=marks)


@left_to_commits
@pytest.mark.parametrize("state, origin", of_lane(lane(state, origin) for state in STATES for origin in FROM))
def test_every_method_in_every_state(state: str, origin: str, tmp_path: Path) -> None:
    """In whatever state and wherever from, a method ends soon, works or says why not, and loses nothing."""
    wrong: list[str] = []
    for table, name in sample_of(3, CASES):
        folder = tmp_path / f"{table}-{name}"
        folder.mkdir()
        why = watched(lambda: play(folder, table, name, state, origin))
        wrong += [f"{table}.{name}: {why}"] if why else []
    assert not wrong, "\n".join(wrong)


def play(folder: Path, table: str, name: str, state: str, origin: str) -> None:
    world = World(folder, SqliteStore(folder / "store"))
    try:
        STATES[state](world)
        FROM[origin](TABLES[table][1][name], world)
    finally:
        nothing_is_lost(world)


def watched(act: Callable[[], None]) -> str:
    """Have *act* done in time and say what was wrong; where it hangs, show where every thread is."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WATCH_S)
    if thread.is_alive():
        faulthandler.dump_traceback()
        return "it does not end"
    return "".join(traceback.format_exception(raised[0])[-4:]) if raised else ""
