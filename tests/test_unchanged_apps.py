"""An app that did not change is not edited: one identity in every process, one end under every interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from lanes import Lane, at_each_commit, at_night, crossed, every, left_to_commits
from test_interpreters import HERE, App, interpreters, links, others, visits

import reliable_rx as rx
from reliable_rx.query import live_ids

__all__ = ["links"]
PROCESS = Path(__file__).parent / "unchanged_process.py"
SEEDS = ("0", "1") if Lane.fast_alone else ("0", "1", "2")
ENDED = "begins afresh"
Visits = list[tuple[str, dict[str, Any]]]


def said(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module", params=[*map(at_each_commit, ("module", "script"))])
def by_seed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Give what several processes say, each with an order of sets and addresses of its own, one after the other."""
    folder = tmp_path_factory.mktemp("seeds")
    command = [sys.executable, str(PROCESS), str(folder), str(folder / "store"), request.param]
    return [said(command, {**os.environ, "PYTHONHASHSEED": seed}) for seed in SEEDS]


def test_each_kind_has_one_identity_in_every_process(by_seed: list[dict[str, Any]]) -> None:
    """No order of a set, address, hash or counter of a process is a part of what a query does."""
    first, *later = (each["names"] for each in by_seed)
    differing = {name for each in later for name in each if each[name] != first[name]}
    assert not differing


def test_a_source_is_known_alike_in_every_process(by_seed: list[dict[str, Any]]) -> None:
    """A start behind a crash is refused for an edited function only: each kind has one hash, also once it was used."""
    first = by_seed[0]["sources"][0]
    for said_of in (each for one in by_seed for each in one["sources"]):
        assert not {name for name in first if said_of[name] != first[name]}
    assert {name for name in first if not first[name][0]} == set()


def test_what_has_ended_stays_ended_at_each_start(by_seed: list[dict[str, Any]]) -> None:
    """Ends and streams are what they were, and no report tells of an edit."""
    first, *later = by_seed
    assert {status for status, _ in first["ends"].values()} == {"completed", "failed"}
    for each in later:
        assert (each["reports"], each["ends"], each["streams"]) == ({}, first["ends"], first["streams"])


@pytest.fixture(scope="module", params=[at_night("module"), at_each_commit("script")])
def by_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, links: Path) -> Visits:
    """Give what each interpreter says in turn, there and back, with a clean stop behind each."""
    folder = tmp_path_factory.mktemp("pythons")
    env = App(folder, links).env
    more = (str(PROCESS), str(folder), str(folder / "store"), request.param)
    return [(version, said([interpreters()[version], *more], env)) for version in visits(whole=not Lane.fast_alone)]


def test_what_has_ended_stays_ended_under_each_python(by_python: Visits) -> None:
    """Of what kind it is, by code or by name, makes no difference; whether it was edited is not claimed."""
    (_, first), *later = by_python
    for version, each in later:
        afresh = {name: report for name, report in each["reports"].items() if ENDED in report}
        assert not afresh, version
        assert (each["ends"], each["streams"]) == (first["ends"], first["streams"]), version


def identity(function: Any) -> str:
    query: Any = rx.source("n").map(function)
    return str(query.content_hash)


def hashed(fields: str, seed: int = 1 << 40, file: str = "<lib generated hash>") -> Any:
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(f"def __hash__(self):\n    return hash(({seed}, {fields}))", file, "exec"), space)
    return type("Hashed", (), {"__hash__": space["__hash__"], "__module__": __name__})


class Schema:
    """Stands for a library's object: what pickle would make of it is what it is known by."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


Schema.__module__ = "json.schema"
OF_A_LIBRARY: dict[str, tuple[Any, Any]] = {
    "fields of a generated hash": (hashed("self.a,"), hashed("self.b,")),
    "small numbers in a generated hash": (hashed("self.a, 1"), hashed("self.a, 2")),
    "numbers in a hash from a file": (hashed("self.a,", 1 << 40, "a.py"), hashed("self.a,", 1 << 41, "a.py")),
    "long numbers": (Schema(123456789012), Schema(123456789013)),
    "long numbers in texts": (Schema("shop.Order:123456789012"), Schema("shop.Order:123456789013")),
    "numbers in base 16": (Schema("0x00000000deadbeef"), Schema("0x00000000deadbeee")),
    "what is beside an address": (Schema(f"a.B:{id(Schema)}"), Schema(f"a.C:{id(Schema)}")),
    "texts that hold a set": (Schema("{a, b}"), Schema("{b, a}")),
    "namespaces": (Schema(vars(sys)), Schema(vars(os))),
    "what is like a namespace": (Schema({"__name__": "sys", "a": 1}), Schema({"__name__": "sys", "a": 2})),
}
"""Two that differ, though only in what stands where an address might, or a number that follows the hash seed."""


@pytest.mark.parametrize("pair, how", crossed(OF_A_LIBRARY, ["given", "named"], nth=5))
def test_what_is_no_address_tells_two_apart(pair: str, how: str) -> None:
    """Two different queries have two identities, also where an address in the same place would not be told."""

    def query(value: Any) -> str:
        space = {"__name__": __name__, "VALUE": value}
        source = "lambda x, v=VALUE: v" if how == "given" else "lambda x: VALUE"
        return identity(eval(source, space))

    one, other = OF_A_LIBRARY[pair]
    assert query(one) != query(other)
    assert query(one) == query(one)


def test_an_address_tells_nothing() -> None:
    """Two objects of a library that differ in an address only are the same in two processes, and so here."""
    one, other = type("One", (), {}), type("One", (), {})
    texts = [Schema({"ref": f"a.B:{id(each)}", id(each): hex(id(each))}) for each in (one, other)]
    hashes = [identity(partial(print, each)) for each in texts]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("at", every(30, range(0, 60, 2), commits=5))
def test_asking_for_addresses_spoils_no_tuple_of_another_thread(at: int) -> None:
    """Wherever it waits while it asks, a thread that makes a tuple out of a generator, as one that writes a checkpoint
    does, goes on meanwhile."""
    began, goes_on, steps = Event(), Event(), count()

    def numbers() -> Iterator[int]:
        yield 0
        began.set()
        goes_on.wait(60)
        yield from range(1, 30)

    def step(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code.co_filename == live_ids.__file__ and next(steps) == at:
            goes_on.set()
            wait([made], 60)
        return step

    before = sys.gettrace()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(lambda: tuple(numbers()))
        began.wait(60)
        sys.settrace(step)
        try:
            live_ids.LiveIds().has(1)
        finally:
            sys.settrace(before)
            goes_on.set()
        assert made.result() == tuple(range(30))
    assert next(steps) > 60


STEPPING = """
import json, sys
import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator, event_time
class Times:
    def __call__(self, x): return x * 2
class At:
    def __call__(self, x): return x * 2.0
with SqliteStore(sys.argv[1]) as store, QueryEvaluator(store, clock=lambda: 1000.0) as evaluator:
    count = int(sys.argv[2])
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.source("more", ListSource(list(range(count)), follow=True))
    evaluator.create("ended", rx.source("n").map(Times()).count())
    evaluator.create("timed", rx.source("n").map(Times()).count(), clock=event_time(At(), lateness_s=1.0))
    evaluator.create("running", rx.source("more").map(Times()).scan(lambda a, x: a + x, 0))
    evaluator.create("named", rx.source("more").map(Times()).scan(max))
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= 3 + count)
    reports = {name: str(each) for name, each in evaluator.statistics().reports.items()}
    last = {name: evaluator.query(name).emitted for name in evaluator.queries()}
    sys.stdout.write(json.dumps([reports, last]))
"""


@left_to_commits
@pytest.mark.parametrize("edited", ["x * 2.0", "x * 2\n"], ids=["a clock", "a function"])
def test_an_edit_is_told_again_once_another_python_has_taken_over(tmp_path: Path, links: Path, edited: str) -> None:
    """What a start under another Python has left as it ended is known by what it is called there from then on."""
    file, store = tmp_path / "stepping.py", str(tmp_path / "store")
    env = App(tmp_path, links).env

    def run(version: str, count: int, text: str = STEPPING) -> Any:
        file.write_text(text)
        return said([interpreters()[version], str(file), store, str(count)], env)

    run(HERE, 3)
    for version in others():
        reports, last = run(version, 5)
        assert {name: report for name, report in reports.items() if name != "running"} == {}
        assert (last["ended"], last["timed"], last["named"]) == (2, 2, 5)
    reports, last = run(version, 6, STEPPING.replace(edited, edited.replace("2", "3")))
    assert {name for name, report in reports.items() if ENDED in report} == (
        {"timed"} if edited == "x * 2.0" else {"ended", "timed"}
    )
    assert last["running"] == 6
