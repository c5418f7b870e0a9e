"""What the testing kit needs besides the library is said where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from reliable_rx.testing import check_dot_pipe, check_query, hostile, recipes

DRAWING: dict[str, Callable[[], Any]] = {
    "check_query": lambda: check_query(lambda ops, rx, s: s),
    "check_dot_pipe": lambda: check_dot_pipe([lambda ops, rx, s: s, lambda ops, rx, before, s: before]),
    "recipes": recipes,
    "values": hostile.values,
    "errors": hostile.errors,
    "accumulators": hostile.accumulators,
    "names": hostile.names,
    "records": hostile.records,
}


@pytest.mark.parametrize("name", DRAWING)
def test_that_hypothesis_is_missing_is_said_with_the_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that draws says which package it needs and how to have it."""
    for each in [each for each in sys.modules if each == "hypothesis" or each.startswith("hypothesis.")]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ModuleNotFoundError, match="with Hypothesis, which is not installed: run pip"):
        DRAWING[name]()
