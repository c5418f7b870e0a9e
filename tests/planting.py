"""Plants bugs where they fit: what is put in a function's place takes what the function takes.

The original's parameters change with the library. A plant that was not changed with them raises where its check calls
it, which is a failure that is found, though not the bug that it stands for; and where nothing calls it, its bug is not
there. So they are compared when it is planted.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any, NamedTuple

import pytest

TAKEN = {
    Parameter.VAR_POSITIONAL: (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL),
    Parameter.VAR_KEYWORD: (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD),
}
"""What a plant with ``*args`` or ``**named`` takes, whatever it is called."""
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class StalePlant(Exception):
    """A plant takes other parameters than what it replaces."""


class Planting:
    """The part of `pytest.MonkeyPatch` that plants use; it replaces functions by such as take the same."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def setattr(self, target: object, name: str, value: Any) -> None:
        """Replace an attribute.

        Raises:
            StalePlant: what is there is a function, and *value* takes other parameters, by name or kind.
        """
        wanted = taken_by(target, name)
        self.patch.setattr(target, name, value)
        given = taken_by(target, name)
        if wanted is None or given is None:
            return
        anyhow = [kind for each in given.parameters for kind in TAKEN.get(each.kind, ())]
        if wanted.shape(anyhow) != given.shape(anyhow):
            took = f"takes {wanted.shape(anyhow)}, and its plant {given.shape(anyhow)}"
            raise StalePlant(f"{name!r} of {target!r} {took}: give it the same")


class Takes(NamedTuple):
    """What a function takes, and how it is bound."""

    bound: str
    parameters: list[Parameter]

    def shape(self, anyhow: list[Any]) -> str:
        """Write down the names and kinds of parameters, but for the kinds that a plant takes *anyhow*."""
        left = [each for each in self.parameters if each.kind not in anyhow]
        positional = [written(each) for each in left if each.kind in POSITIONAL]
        others = sorted(f"{written(each)} ({each.kind.description})" for each in left if each.kind not in POSITIONAL)
        return f"{self.bound}({', '.join(positional + others)})"


def taken_by(target: object, name: str) -> Takes | None:
    """Return what a function takes; None where an attribute is no function, or a builtin that does not tell."""
    raw, function = inspect.getattr_static(target, name, None), getattr(target, name, None)
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return Takes(type(raw).__name__ if isinstance(raw, staticmethod | classmethod) else "", list(parameters.values()))


def written(parameter: Parameter) -> str:
    return parameter.name + "=" * (parameter.default is not parameter.empty)
