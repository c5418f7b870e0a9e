"""What partitioned hosting promises, and which tests hold it to that: nothing on either list goes without.

Invariants are named, ``S4``, in the docstrings of the tests that show them; faults in the table below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
INVARIANTS = {
    "S1": "epochs of grants strictly increase, and one lease at most commits and emits",
    "S2": "without a session that expired no two nodes run one partition",
    "S3": "committed positions go back by a reset only",
    "S4": "every event is delivered",
    "S5": "committed is at most checkpointed, which is at most processed",
    "S6": "a child opens when its parents are terminated, and terminated is committed to the end",
    "S7": "positions do not go back, but where delivery resumes as it was asked to",
    "S8": "an orderly hand-over repeats nothing, a crash what was not committed",
    "S9": "a cache keeps within its limit and drops nothing unconfirmed",
    "S10": "a slow, stuck or raising consumer changes nothing for the others",
    "S11": "what comes after subscribing returned is delivered",
    "S12": "an event that is no longer there is an error, or is read elsewhere; never passed over",
    "S13": "assignments are total, disjoint, balanced, deterministic, and move least",
    "S14": "answers in any order merge to the newest",
    "S15": "no wake-up is lost",
    "S16": "no step of a migration loses a committed position",
    "S17": "a crash at any write of the offsets leaves what was acknowledged",
    "S18": "no epoch is used twice, whoever is lost",
    "S19": "who is fenced emits nothing",
    "S20": "what is read again is what was read before",
    "L1": "from every state all partitions can end",
    "L2": "what may be woken is due within its period",
    "L3": "balance comes soon, and lag falls",
    "L4": "who hangs while closing is fenced",
    "L5": "a poisoned event stops its own partition only",
}
FAULTS = {
    "an answer is dropped, repeated, delayed, overtaken": ["test_protocol.py::lose_answer", "test_protocol.py::answer"],
    "a living member expires": ["test_protocol.py::expire_the_others"],
    "SIGSTOP past the session, then SIGCONT": ["test_node_kill.py::test_stopped_at_a_named_point"],
    "a kill at each named probe": [
        "test_node_kill.py::test_killed_at_a_named_point",
        "test_node_kill.py::test_a_successor_killed_while_it_takes_over",
    ],
    "the loser of a race for the registry": ["test_protocol.py::race"],
    "the offset store is loading for a while": ["test_node_faults.py::test_positions_that_are_loading"],
    "a split while its parent is closing": ["test_node_faults.py::test_a_split_while_the_parent_is_given_back"],
    "a shard is removed": ["test_node_faults.py::test_a_partition_that_is_no_longer_listed"],
    "the clock jumps": ["test_protocol.py::set_clock"],
    "one instance id twice": ["test_node_kill.py::test_an_instance_started_twice"],
    "ten members in one second": ["test_node_kill.py::test_ten_join_in_one_second"],
}


@cache
def documented() -> dict[str, str]:
    """Return the docstrings of all tests, and of the rules and claims of state machines, by file::name."""
    return {name: text for path in sorted(TESTS.rglob("test_*.py")) for name, text in documented_in(path)}


def documented_in(path: Path) -> Iterator[tuple[str, str]]:
    text = path.read_text()
    if not re.search(r"\b[SL]\d", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield f"{path.name}::{node.name}", ast.get_docstring(node) or ""


@pytest.mark.parametrize("name", INVARIANTS)
def test_every_invariant_has_its_tests(name: str) -> None:
    """An invariant that no docstring names is one that nobody checks."""
    assert any(re.search(rf"\b{name}\b", text) for text in documented().values()), f"{name}: {INVARIANTS[name]}"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_its_tests(fault: str) -> None:
    """The tests that the table names are there."""
    missing = [each for each in FAULTS[fault] if each not in documented()]
    assert not missing, fault
