"""Code that a source's functions reach only once the process has read something: an app that never changes is read on.

A process is played by modules that are imported anew. The plugin comes with the first record that is read, so what is
opened later in a process, or started again in it, reaches other code than what was opened first.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from lanes import every_of

from checkpoint import MemoryStore
from checkpoint.offsets.memory import MemoryOffsets
from hosting import App, FileSource, QueryEvaluator
from hosting.partitioned.beginning import begin
from hosting.partitioned.places import Place
from hosting.partitioned.sections import Section, sections_of
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from reliable_rx.errors import NondeterminismDetected

OPTIONS: dict[str, Any] = {"background": False, "checkpoint_interval_s": 1e9, "batch_events_max": 2}
COUNT = 12
DECODE = "import app_late\ndef decode(row): return row['n'] * 1\n"
LATE: dict[str, tuple[str, str]] = {
    "registry": ("BY = {}\ndef decode(row):\n    load()\n    return BY['n'](row)", "app_late.BY['n'] = decode"),
    "dispatch": (
        "import functools\n@functools.singledispatch\ndef of(row): raise TypeError(row)\n"
        "def decode(row):\n    load()\n    return of(row)",
        "app_late.of.register(dict, decode)",
    ),
    "import": ("def decode(row):\n    import plugin_late\n    return plugin_late.decode(row)", ""),
    "import of a name": ("def decode(row):\n    from plugin_late import decode as of\n    return of(row)", ""),
    "attribute": (
        "class Config:\n    decode = None\nCONFIG = Config()\n"
        "def decode(row):\n    load()\n    return CONFIG.decode(row)",
        "app_late.CONFIG.decode = decode",
    ),
    "attribute of a class": (
        "class Config:\n    decode = None\ndef decode(row):\n    load()\n    return Config.decode(row)",
        "app_late.Config.decode = staticmethod(decode)",
    ),
    "data": (
        "CONFIG = {}\ndef decode(row):\n    load()\n    return row['n'] * CONFIG['by']",
        "app_late.CONFIG['by'] = 1",
    ),
    "global": ("OF = None\ndef decode(row):\n    load()\n    return OF(row)", "app_late.OF = decode"),
    "function": (
        "def of(row): raise TypeError\ndef decode(row):\n    load()\n    return of(row)", "app_late.of = decode",
    ),
}  # fmt: skip
LOAD = "\ndef load(): importlib.import_module('plugin_late')\n"
APP = "\ndef parse(row): return {**row, 'n': decode(row)}\ndef key(row): return 'ab'[decode(row) % 2]\n"
USES: dict[str, list[str]] = {"parse": ["parse"], "key": ["partition_by"], "both": ["parse", "partition_by"]}
KINDS = [f"{kind}, {use}" for kind in LATE for use in USES]


class Processes:
    """Processes of one app, one after the other, over files or keys ``a`` and ``b``."""

    def __init__(self, folder: Path, kind: str, use: str) -> None:
        app, plugin = LATE[kind]
        (folder / "app_late.py").write_text("import importlib\n" + app + LOAD + APP)
        (folder / "plugin_late.py").write_text(DECODE + plugin + "\n")
        self.folder, self.use = folder, use
        for name in "ab":
            rows = [{"n": 2 * n + "ab".index(name)} for n in range(COUNT)]
            (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def begin(self) -> App:
        """Begin a process, and declare the app."""
        for name in ("app_late", "plugin_late"):
            sys.modules.pop(name, None)
        self.module: ModuleType = importlib.import_module("app_late")
        app = App()
        app.options.update(OPTIONS)  # type: ignore[typeddict-item]
        app.query("q", app.source("s", self.source()).map(lambda row: row["n"]))
        return app

    def source(self) -> FileSource:
        names = {"partition_by": "key"}
        given = {name: getattr(self.module, names.get(name, name)) for name in USES[self.use]}
        if "partition_by" in given:
            given["partitions"] = ["a", "b"]
        return FileSource([self.folder / "a", self.folder / "b"], format="jsonl", **given)


@pytest.fixture
def processes(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield Processes(tmp_path, *request.param.split(", "))
    for name in ("app_late", "plugin_late"):
        sys.modules.pop(name, None)


def values(evaluator: QueryEvaluator) -> list[int]:
    return [value for part in evaluator.stream("q").read(0, 100) for value in part.values]


def end(evaluator: QueryEvaluator, *, cleanly: bool) -> None:
    if cleanly:
        evaluator.checkpoint()
        evaluator.close()
    else:
        evaluator.flush()
        evaluator.abandon()


class Group:
    """The stores of a group, and one node after the other."""

    def __init__(self) -> None:
        self.offsets, self.stores = MemoryOffsets(lambda group, partition: None), dict[Partition, MemoryStore]()

    def node(self, app: App) -> Section:
        (section,) = sections_of(app)
        stores: Any = self
        begin(self.offsets, stores, "g", [section], "earliest")
        return section

    def opened(self) -> list[Partition]:
        return list(self.stores)

    def look(self, partition: Partition, *, claimed: bool = False) -> MemoryStore:
        self.stores[partition] = self.stores[partition].reopen() if partition in self.stores else MemoryStore()
        return self.stores[partition]

    def open(self, section: Section, name: str) -> QueryEvaluator:
        lease = Lease(Partition(section.name, name), MemberId("node"), Epoch(1))
        store, lend = self.look(lease.partition), cast("Any", None)
        return section.evaluator(Place("g", lease), store, [], starts={}, lend=lend)


@pytest.mark.parametrize(
    ("processes", "orders", "cleanly"),
    every_of(11, product(KINDS, ["abba", "abab", "baab"], [True, False])),
    indirect=["processes"],
)
def test_a_partition_that_is_opened_late_is_read_on(processes: Processes, orders: str, cleanly: bool) -> None:
    """Whichever is opened first in each of three processes, behind a stop and a kill, all comes and comes once."""
    group, upto = Group(), 0
    for order in (orders[:2], orders[2:], orders[:2]):
        section = group.node(processes.begin())
        upto += 4
        for name in order:
            evaluator = group.open(section, name)
            evaluator.run(until=lambda each=evaluator: each.query("q").emitted >= upto)
            assert not evaluator.query("q").error
            if upto >= COUNT:
                evaluator.run()
                assert values(evaluator) == [2 * n + "ab".index(name) for n in range(COUNT)]
            end(evaluator, cleanly=cleanly)


@pytest.mark.parametrize(
    ("processes", "ends", "is_made_anew"),
    every_of(11, product(KINDS, ["ss", "sk", "ks", "kk"], [True, False])),
    indirect=["processes"],
)
def test_an_app_that_starts_again_in_its_process_is_read_on(
    processes: Processes, ends: str, is_made_anew: bool
) -> None:
    """Behind a stop within the process, and at the start of the next one."""
    store, upto = MemoryStore(), 0
    for _ in range(2):
        app = processes.begin()
        for how in ends:
            if is_made_anew:
                app.sources["s"] = processes.source()
            store = store.reopen()
            evaluator = app.evaluator(store)
            upto += 4
            evaluator.run(until=lambda each=evaluator: each.query("q").emitted >= upto)
            assert not evaluator.query("q").error
            end(evaluator, cleanly=how == "s")
    with app.evaluator(store.reopen()) as evaluator:
        evaluator.run()
        assert sorted(values(evaluator)) == list(range(2 * COUNT))


def rerun(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, cell: str) -> QueryEvaluator:
    """Run an app of *text*, stop it cleanly, run *cell* in its module, and return what runs it then."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(LATE, "none", (text, ""))
    processes, store = Processes(folder, "none", "key"), MemoryStore()
    app = processes.begin()
    evaluator = app.evaluator(store)
    evaluator.run(until=lambda: evaluator.query("q").emitted >= 4)
    end(evaluator, cleanly=True)
    exec(cell, vars(processes.module))
    return app.evaluator(store.reopen())


@pytest.mark.parametrize("cell", ["def decode(row): return row['n'] // 2", "from operator import itemgetter as decode"])
def test_a_name_that_is_bound_anew_between_two_runs_is_an_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    """A cell is run again while nothing runs: another key is refused, also where the source is the same object."""
    again = rerun(tmp_path, monkeypatch, "def decode(row): return row['n']", cell)
    with pytest.raises(NondeterminismDetected, match="does not count as it did: its partition_by"):
        again.start()
    again.abandon()


def test_what_changed_in_place_between_two_runs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been changed by what was read, or be an edit: the key and the name are told."""
    text = "BY = {'n': lambda row: row['n']}\ndef decode(row): return BY['n'](row)"
    again = rerun(tmp_path, monkeypatch, text, "BY['n'] = lambda row: row['n'] // 2")
    again.start()
    (told,) = again.warnings
    assert "its partition_by (app_late.key) holds or names '<lambda>()'" in told and "put the old value back" in told
    again.abandon()
