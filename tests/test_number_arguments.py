"""What is no number where seconds are wanted is refused when an operator is written, by the name of the argument."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from lanes import crossed
from test_skipped_selectors import built

from hosting import GeneratorSource
from reliable_rx import operators as ops

SPANS = ("sliding_window", "tumbling_window")
"""These take a time span as well."""


def numbers() -> Iterator[tuple[str, str]]:
    for name, make in sorted(vars(ops).items()):
        if name.startswith("_") or not callable(make) or inspect.isclass(make):
            continue
        yield from ((name, each) for each in inspect.signature(make).parameters if each.endswith("_s"))


@pytest.mark.parametrize(
    "number, wrong", crossed([*numbers()], ["3s", None, timedelta(seconds=3), [1]], nightly=1), ids=repr
)
def test_seconds_are_numbers(number: tuple[str, str], wrong: Any) -> None:
    """Whatever is no number raises one of Python's own errors, in a sentence that names the argument."""
    operator, argument = number
    default = inspect.signature(getattr(ops, operator)).parameters[argument].default
    if (wrong is None and default is None) or (isinstance(wrong, timedelta) and operator in SPANS):
        return
    given: Any = lambda *_: 1  # noqa: E731
    with pytest.raises((TypeError, ValueError)) as raised:
        built(operator, argument, wrong, given)
    assert argument in str(raised.value) or "a duration is a number of seconds" in str(raised.value)


@pytest.mark.parametrize("argument", ["count", "rate_per_s"])
def test_the_numbers_of_a_generator(argument: str) -> None:
    """The same for what is generated."""
    wrong: dict[str, Any] = {argument: "3"}
    with pytest.raises(TypeError, match=f"{argument} must be a .*number or None, got '3'"):
        GeneratorSource(lambda n, _: n, **wrong)
