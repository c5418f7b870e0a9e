"""What a `close` raises is said in the log, and takes the place of no other error: that one decides how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import at_each_commit
from node_world import LogReader, Logs, World, row

from checkpoint import SqliteStore
from hosting import App
from hosting.partitioned.agent import Agent
from hosting.partitioned.leases import Leases
from reliable_rx.errors import LeaseLost, StoreUnavailable

LOST = LeaseLost("another node has it", partition="logs/a", epoch=1, newest=2)
NO_DISK = StoreUnavailable("no disk")


class Late:
    """A sink of one's own whose `close` needs what its `open` has made, or raises *closing*."""

    def __init__(self, closing: BaseException | None = None) -> None:
        self._closing = closing

    def open(self, stream: str, /) -> int | None:
        self.file: list[Any] = []
        return None

    def write(self, first: int, values: Any, /) -> None: ...
    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...

    def close(self) -> None:
        if self._closing is not None:
            raise self._closing
        self.file.clear()


class Unfenced(Late):
    def fence(self, epoch: int, /) -> None:
        raise ValueError("this cannot be fenced")


class FencedByNothing(Late):
    def fence(self) -> None: ...  # an epoch is what it is given


class Unclaimed(Late):
    def claim(self, origin: object, /) -> None:
        raise ValueError("this cannot be claimed")


class Untargeted(Late):
    @property
    def target(self) -> str:
        raise ValueError("this has no target")


class Unopened(Late):
    def open(self, stream: str, /) -> int | None:
        raise ValueError("this cannot be opened")


def leaves(error: BaseException) -> Callable[..., Any]:
    def make(closing: BaseException | None) -> Any:
        raise error

    return make


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "policy": (Late, "a Late cannot leave ids out"),
    "fence": (Unfenced, "ValueError: this cannot be fenced"),
    "fence of another form": (FencedByNothing, "takes 1 positional argument but 2 were given"),
    "claim": (Unclaimed, "ValueError: this cannot be claimed"),
    "target": (Untargeted, "ValueError: this has no target"),
    "open": (Unopened, "ValueError: this cannot be opened"),
    "made, SystemExit": (leaves(SystemExit(3)), "the sink raised SystemExit: 3"),
    "made, KeyboardInterrupt": (leaves(KeyboardInterrupt()), "the sink raised KeyboardInterrupt"),
}
CLOSINGS = [None, OSError("it does not close"), SystemExit(3)]
CASES = [(case, closing) for case in REFUSED for closing in CLOSINGS]
ALWAYS = ("policy", "made, SystemExit")


@pytest.mark.parametrize(
    "case, closing",
    [
        at_each_commit(case, closing) if case in ALWAYS and closing is None else (case, closing)
        for case, closing in CASES
    ],
)
def test_a_sink_that_is_refused_stops_no_partition(tmp_path: Path, case: str, closing: BaseException | None) -> None:
    """However it is refused and whatever its `close` raises: it fails by the true reason, and the others go on."""
    make, why = REFUSED[case]
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", logs)
        app.query("same", source)
        app.query("other", source)
        app.sink("same", lambda place: make(closing), on_error="skip" if case == "policy" else "fail")
        app.sink("other", world.sink("other", world.name))

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 2, 3)
        until(lambda: row(tmp_path, "a").status == "failing")
        found = row(tmp_path, "a")
        assert found.lease == "open" and found.epoch == 1 and why in found.error, found
        until(lambda: len(world.came.get(("other", "a"), ())) == 3)


class Heard:
    """What agents say of their ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.said: list[tuple[str, BaseException | None]] = []
        for name in ("fenced", "failed", "stopped"):
            patch.setattr(Leases, name, self._noting(name, getattr(Leases, name)))

    def _noting(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def note(leases: Leases, lease: Any, *error: Any) -> None:
            self.said.append((name, error[0] if error else None))
            real(leases, lease, *error)

        return note


def breaks_close(what: str, patch: pytest.MonkeyPatch) -> None:
    """Have *what* raise when it is closed: sinks do so anyhow."""

    def close(self: LogReader) -> None:
        raise RuntimeError("this reader does not close")

    def close_store(self: SqliteStore) -> None:
        closed(self)
        raise RuntimeError("this store does not close")

    closed = SqliteStore.close
    if what == "reader":
        patch.setattr(LogReader, "close", close)
    elif what == "store":
        patch.setattr(SqliteStore, "close", close_store)


def fails_once(error: BaseException, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [error]

    def fail(*arguments: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments, **options)

    return fail


PLACES = {"claim": Leases, "_rewind": Agent}


@pytest.mark.parametrize("error", [LOST, NO_DISK], ids=["lost", "unavailable"])
@pytest.mark.parametrize(
    "what, where", [("sink", "claim"), ("store", "claim"), ("store", "_rewind"), ("reader", "_rewind")]
)
def test_an_agent_ends_by_what_went_wrong_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, where: str, error: Exception
) -> None:
    """What does not close on the way out of an opening that fails does not decide how the agent ends."""
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs))
        app.sink("same", lambda place: Late() if what == "sink" else world.sink("same", world.name)(place))

    heard = Heard(monkeypatch)
    owner: Any = PLACES[where]
    monkeypatch.setattr(owner, where, fails_once(error, getattr(owner, where)))
    with monkeypatch.context() as patch, World(tmp_path, declare).node():
        breaks_close(what, patch)
        until(lambda: heard.said)
        patch.undo()
    assert heard.said[0] == ("fenced", None) if error is LOST else heard.said[0] == ("failed", NO_DISK)


@pytest.mark.parametrize("first", ["fetch", "hand over"])
def test_a_partition_that_sleeps_is_given_up_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A reader that listens for it, and does not close, keeps its agent neither from telling what failed nor from
    handing over."""
    logs = Logs("a", waking=False)

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs))
        app.sink("same", world.sink("same", world.name))

    world, heard = World(tmp_path, declare), Heard(monkeypatch)
    with monkeypatch.context() as patch, world.node(sleep_after_s=0.01) as node:
        logs.add("a", 1)
        until(lambda: any(each.asleep for each in node.agents.values()))
        breaks_close("reader", patch)
        if first == "fetch":
            logs.broken["a"] = KeyError("gone")
            until(lambda: heard.said)
            patch.undo()
            assert heard.said[0] == ("failed", logs.broken.pop("a"))
            logs.add("a", 2)
            until(lambda: len(world.came["same", "a"]) == 2)
        else:
            node.stop()
            until(lambda: not node.agents)
    assert first == "fetch" or (not heard.said and node.has_left)
