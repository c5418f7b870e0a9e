"""An app whose store is damaged: what it had delivered is there again, or what is lost has been told."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from killed_store import killed

import reliable_rx as rx
from checkpoint import SqliteStore
from checkpoint.format.salvage import Unreadable
from checkpoint.store import Store, StoreReader
from hosting import App, JsonLinesSink, ListSource, SqliteTableSink
from hosting.cli.command import main
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused, PositionUnavailable

APP = f"{__name__}:app"
PUSHED, OLDER = 60, 35
"""How much is pushed in all, and which of it is the last that a copy of the store has, where it is in files."""
WORLDS = {"some": 25, "none": 10**9, "many": 4}
"""After how many pushes there is a checkpoint."""
STREAMS = ("total", "rare", "both", "first", "few")
ENDED = ("first", "few")
"""Those that ended before the first checkpoint: the turns left tell nothing of them."""
OTHER_NUMBERS: dict[str, Callable[[int], int]] = {
    "further": lambda number: number + 1000,
    "negative": lambda number: -number - 1,
    "doubled": lambda number: number * 2 + 1,
}
TOLD = re.compile("lost|given up|cannot be taken again|begin anew")
app = App()
Delivered = dict[str, dict[int, Any]]


@dataclass(frozen=True)
class Place:
    """Where the app's store is, and the *folder* of its sinks."""

    folder: Path
    opened: Callable[[], Store]
    looked_at: Callable[[], StoreReader]

    def work(self, checkpoint_every: int) -> None:
        """Make the store, and a file of what was delivered, in a process that is killed then."""

        def work() -> None:
            evaluator = hosting(self.folder).evaluator(self.opened())
            evaluator.start()
            for number in range(PUSHED):
                push(evaluator, range(number, number + 1), checkpoint_every=checkpoint_every)
                subscribe(evaluator.store, number)
                if number == OLDER and (self.folder / "store").exists():
                    shutil.copytree(self.folder / "store", self.folder / "older")
            (self.folder / "delivered").write_text(json.dumps(read(evaluator)))

        killed(work)

    def delivered(self) -> Delivered:
        stored = json.loads((self.folder / "delivered").read_text())
        found = {name: {int(n): plain(each) for n, each in values.items()} for name, values in stored.items()}
        assert len(found["total"]) == PUSHED
        return found


def in_files(folder: Path) -> Place:
    store = folder / "store"
    return Place(folder, lambda: SqliteStore(store), lambda: SqliteStore.read_only(store))


class World:
    """The store of a process that was killed, and what it had delivered."""

    def __init__(self, folder: Path, checkpoint_every: int) -> None:
        self.folder = folder
        folder.mkdir()
        place = in_files(folder)
        place.work(checkpoint_every)
        self.delivered = place.delivered()

    def log(self, part: str) -> bytes:
        return (self.folder / "store" / f"{part}.sqlite-wal").read_bytes()

    def copy(self, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder, target)
        return target


def total(before: tuple[int, int, str], value: tuple[int, str]) -> tuple[int, int, str]:
    """Count and add, with something that takes room."""
    return before[0] + 1, before[1] + value[0], value[1][:2000]


def is_rare(value: Any) -> bool:
    return bool(value[0] % 20 == 3)


def number_of(value: Any) -> int:
    return int(value[0])


def hosting(folder: Path) -> App:
    global app
    app = App(checkpoint_interval_s=1e9)
    app.push("n")
    app.push("k")
    app.source("m", ListSource(list(range(1000)), follow=True))
    numbers: rx.Query[Any] = rx.source("n")
    app.query("total", numbers.pipe(ops.scan(total, (0, 0, ""))))
    app.query("rare", numbers.pipe(ops.filter(is_rare)))
    app.query("both", numbers.pipe(ops.map(number_of), ops.merge(rx.source("m"), rx.source("k"))))
    for name in ENDED:
        app.query(name, numbers.pipe(ops.map(number_of), ops.take(3)))
    app.sink("first", JsonLinesSink(folder / "first.jsonl"))
    app.sink("total", JsonLinesSink(folder / "total.jsonl"))
    app.sink("both", SqliteTableSink(folder / "both.db", "both"), on_error="skip")  # behind until a checkpoint
    return app


def read(evaluator: Any) -> Delivered:
    """Return what a reader finds in each stream; what is gone is refused to it, and not passed over."""
    found: Delivered = {}
    for name in STREAMS:
        stream = evaluator.stream(name)
        found[name] = {}
        at = stream.first
        if at:
            with pytest.raises(PositionUnavailable):
                list(stream.read(0, 1))
        while at < stream.visible:
            for part in stream.read(at, 1000):
                found[name].update(enumerate(part.values, part.first))
                at = part.next
    return found


def push(evaluator: Any, numbers: range, *, checkpoint_every: int) -> None:
    pushed = evaluator.intake.sources["n"]
    for number in numbers:
        for _ in range(number % 2):
            evaluator.intake.sources["k"].on_next(number)
        pushed.on_next((number, "x" * (number * 97 % 3000)))
        evaluator.step()
        evaluator.flush()
        if number % checkpoint_every == checkpoint_every - 1:
            evaluator.checkpoint()
    evaluator.flush()
    evaluator.step()


SUBSCRIBED = {"steady": PUSHED - 1, "again": 4}


def subscribe(store: Any, number: int) -> None:
    """Move the durable subscribers behind each push: one goes on, one begins again, one is let go."""
    store.acknowledge("total", "steady", number)
    if number == PUSHED // 2:
        store.acknowledge("total", "again", number - 3)
        store.acknowledge("total", "gone", number - 3)
    if number == PUSHED * 3 // 4:
        for name in ("again", "gone"):
            store.release("total", name)
        store.acknowledge("total", "again", SUBSCRIBED["again"])


def plain(value: Any) -> Any:
    return value if isinstance(value, Unreadable) else json.loads(json.dumps(value))


def start(place: Place, accepted: list[int]) -> Delivered:
    """Run the app for a while, and return what its readers find; *accepted* grows by what is pushed."""
    declared = hosting(place.folder)
    with place.opened() as store, closing(declared.evaluator(store)) as evaluator:
        evaluator.start()
        check_incidents(evaluator)
        for number in range(len(accepted), len(accepted) + 5):
            push(evaluator, range(number, number + 1), checkpoint_every=10**9)
            accepted.append(number)
        evaluator.checkpoint()
        check_incidents(evaluator)
        return read(evaluator)


def check_incidents(evaluator: Any) -> None:
    """Raise what is told of the store."""
    for each in evaluator.incidents.open():
        if "store repair" in each.message:
            raise CheckpointRefused(each.message, what="a sink reads it", where="store")
        is_skipping = each.kind == "sink skips" and each.subject.startswith("both")
        assert each.kind == "holder" or is_skipping, each  # the sink has moved


def check(delivered: Delivered, place: Place, capsys: pytest.CaptureFixture[str], *, subscribers: bool = True) -> str:
    """Start the app as its user would, following what is said; return what was told of losses."""
    told, found, accepted = started(place, capsys)
    if subscribers:
        check_subscribers(place, told)
    check_found(delivered, place, told, found)
    count, summed, _ = found["total"][max(found["total"])]
    if (count, summed) != (len(accepted), sum(accepted)):
        assert TOLD.search(told), (count, summed, told)
    return told


def started(place: Place, capsys: pytest.CaptureFixture[str]) -> tuple[str, Delivered, list[int]]:
    """Start the app as its user would; return what was told, what readers find, and all that has been pushed."""
    told, accepted = "", list(range(PUSHED))
    capsys.readouterr()
    try:
        found = start(place, accepted)
    except (CheckpointRefused, PositionUnavailable) as error:
        command = re.search(r"`reliable-rx (store repair [^`]*)`", error.message)
        assert command is not None, error.message
        words = [APP if each == "MODULE:APP" else each for each in shlex.split(command[1])]
        code = main([*words, "--yes"])
        told = "".join(capsys.readouterr())
        assert code == 0, told
        found = start(place, accepted)
    return told, found, accepted


def check_subscribers(place: Place, told: str) -> None:
    """None is further than it was; one that begins again, is not there, or had been let go has been named."""
    with closing(place.looked_at()) as store:
        found = store.acknowledged("total")
    for name in found.keys() | SUBSCRIBED.keys():
        assert found.get(name, -1) <= SUBSCRIBED.get(name, -1), (found, told)
        if found.get(name, -1) == -1 or name not in SUBSCRIBED:
            assert f"{name!r} of stream 'total'" in told or (name not in found and "not named here" in told), told


def check_found(delivered: Delivered, place: Place, told: str, found: Delivered) -> None:
    """No id has another value than a reader or a sink had."""
    for name, values in found.items():
        before = delivered[name]
        for n, value in values.items():
            assert n not in before or isinstance(value, Unreadable) or plain(value) == before[n], (name, n, told)
        if values or name not in ENDED:  # of an ended one nothing comes again
            assert max(values) >= max(before) + (name not in ENDED), (name, told)
    n = 0
    for line in [json.loads(each) for each in (place.folder / "total.jsonl").read_text().splitlines()]:
        assert line["id"] == n, told
        n = line.get("until", n + 1)
        if "skipped" in line:
            assert TOLD.search(told), line
        elif line["id"] in delivered["total"]:
            assert line["value"] == delivered["total"][line["id"]], (n, told)
