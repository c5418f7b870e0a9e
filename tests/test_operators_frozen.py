"""Operators are shared by all that run a plan: nobody sets a parameter again, in any way of running them."""

from __future__ import annotations

from typing import Any

import pytest
from every_case import CASES, lanes

from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.mapping import Map
from reliable_rx.testing import HOSTED, RUNNERS, parse_marbles


def only_once(self: Operator, name: str, value: Any) -> None:
    """What `dataclass(frozen=True)` would do, at a price that is too high where a selector makes operators."""
    if name in vars(self):
        raise AttributeError(f"{name} of {self.name} is set again")
    object.__setattr__(self, name, value)


@pytest.mark.parametrize("name", lanes(CASES, fast=1, every=4))
def test_nobody_sets_a_parameter_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Playing a stream through an operator leaves its parameters as they were made."""
    case = CASES[name]
    monkeypatch.setattr(Operator, "__setattr__", only_once)
    letters = [each if each.kind != "N" else each._replace(value=case.alphabet[0]) for each in parse_marbles("-aaa|")]
    streams = [letters] * case.sources
    for who in ("un-hosted", "hosted and recovered"):
        if case.hostable or who not in HOSTED:
            came = RUNNERS[who](case.build, streams, 9.0)
            assert not any("is set again" in str(each.value) for each in came if each.kind in "ER")


def test_a_parameter_that_is_set_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above sees what it looks for."""
    monkeypatch.setattr(Operator, "__setattr__", only_once)
    operator = Map(len)
    with pytest.raises(AttributeError, match="set again"):
        operator.mapper = max  # type: ignore[misc]
