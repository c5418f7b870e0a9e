"""Who looks for an operator under the name that another library gives it is told what it is called here."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hosting
import reliable_rx as rx
from reliable_rx.query.other_names import ELSEWHERE, table

NAMES = [(name, here) for here, others in ELSEWHERE.items() for names in others.values() for name in names]
PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "choose-operators.md"


@pytest.mark.parametrize("name, here", NAMES)
def test_a_name_from_elsewhere_leads_to_what_is_here(name: str, here: str) -> None:
    """As a method, an operator, and in other spellings; nothing that has the name here is hidden."""
    for owner in (rx.source("n"), rx.operators, rx):
        for spelt in (name, name[0].lower() + re.sub(r"_(\w)", lambda m: m[1].upper(), name)[1:]):
            if isinstance(vars(owner).get(spelt), ModuleType):
                continue  # a folder's file, which Python sets there
            with pytest.raises(AttributeError, match=re.escape(f"{spelt!r}: here it is {here}")):
                getattr(owner, spelt)


@pytest.mark.parametrize("here", ELSEWHERE)
def test_what_is_named_is_there(here: str) -> None:
    """Each operator and function in a hint exists, with the arguments by name that the hint has."""
    for name in re.findall(r"(\w+)\(", here):
        found: Any = getattr(rx.operators, name, None) if name in rx.operators.__all__ else None
        there = (getattr(rx, name, None) if name in rx.__all__ else None, getattr(hosting.QueryEvaluator, name, None))
        assert found or any(there) or hasattr(hosting, name), name


def test_the_page_has_the_table() -> None:
    """The how-to page shows the same table, line for line."""
    assert "\n".join(table()) + "\n" in PAGE.read_text()


@pytest.mark.parametrize("operator", ["window", "buffer"])
def test_a_number_of_seconds_is_no_boundary(operator: str) -> None:
    """`window(60)` is answered with the operators that take a size."""
    with pytest.raises(TypeError, match="for so many seconds, or"):
        getattr(rx.source("n"), operator)(60)


@pytest.mark.parametrize("name", ["flat_mapp", "no_such_thing_at_all", "_private"])
def test_other_names_are_answered_as_before(name: str) -> None:
    """By the nearest name, or by none."""
    with pytest.raises(AttributeError) as raised:
        getattr(rx.source("n"), name)
    assert "here it is" not in str(raised.value)
