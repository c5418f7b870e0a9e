"""The tests are tested: what is to be refused early, and is not, is found by the table that it stands in.

Each is a defect that was there once: a store that never opened again, a turn without an end, a mistake that came late.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import test_beginners
import test_names
import test_query_size
from planted_checks import Plants

import hosting.admission.arguments
import hosting.engine.cycles
import hosting.engine.plans
import reliable_rx.names
import reliable_rx.operators.contract.arguments


def names(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Names that no store can hold."""
    test_names.test_what_cannot_be_stored_is_no_name("rx.source")


def rings(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Queries that read each other."""
    test_names.test_a_ring_is_refused_when_it_is_declared("two")


def sizes(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Queries that are too large."""
    test_query_size.test_what_is_too_large_is_refused_when_it_is_created("a pipe")


def mistakes(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Mistakes of beginners."""
    for program, kind, words in test_beginners.MISTAKES:
        if "debounce" in program or "has started" in words:
            test_beginners.test_a_mistake_is_one_sentence(program, kind, words, folder, patch)


CHECKS = {"names": names, "rings": rings, "sizes": sizes, "mistakes": mistakes}
planted = Plants(CHECKS, raises=(Exception, pytest.fail.Exception))


@planted("names")
def names_that_are_taken_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.names, "_faults", lambda kind, name: iter(()))


@planted("rings")
def rings_that_nobody_looks_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.cycles, "refuse_cycle", lambda name, sources, reads: None)


@planted("sizes")
def queries_of_any_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.engine.plans, "check_size", lambda node: None)


@planted("mistakes")
def durations_that_are_read_when_they_are_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reliable_rx.operators.contract.arguments, "fault_of_duration", lambda name, value: None)


@planted("mistakes")
def declarations_that_come_too_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hosting.admission.arguments, "check_before_start", lambda what, *, started, closed: None)


@pytest.mark.parametrize("name", planted.names())
@pytest.mark.leaves
def test_a_planted_bug_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table named beside the bug fails under it."""
    planted.must_be_found(name, monkeypatch, tmp_path, monkeypatch)


@pytest.mark.parametrize("check", CHECKS)
def test_passes_without_a_bug(check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds the bugs finds nothing where there is none."""
    CHECKS[check](tmp_path, monkeypatch)
