"""What looks at a store says of a damaged write-ahead log what its start would say, and changes no file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from killed_store import damaged

import reliable_rx as rx
from hosting import App, ListSource
from hosting.cli.command import main

APP = f"{__name__}:app"
PARTS = ("checkpoint", "journal", "log")
app = App()
app.source("n", ListSource(range(5)))
app.query("q", rx.source("n"))


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}


@pytest.mark.parametrize("part", PARTS)
def test_looking_says_what_a_start_says(tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`status`, `inspect`, `tail` and `run`; the refusal of a start is in `status` afterwards, as why it ended."""
    folder = tmp_path / "store"
    log = damaged(folder, part)
    before = contents(folder)
    refusal = re.compile(rf"{re.escape(str(log))}: it is damaged behind .*store repair")
    for code, *words in ((3, "status", "--store"), (1, "inspect"), (1, "tail")):
        named = ["q"] if words == ["tail"] else []
        assert main([*words, str(folder), *named]) == code
        told = capsys.readouterr()
        assert refusal.search(told.out + told.err), words
    assert contents(folder) == before
    assert main(["run", APP, "--store", str(folder)]) == 1
    assert refusal.search(capsys.readouterr().err)
    after = contents(folder)
    assert {name for name, data in after.items() if before.get(name) != data} <= {"status.json", "lock"}
    assert before.keys() <= after.keys()
    assert main(["status", "--store", str(folder)]) == 3
    told = capsys.readouterr()
    assert re.search(r"the last process ended: CheckpointRefused: .*it is damaged behind.*\nit is still so", told.out)
