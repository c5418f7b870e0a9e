"""Today's code opens the stores of each release, and goes on from them as that release would have gone on."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit
from releases.make import ALL, run

from checkpoint import SqliteStore
from checkpoint.format.envelope import FORMAT
from hosting.cli.command import main
from reliable_rx.errors import CheckpointRefused

RELEASES = sorted(path.parent for path in (Path(__file__).parent / "releases").glob("*/expected.json"))
HERE = ".".join(map(str, sys.version_info[:2]))


def unpacked(release: Path, end: str, folder: Path) -> Path:
    with tarfile.open(release / f"{end}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("end", ["stop", at_each_commit("kill")])
@pytest.mark.parametrize("release", RELEASES, ids=lambda each: each.name)
def test_a_store_of_a_release_is_gone_on_from(release: Path, end: str, tmp_path: Path) -> None:
    """What the release would have emitted is what comes, under the same ids, after a clean stop and behind a kill."""
    expected: dict[str, Any] = json.loads((release / "expected.json").read_text())
    if end == "kill" and expected["python"] != HERE:
        pytest.skip(f"behind a kill it needs Python {expected['python']}")
    said = run(release / "app.py", unpacked(release, end, tmp_path / "store"), ALL, "stop")
    for name, values in expected["streams"].items():
        if name != "functions" or expected["python"] == HERE:
            assert said["streams"][name] == values, name


@pytest.mark.parametrize("older", range(1, FORMAT))
def test_a_store_of_an_older_format_is_refused(older: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its version, and not read as what it may be today: so is it by a repair, which finds no damage in it."""
    with tarfile.open(Path(__file__).parent / "releases" / f"format_{older}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if "sqlite" in each.name}
    with pytest.raises(CheckpointRefused, match=rf"older format {older}, .* \(it reads {FORMAT}\): use"):
        SqliteStore(tmp_path)
    assert main(["store", "repair", str(tmp_path), "--yes"]) != 0
    assert f"older format {older}" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if "sqlite" in each.name} == before


def test_there_is_one() -> None:
    """The release at work has its stores too: ``python tests/releases/make.py`` makes them."""
    assert RELEASES
