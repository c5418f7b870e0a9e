"""What sources are defined by is known without an evaluator: the part is given what it needs, and nothing more."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from hosting import ListSource
from hosting.evaluator.source_definitions import SourceDefinitions
from hosting.reports.incidents import Incidents
from hosting.reports.start_warnings import StartWarnings
from reliable_rx.errors import NondeterminismDetected
from reliable_rx.reliable import Source


class Inputs:
    """One source, which is read nowhere."""

    def __init__(self, **sources: Source) -> None:
        self.sources = sources
        self.partitions: dict[tuple[str, str], Any] = {}

    def move(self, positions: Any, /) -> None:
        raise AssertionError("nothing is read")


def definitions_of(source: Source, *, strict: bool = True) -> tuple[SourceDefinitions, StartWarnings]:
    incidents = Incidents(clock=float)
    warnings = StartWarnings(incidents)
    made = SourceDefinitions(
        Inputs(n=source), warnings, incidents, strict=strict, repair="", inside=nullcontext(),
        close_group=lambda: None, checkpoint=lambda: None,
    )  # fmt: skip
    return made, warnings


def stored_by(source: Source) -> dict[str, Any]:
    """Return what a checkpoint has of *source*, of which ten events were read."""
    made, _ = definitions_of(source)
    made.recovered({"positions": {}, "ended": set()})
    return {"definitions": made.for_checkpoint(), "positions": {("n", "0"): 10}, "ended": set()}


def later(value: int) -> float:
    return value + 1.0


def test_turns_are_read_again_by_what_read_them() -> None:
    """The same source reads them; one with another function is refused, or told of where that is passed over."""
    stored = stored_by(ListSource([1, 2], timestamp=float))
    entries = [("events", "n", "0", 0, 2)]
    same, _ = definitions_of(ListSource([1, 2], timestamp=float))
    same.recovered(stored)
    same.check({}, entries, 1, 2)
    other, _ = definitions_of(ListSource([1, 2], timestamp=later))
    other.recovered(stored)
    with pytest.raises(NondeterminismDetected, match="source 'n' does not read as it did: its timestamp"):
        other.check({}, entries, 1, 2)
    lenient, warnings = definitions_of(ListSource([1, 2], timestamp=later), strict=False)
    lenient.recovered(stored)
    lenient.check({}, entries, 1, 2)
    assert len(warnings.lasting) == 1
    assert "they were read again with what it is now" in warnings[0]


def test_what_is_over_with_the_start_is_told_once() -> None:
    """It is among the warnings of the start, and not among those that last."""
    warnings = StartWarnings(Incidents(clock=float))
    warnings.append("lasts")
    warnings.tell("is over")
    assert (list(warnings), warnings.lasting) == (["lasts", "is over"], ["lasts"])
