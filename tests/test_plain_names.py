"""A query with a part of plain RxPY is refused under the name that was written, which is the name here too."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from lanes import every
from reactivex import operators as plain

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from reliable_rx import QueryRefused
from reliable_rx import operators as ops
from reliable_rx.query.plain_names import name_of

SAME = {
    "do": "do_action",
    "single_or_default_async": "single_or_default",
    "tap": "do_action",
    "throttle_with_timeout": "debounce",
    "to_iterable": "to_list",
    "zip_with_list": "zip_with_iterable",
}
"""What RxPY makes of the same function under two names, so that either is the one that was written."""
CONNECTS = ("multicast", "partition", "partition_indexed", "publish", "publish_value", "ref_count", "replay")
"""What makes, or takes, something else than one observable."""
NO_OBSERVABLE = ("to_future", "to_marbles")


def is_kin(name: str, written: str) -> bool:
    return SAME.get(name, name) == SAME.get(written, written)


def filled(parameter: inspect.Parameter) -> Any:
    """Return an argument for *parameter* of an operator of RxPY."""
    declared = str(parameter.annotation)
    if parameter.name == "observer":
        return reactivex.Observer(print)
    if parameter.name in ("has_default", "inclusive"):
        return True
    if re.search("Callable|Mapper|Predicate|Accumulator|Comparer|Action", declared):
        return lambda *given: reactivex.never()
    return reactivex.never() if "Observable" in declared else 1


def calls_of(name: str) -> Iterator[Callable[[Any], Any]]:
    """Yield the operator with as few arguments as it takes, and with each of the others."""
    make: Any = getattr(plain, name)
    parameters = list(inspect.signature(make).parameters.values())
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    arguments = [filled(each) for each in needed]
    if name == "multicast":
        arguments = [reactivex.Subject()]
    yield make(*arguments)
    for each in parameters:
        if each not in needed and each.kind is not each.VAR_KEYWORD and each.name not in ("scheduler", "subject"):
            yield make(*arguments, **{each.name: filled(each)})


def refusal_of(query: Any) -> str:
    engine = QueryEngine()
    engine.declare("n", ["0"])
    with pytest.raises(QueryRefused) as caught:
        engine.creation("q", query, time=0.0)
    return str(caught.value)


WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "in a pipe": lambda op: rx.source("n").pipe(op),
    "with another of ours behind it": lambda op: rx.source("n").pipe(ops.map(str), op, ops.take(1)),
    "with another of RxPY's behind it": lambda op: rx.source("n").pipe(op, plain.min()),
    "in another pipe": lambda op: rx.source("n").pipe(reactivex.compose(op)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", every(8, sorted(set(plain.__all__) - set(NO_OBSERVABLE))))
def test_a_plain_operator_is_named_as_it_was_written(name: str, way: str) -> None:
    """The remedy names the operator that was written, which exists here, however it was given its arguments."""
    for operator in calls_of(name):
        if name in CONNECTS and way != "in a pipe":
            continue
        query = WAYS[way](operator if name != "ref_count" else reactivex.compose(plain.publish(), operator))
        for each in query if isinstance(query, list) else [query]:
            said = refusal_of(each)
            found = re.search(r"reactivex operator '(\w+)'.*use reliable_rx\.operators\.(\w+)", said)
            assert found, said
            assert found[1] == found[2]
            assert hasattr(ops, found[1]), said
            assert is_kin(found[1], name), said


@pytest.mark.parametrize("name", every(8, sorted(set(plain.__all__) - set(NO_OBSERVABLE))))
def test_no_name_is_made_up(name: str) -> None:
    """Where no pipe of ours has seen the operator, the refusal names one that exists here and was used, or none."""
    for operator in calls_of(name):
        for before in rx.source("n"), reactivex.never():
            try:
                made = operator(before)
            except AttributeError:
                assert name == "ref_count", "which takes a connectable one"
                continue
            for each in made if isinstance(made, list) else [made]:
                found = re.search(r"use reliable_rx\.(operators\.)?(\w+) ", refusal_of(rx.merge(each)))
                if found and found[1]:
                    assert is_kin(found[2], name) or found[2] in name, found[0]
                elif found:
                    assert hasattr(rx, found[2]), found[0]


@pytest.mark.parametrize("made", [plain.count(), plain.map, plain.map(str)])
def test_a_function_of_ones_own_has_the_name_of_no_operator(made: Any) -> None:
    """Whatever it closes over: what it does with that is not known."""
    assert name_of(lambda source: made(source)) is None
