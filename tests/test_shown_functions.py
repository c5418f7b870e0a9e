"""A function within a parameter or a state is shown by module and line: where it lies in memory tells nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from hosting.cli import inspect_store
from reliable_rx.query import explain as drawing

FUNCTION = lambda n: n  # noqa: E731
PLACE = f"<{__name__}:{FUNCTION.__code__.co_firstlineno} <lambda>>"


@dataclass
class Holder:
    function: Any


HOLDERS: dict[str, Any] = {
    "itself": FUNCTION,
    "a tuple": (FUNCTION,),
    "a dict": {"a": FUNCTION},
    "a partial": partial(FUNCTION, 1),
    "a dataclass": Holder(FUNCTION),
    "a list in a tuple": ([1, FUNCTION],),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("shown", [inspect_store.shown, drawing.show])
def test_a_function_is_shown_by_its_place(holder: str, shown: Callable[[Any], str]) -> None:
    """A parameter of a drawing that is a function has its name alone; anything else tells module and line."""
    text = shown(HOLDERS[holder])
    assert "0x" not in text
    assert PLACE[:20] in text or (holder == "itself" and text == "λ")
