"""One run of an app in a process of its own, under whatever interpreter: ``interpreter_process.py STORE COUNT END``.

It hosts `queries` over the numbers below COUNT, takes all of them, and ends as END says: ``stop`` (with a checkpoint)
or ``kill`` (everything is in the journal). With ``made`` behind it, it also creates a query once it runs; with
``without=NAME,NAME`` it does not declare these. It writes what the streams hold as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx.errors import ReliableRxError

RATE = 3


def rated(n: int) -> int:
    return n * RATE


def add_second(total: int, pair: tuple[int, int]) -> int:
    return total + pair[1]


class Rule:
    """A rule out of a configuration, which is compiled once."""

    def __init__(self, text: str) -> None:
        self.code = compile(text, "<rule>", "eval")

    def __call__(self, x: Any) -> Any:
        return eval(self.code, {"x": x})


class Odd(Exception):
    """An error that holds code."""


def odd(x: int) -> int:
    if x == 5:
        error = Odd("odd")
        error.code = compile("[y for y in [x]]", "<rule>", "eval")  # type: ignore[attr-defined]
        raise error
    return x


def last_rule(rule: Rule | None, x: int) -> Rule:
    return Rule(f"[y * {x} for y in [x]][0]")


def queries() -> dict[str, Any]:
    """Return one query for each way in which functions and states get into a store."""
    n: Any = rx.source("n")
    return {
        "map": n.map(lambda x: x * 2),
        "scan": n.map(lambda x: rated(x) + 1).scan(lambda a, x: a + x, 0),
        "named": n.map(rated).filter(bool),
        "plain": n.count(),
        "groups": n.group_by(lambda x: x % 3).flat_map(lambda g: g.map(lambda x: (g.key, x)).scan(add_second, 0)),
        "windows": n.window_with_count(4).flat_map(lambda w: w.to_list()),
        "inner": n.flat_map(lambda x: rx.source("n").take(2).map(lambda y: (x, y))).take(40),
        "pairs": n.pairwise().map(lambda p: [p[1], p[0]]),
        "functions": n.scan(lambda make, x: lambda y: y + x, None).map(lambda f: f(1)),
        "ruled": n.map(Rule("[y * 2 for y in [x]][0]")).scan(lambda a, x: a + x, 0),
        "evaluated": n.map(lambda x: {"x": x}).map(partial(eval, compile("[y * 2 for y in [x]][0]", "<rule>", "eval"))),
        "rules": n.scan(last_rule, None).map(lambda rule: rule(2)),
        "odd": n.map(odd),
        "failed": n.map(lambda x: 1 // (x - 5)),
        "skipping": n.map(lambda x: 7 // (x % 4)),
        "read": rx.source("scan").map(lambda x: -x),
        "taken": n.map(lambda x: x + 7).take(3),
        "summed": rx.source("taken").map(lambda x: x).sum(),
    }


def evaluator_of(store: str, count: int, *, undeclared: bool, without: Collection[str] = ()) -> QueryEvaluator:
    evaluator = QueryEvaluator(SqliteStore(store), checkpoint_interval_s=1e9, clock=lambda: 1000.0)
    evaluator.source("n", ListSource(list(range(count)), follow=True))
    evaluator.source("at", ListSource([{"at": float(i)} for i in range(count)], follow=True))
    for name, query in queries().items():
        if name in without:
            continue
        evaluator.create(name, query, policy="skip" if name == "skipping" else "fail")
    at: Any = rx.source("at")
    timed = at.buffer_with_time(4.0).map(lambda b: [each["at"] for each in b])
    shared = event_time(lambda event: event["at"], lateness_s=2.0)
    for name, query in (("timed", timed), ("timed_too", at.map(lambda event: event["at"]))):
        if name not in without:
            evaluator.create(name, query, clock=shared)
    if "ruled_time" not in without:
        clock = event_time(Rule("[y['at'] for y in [x]][0]"), lateness_s=1.0)
        evaluator.create("ruled_time", at.map(lambda event: event["at"]), clock=clock)
    if undeclared:
        evaluator.start()
        if "made" not in evaluator.queries():
            evaluator.create("made", rx.source("n").map(lambda x: x + 0.5).scan(lambda a, x: a + x))
    return evaluator


def held(evaluator: QueryEvaluator) -> dict[str, Any]:
    names = [*queries(), "timed", "timed_too", "ruled_time", "made"]
    found: dict[str, Any] = {}
    for name in names:
        try:
            stream = evaluator.stream(name)
        except KeyError:
            continue
        parts = list(stream.read(stream.first, 10_000))
        found[name] = [[part.first + i, value] for part in parts for i, value in enumerate(part.values)]
    return found


def end_of(evaluator: QueryEvaluator, name: str) -> list[Any]:
    figures = evaluator.query(name)
    return [figures.status, figures.error, str(figures.failed_at), bool(figures.trace), figures.skipped]


def main(store: str, count: str, end: str, *more: str) -> None:
    try:
        without = [name for each in more for name in each.removeprefix("without=").split(",") if "=" in each]
        evaluator = evaluator_of(store, int(count), undeclared="made" in more, without=without)
        evaluator.start()
        events = 2 * int(count)
        evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= events)
    except ReliableRxError as error:
        sys.stdout.write(json.dumps({"refused": type(error).__name__, "message": error.message}))
        sys.exit(3)
    said = {
        "streams": held(evaluator),
        "warnings": evaluator.warnings,
        "incidents": [str(each) for each in evaluator.incidents.open()],
        "ends": {name: end_of(evaluator, name) for name in evaluator.queries()},
        "status": {name: evaluator.query(name).status for name in evaluator.queries()},
        "reports": {name: str(report) for name, report in evaluator.engine.reports.items()},
    }
    sys.stdout.write(json.dumps(said, default=str))
    sys.stdout.flush()
    if end == "kill":
        os._exit(9)
    evaluator.checkpoint()
    evaluator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
