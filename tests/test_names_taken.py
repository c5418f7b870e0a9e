"""A name of a store means one thing: what it has as a query is no source, and what it has read is no query.

An app that is edited may use a name for something else while the query, or the position, that had it goes on in the
store. Those that read the name would then have both, one behind the other or mixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from operator import add
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli, write

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import App, ListSource, QueryEvaluator
from hosting.partitioned.places import Place
from hosting.partitioned.sections import sections_of
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from hosting.sources.pushed import PushedStream
from reliable_rx.errors import CheckpointRefused

Declare = Callable[[App], object]
Host = Callable[[App, MemoryStore], QueryEvaluator]
RAW = [1, 2, 3, 4]


def is_query(policy: Any = "fail", function: Callable[[Any], Any] = lambda raw: raw) -> Declare:
    return lambda app: app.query("name", function(rx.source("raw")), policy=policy, scope="all")


def is_source(*, ends: bool = False) -> Declare:
    return lambda app: app.source("name", lambda: ListSource(RAW, follow=not ends))


def is_pushed(app: App) -> None:
    app.push("name")


def app_of(declare: Declare) -> App:
    """Return an app that has a *name*, which one of its queries reads."""
    app = App(checkpoint_interval_s=1e9)
    app.source("raw", lambda: ListSource(RAW, follow=True))
    declare(app)
    app.query("seen", rx.source("raw"), scope="all")
    app.query("total", rx.source("name").scan(lambda total, n: total + n, 0), scope="all")
    return app


def by_app(app: App, store: MemoryStore) -> QueryEvaluator:
    return app.evaluator(store)


def by_node(app: App, store: MemoryStore) -> QueryEvaluator:
    """Host as a node does what sees all partitions."""
    (section,) = sections_of(app)
    lease = Lease(Partition("*", "all"), MemberId("me"), Epoch(1))
    return section.evaluator(Place("g", lease), store, (), starts={}, lend=lambda task: task())


def by_calls(app: App, store: MemoryStore) -> QueryEvaluator:
    """Host as a program does that creates its queries when all runs."""
    bare = App(checkpoint_interval_s=1e9)
    bare.sources, bare.pushed = app.sources, app.pushed
    with ExitStack() as undo:
        evaluator = undo.enter_context(closing(bare.evaluator(store)))
        evaluator.start()
        for name, each in app.queries.items():
            evaluator.create(name, each.query, policy=each.policy)
        undo.pop_all()
        return evaluator


def take_all(evaluator: QueryEvaluator) -> list[Any]:
    """Push if need be, and take all that there is; return what has come of the name."""
    stream = evaluator.intake.sources.get("name")
    if isinstance(stream, PushedStream):
        stream.push(RAW)
    evaluator.start()
    while evaluator.step():
        evaluator.flush()
    return [value for part in evaluator.stream("total").read(0, 100) for value in part.values]


def hosted(host: Host, declare: Declare, store: MemoryStore, *, cleanly: bool = True) -> list[Any]:
    with closing(host(app_of(declare), store)) as evaluator:
        found = take_all(evaluator)
        if cleanly:
            evaluator.checkpoint()
        return found


HOSTS = {"an app": by_app, "a node": by_node, "calls": by_calls}
QUERIES = {
    "runs": is_query(),
    "has failed": is_query(function=lambda raw: raw.map(lambda n: 6 // (n - 3))),
    "has completed": is_query(function=lambda raw: raw.take(2)),
    "has dead letters": is_query("dead_letter", lambda raw: raw.map(lambda n: 6 // (n - 3))),
}
INPUTS = {"source": is_source(), "ended source": is_source(ends=True), "pushed input": is_pushed}


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("given", INPUTS)
def test_the_name_of_a_stored_query_is_no_input(given: str, kind: str, host: str, cleanly: bool) -> None:
    """However the query stands, it is refused at the start with what to do, and the store goes on as it was."""
    if host == "a node" and given == "pushed input":
        return  # which nodes do not have
    store, stored = MemoryStore(), QUERIES[kind]
    before = hosted(HOSTS[host], stored, store, cleanly=cleanly)
    turns = store.journal.last_turn
    with pytest.raises(CheckpointRefused, match=r"'name' is taken by a stored query.*dispose of it.*otherwise"):
        hosted(HOSTS[host], INPUTS[given], store)
    assert store.journal.last_turn == turns
    assert hosted(HOSTS[host], stored, store) == before


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", INPUTS)
def test_the_name_of_what_was_read_is_no_query(kind: str, host: str) -> None:
    """What was read under a name keeps it: a query is refused with what to do, and the store goes on as it was."""
    if host == "a node" and kind == "pushed input":
        return
    store, stored = MemoryStore(), INPUTS[kind]
    before = hosted(HOSTS[host], stored, store)
    turns = store.journal.last_turn
    with pytest.raises(CheckpointRefused, match=r"'name' is taken by a source.*call the query otherwise"):
        hosted(HOSTS[host], is_query(), store)
    assert store.journal.last_turn == turns
    assert hosted(HOSTS[host], stored, store)[: len(before)] == before


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_means_nothing_any_more_is_free(host: str) -> None:
    """A query that was disposed of leaves its name to a source, and a source of which nothing was read to a query."""
    store = MemoryStore()
    hosted(HOSTS[host], lambda app: app.source("name", lambda: ListSource([], follow=True)), store)
    assert hosted(HOSTS[host], is_query(), store) == []
    with closing(by_calls(app_of(is_query()), store)) as evaluator:
        evaluator.dispose("total")
        evaluator.dispose("name")
        evaluator.checkpoint()
    assert hosted(HOSTS[host], is_source(), store) == [1, 3, 6, 10]


AS_SOURCE = """
from operator import add
from hosting import App, JsonLinesSink, ListSource
app = App()
raw = app.source("raw", lambda: ListSource([1, 2, 3]))
name = app.source("name", lambda: ListSource([70, 80]))
app.query("total", name.scan(add, 0))
app.sink("total", lambda: JsonLinesSink("total.jsonl"))
"""


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_the_command_that_is_named_frees_the_name(cleanly: bool, tmp_path: Path) -> None:
    """`run` is refused, and its sink gets nothing; `dispose`, given the app as it is, does what was said."""
    with SqliteStore(tmp_path / "s") as store, closing(QueryEvaluator(store, checkpoint_interval_s=1e9)) as evaluator:
        evaluator.source("raw", ListSource([1, 2, 3]))
        evaluator.create("name", rx.source("raw"))
        evaluator.create("total", rx.source("name").scan(add, 0))
        evaluator.run()
        if cleanly:
            evaluator.checkpoint()
    write(tmp_path, "app.py", AS_SOURCE)
    refused = cli("run", "app:app", "--store", "s", "--plain", cwd=tmp_path, code=1)
    assert "s name` on the stopped store" in refused.stderr
    assert not (tmp_path / "total.jsonl").exists() or not (tmp_path / "total.jsonl").read_text()
    for query in ("name", "total"):
        cli("dispose", "s", query, "--app", "app:app", "--yes", cwd=tmp_path)
    cli("run", "app:app", "--store", "s", "--plain", cwd=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "total.jsonl").read_text().splitlines()]
    assert [each["value"] for each in lines if "value" in each] == [1, 3, 6, 70, 150]
