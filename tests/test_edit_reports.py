"""The edit report is true for every operator: what it calls kept goes on as if nothing had been edited.

The most common edit is that of a function before an operator with a state. So every case of the table is edited so, by
a function that does the same as the one before, after every turn: what comes out must be what comes out without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from every_case import CASES, lanes

import reliable_rx as rx
from hosting.standing import RUNNING
from reliable_rx import operators as ops
from reliable_rx.rows import Report
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.oracle import comparable

STREAMS = ("-0-1-2-0-1-(22)-0-1|", "--1-0-2--(01)---2-1-0---|")
HOSTABLE = [name for name, case in CASES.items() if case.hostable]
SAME = (lambda x: x, lambda x: x or x)


NOT_TOLD = {"shared, publish_value: in elements": "two readers of a shared part change places"}
EDITS: dict[str, Any] = {
    "a function": lambda source, odd: source.map(SAME[odd]),
    "an operator": lambda source, odd: source.filter(lambda x: True) if odd else source,
}


class EditedRun(HostedRun):
    """A run whose query is edited after every turn that leaves it running."""

    def __init__(self, build: Any, sources: int, *, edit: Any) -> None:
        streams = [parse_marbles(STREAMS[n % 2]) for n in range(sources)]
        super().__init__(lambda ops, rx, *s: self.made(), streams, 40.0, crash=False)
        self.case, self.edit = build, edit or EDITS["a function"]
        self.edits = edit is not None
        self.reports: list[Report] = []
        self.number = 0
        self.told = False

    def made(self) -> Any:
        sources = [self.edit(rx.source(f"s{n}"), self.number % 2) for n in range(len(self.streams))]
        return self.case(ops, rx, *sources)

    def take(self, turn: Any) -> None:
        super().take(turn)
        if self.edits and self.engine.standing["query"].status == RUNNING:
            self.number += 1
            before = stateful(self.engine.standing["query"])
            super().take(self.engine.creation("query", self.made(), time=self.engine.clock))
            report = self.engine.reports["query"]
            self.reports.append(report)
            self.told = self.told or bool(report.dropped or report.fresh)
            assert set(report.kept) >= before, f"{before - set(report.kept)} were kept, and the report does not say so"
            if self.engine.standing["query"].status == RUNNING:
                assert set(report.kept) <= before | stateful(self.engine.standing["query"]), str(report)


def stateful(instance: Any) -> set[str]:
    """Return the paths of all operators in *instance*, and inside it, that have a state now."""
    found = {node.path for node in instance.plan.slots if instance.states[node.slot] is not None}
    return found.union(*(stateful(child) for child in inside(instance)))


def inside(instance: Any) -> Iterator[Any]:
    for children in (instance.children or {}).values():
        yield from children.values()


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=2))
def test_an_edit_before_it_is_neither_felt_nor_misreported(name: str, edit: str) -> None:
    """What stands before an operator is edited: the operator goes on with its state, and the report says kept."""
    check_edits(name, edit)


def check_edits(name: str, edit: str) -> None:
    """*Raises* `AssertionError` for an edit that is felt, or a report that is not true."""
    case = CASES[name]
    plain = EditedRun(case.build, case.sources, edit=None).play()
    edited = EditedRun(case.build, case.sources, edit=EDITS[edit])
    same = [comparable(each) for each in edited.play()] == [comparable(each) for each in plain]
    assert same or edited.told or name in NOT_TOLD
    if edit == "a function" or "shared" not in name:
        assert same and not edited.told, [str(report) for report in edited.reports]
