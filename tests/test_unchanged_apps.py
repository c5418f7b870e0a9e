"""An app that did not change is not edited: one identity in every process, one end under every interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_interpreters import HERE, App, interpreters, links, others

__all__ = ["links"]
PROCESS = Path(__file__).parent / "unchanged_process.py"
SEEDS = ("0", "1", "2")
ENDED = "begins afresh"
Visits = list[tuple[str, dict[str, Any]]]


def said(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module", params=["module", "script"])
def by_seed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Give what three processes say, each with an order of sets and addresses of its own, one after the other."""
    folder = tmp_path_factory.mktemp("seeds")
    command = [sys.executable, str(PROCESS), str(folder), str(folder / "store"), request.param]
    return [said(command, {**os.environ, "PYTHONHASHSEED": seed}) for seed in SEEDS]


def test_each_kind_has_one_identity_in_every_process(by_seed: list[dict[str, Any]]) -> None:
    """No order of a set, address, hash or counter of a process is a part of what a query does."""
    first, *later = (each["names"] for each in by_seed)
    differing = {name for each in later for name in each if each[name] != first[name]}
    assert not differing


def test_what_has_ended_stays_ended_at_each_start(by_seed: list[dict[str, Any]]) -> None:
    """Ends and streams are what they were, and no report tells of an edit."""
    first, *later = by_seed
    assert {status for status, _ in first["ends"].values()} == {"completed", "failed"}
    for each in later:
        assert (each["reports"], each["ends"], each["streams"]) == ({}, first["ends"], first["streams"])


@pytest.fixture(scope="module", params=["module", "script"])
def by_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, links: Path) -> Visits:
    """Give what each interpreter says in turn, there and back, with a clean stop behind each."""
    folder = tmp_path_factory.mktemp("pythons")
    env = App(folder, links).env
    more = (str(PROCESS), str(folder), str(folder / "store"), request.param)
    return [(version, said([interpreters()[version], *more], env)) for version in (HERE, *others(), HERE, HERE)]


def test_what_has_ended_stays_ended_under_each_python(by_python: Visits) -> None:
    """Of what kind it is, by code or by name, makes no difference; whether it was edited is not claimed."""
    (_, first), *later = by_python
    for version, each in later:
        afresh = {name: report for name, report in each["reports"].items() if ENDED in report}
        assert not afresh, version
        assert (each["ends"], each["streams"]) == (first["ends"], first["streams"]), version
