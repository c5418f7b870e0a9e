"""Files that a program writes are not read by its own sources: outputs would come in as events, without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, JsonLinesSink, QueryEvaluator

FOUND = {
    "a pattern": ("*.jsonl", "out.jsonl"),
    "a pattern with a folder": ("*/*.jsonl", "sub/out.jsonl"),
    "folders below": ("**/*.jsonl", "sub/deep/out.jsonl"),
    "no folder between": ("**/*.jsonl", "out.jsonl"),
    "a class of letters": ("[n-p]*.jsonl", "out.jsonl"),
    "its own path": ("in.jsonl", "in.jsonl"),
    "by another way": ("sub/../*.jsonl", "out.jsonl"),
    "by a link": ("link/*.jsonl", "sub/out.jsonl"),
    "to a link": ("sub/*.jsonl", "link/out.jsonl"),
}
APART = {
    "another end": ("*.jsonl", "out.json"),
    "another folder": ("*.jsonl", "sub/out.jsonl"),
    "a folder less": ("*/*.jsonl", "out.jsonl"),
    "hidden": ("*.jsonl", ".out.jsonl"),
    "one file": ("in.jsonl", "out.jsonl"),
    "hidden below": ("**/*.jsonl", ".state/out.jsonl"),
    "one file with brackets": ("x[1].jsonl", "x1.jsonl"),
    "another class": ("[!o]*.jsonl", "out.jsonl"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / ".state").mkdir()
    for name in ("in.jsonl", "sub/two.jsonl", "n.jsonl", "x[1].jsonl"):
        (tmp_path / name).write_text("1\n2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(pattern: str, target: str, *, sink_first: bool) -> None:
    """Declare a source and a sink, and run them to their ends."""
    if "link" in pattern + target:
        os.symlink("sub", "link")
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        if sink_first:
            evaluator.sink("q", JsonLinesSink(target))
        evaluator.source("s", FileSource(pattern))
        evaluator.create("q", rx.source("s").map(str))
        if not sink_first:
            evaluator.sink("q", JsonLinesSink(target))
        evaluator.run(until=lambda: evaluator.stream("q").ended)


@pytest.mark.parametrize("sink_first", [True, False])
@pytest.mark.parametrize("pattern, target", FOUND.values(), ids=FOUND)
def test_what_is_written_is_not_read(folder: Path, pattern: str, target: str, sink_first: bool) -> None:
    """A sink whose file the source finds, or would once it is there, is refused by name, whichever comes first."""
    told = r"source 's' finds .*, which the sink of stream 'q' writes.*rx\.source\('q'\)"
    with pytest.raises(ValueError, match=told):
        declare(pattern, target, sink_first=sink_first)
    assert not (folder / "out.jsonl").exists()


@pytest.mark.parametrize("pattern, target", APART.values(), ids=APART)
def test_what_is_apart_is_written(folder: Path, pattern: str, target: str) -> None:
    """A sink whose file the source does not find is taken, and the next start finds the same files."""
    declare(pattern, target, sink_first=False)
    found = FileSource(pattern).paths
    assert (folder / target).read_text() and (folder / target) not in found
