"""What is told of a failed query names a policy only where a policy would have kept the query going."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import Limits

N = rx.source("n")
FEW = replace(Limits(), inner_max=2)


def locked(n: int) -> Any:
    """Return what does not pickle, of the third event."""
    return threading.Lock() if n == 2 else n


WAYS: dict[str, Callable[[], Any]] = {
    "a function raises": lambda: N.map(lambda n: 1 // (n - 2)),
    "a function raises behind a timer": lambda: N.delay(0.0).map(lambda n: 1 // (n - 2)),
    "a selector raises": lambda: N.flat_map(lambda n: rx.return_value(1 // (n - 2))),
    "an inner sequence fails": lambda: N.flat_map(
        lambda n: rx.throw(ValueError("x")) if n == 2 else rx.return_value(n)
    ),
    "it fails by itself": lambda: N.take(2).concat(rx.throw(ValueError("x"))),
    "at its creation": lambda: rx.defer(lambda scheduler: rx.throw(ValueError("x"))),
    "a raising defer": lambda: rx.defer(lambda scheduler: 1 // 0),  # type: ignore[arg-type,return-value]
    "tried in vain": lambda: N.map(lambda n: 1 // (n - 2)).retry(1),
    "one that another has caught": lambda: N.map(lambda n: 1 // (n - 2)).catch(lambda e, s: rx.throw(e)),
    "an output cannot be stored": lambda: N.map(locked),
    "a state cannot be stored": lambda: N.scan(lambda a, n: locked(2), 0).map(lambda lock: 1),
    "a value cannot be stored within it": lambda: N.map(locked).buffer_with_count(9).map(len),
    "too few": lambda: N.take(0).first(),
    "too many": lambda: N.single(),
    "a limit": lambda: N.flat_map(lambda n: rx.never()),
    "of a time that is none": lambda: N.flat_map(lambda n: rx.timer("x")),  # type: ignore[arg-type]
}
RAISED = [way for way in WAYS if way.startswith(("a function", "a selector"))]


def ran(query: Any, policy: Any) -> tuple[str, list[str]]:
    """Return how *query* ends under *policy*, and what is told of it."""
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(list(range(5)), follow=True))
        evaluator.create("q", query, policy=policy, limits=FEW)
        evaluator.run(
            until=lambda: sum(evaluator.statistics().positions.values()) >= 5 or bool(evaluator.query("q").error)
        )
        evaluator.checkpoint()
        evaluator.step()
        told = [each.message for each in evaluator.statistics().incidents if each.subject == "q"]
        return evaluator.query("q").status, told


@pytest.mark.parametrize("way", every(3, WAYS, commits=1))
def test_a_policy_is_named_where_it_would_have_helped(way: str) -> None:
    """A remedy that is told works: under it the same query does not fail; it is told where a function raises."""
    status, told = ran(WAYS[way](), "fail")
    assert status == "failed" and told, (status, told)
    helps = all(ran(WAYS[way](), policy)[0] != "failed" for policy in ("skip", "dead_letter"))
    named = "give it a policy" in told[0]
    assert named <= helps, told
    assert named or way not in RAISED, told
