"""What a query does has a name also where it is made of builtins."""

from __future__ import annotations

import operator
import textwrap

import pytest

import reliable_rx as rx
from hosting.engine.engine import QueryEngine


@pytest.mark.parametrize("function", [str.upper, len, "a b".split, operator.itemgetter(0), str])
def test_builtins_are_functions_like_others(function: object) -> None:
    """Methods of builtin types, builtin functions and classes can be hosted and hashed; two of them differ."""
    query = rx.source("n").map(function)  # type: ignore[arg-type]
    assert query.content_hash == rx.source("n").map(function).content_hash  # type: ignore[arg-type]
    assert query.content_hash != rx.source("n").map(str.lower).content_hash
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.creation("q", query, time=0.0)


def test_a_function_of_a_library_is_known_by_its_module_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by its code, which is another one in each release, and in each Python: a query would count as edited."""
    before = rx.source("n").map(textwrap.dedent).content_hash
    monkeypatch.setattr(textwrap.dedent, "__code__", (lambda text: text).__code__)
    assert rx.source("n").map(textwrap.dedent).content_hash == before
