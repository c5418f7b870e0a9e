"""Files of sources that are moved, cut, renamed or are no files: each is told of by name, and stops nothing else."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, QueryEvaluator
from hosting.sources.polling import PolledSource, Want
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Source


def evaluator_of(source: Source, store: MemoryStore | None = None) -> QueryEvaluator:
    evaluator = QueryEvaluator(store or MemoryStore(), background=False)
    evaluator.source("n", source)
    evaluator.create("q", rx.source("n").map(lambda n: n))
    return evaluator


def told(evaluator: QueryEvaluator, kind: str) -> list[str]:
    return [each.message for each in evaluator.statistics().incidents if each.kind == kind]


def seen(evaluator: QueryEvaluator) -> list[object]:
    return [value for part in evaluator.stream("q").read(0, 1000) for value in part.values]


@pytest.mark.parametrize("wrap", [lambda source: source, lambda source: PolledSource(source, Want())])
def test_a_followed_file_that_is_moved_is_waited_for_in_public(
    tmp_path: Path, wrap: Callable[[Source], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an incident that names the file, until it is back and is read on."""
    monkeypatch.setattr("hosting.sources.paths.LOOK_S", 0.05)
    path, away = tmp_path / "g.jsonl", tmp_path / "g.old"
    path.write_text("1\n2\n")
    with evaluator_of(wrap(FileSource(path, follow=True))) as evaluator:
        evaluator.start()
        until(lambda: evaluator.step() or seen(evaluator) == [1, 2])
        path.rename(away)

        def is_told() -> bool:
            evaluator.step()
            return bool(told(evaluator, "source waits"))

        until(is_told)
        (message,) = told(evaluator, "source waits")
        assert str(path) in message
        away.rename(path)
        with path.open("a") as file:
            file.write("3\n")
        until(lambda: not is_told() and seen(evaluator) == [1, 2, 3])


def test_a_file_that_shrank_is_said_to_have_shrunk(tmp_path: Path) -> None:
    """What was cut is not called appended."""
    path, store = tmp_path / "g.jsonl", MemoryStore()
    path.write_text("1\n2\n")
    with evaluator_of(FileSource(path), store) as evaluator:
        evaluator.run()
        evaluator.checkpoint()
    path.write_text("1\n")
    with evaluator_of(FileSource(path), store.reopen()) as evaluator:
        evaluator.start()
        (message,) = told(evaluator, "growth")
    assert "shrunk" in message and "put the whole file back" in message and "appended" not in message


def test_a_renamed_file_is_warned_of_with_both_names(tmp_path: Path) -> None:
    """It is a new partition, which is read whole: one warning names what is gone and what is new."""
    store = MemoryStore()
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("1\n")
    with evaluator_of(FileSource(f"{tmp_path}/*.jsonl", follow=True), store) as evaluator:
        evaluator.start()
        until(lambda: evaluator.step() or seen(evaluator) == [1, 1])
        evaluator.checkpoint()
    (tmp_path / "b.jsonl").rename(tmp_path / "c.jsonl")
    with evaluator_of(FileSource(f"{tmp_path}/*.jsonl", follow=True), store.reopen()) as evaluator:
        evaluator.start()
        (message,) = told(evaluator, "recovery")
    assert "'b.jsonl'" in message and "'c.jsonl'" in message


def test_a_replay_of_a_replaced_file_names_the_file_as_a_cause(tmp_path: Path) -> None:
    """The query that gives other outputs may be right, and the file another one."""
    path, store = tmp_path / "g.jsonl", MemoryStore()
    path.write_text("1\n2\n")
    before = evaluator_of(FileSource(path, follow=True), store)
    before.start()
    until(lambda: before.step() or seen(before) == [1, 2])
    before.close()
    store.crash()
    path.write_text("5\n6\n")
    with evaluator_of(FileSource(path, follow=True), store.reopen()) as evaluator:
        evaluator.start()
        assert "file replaced or edited" in evaluator.warnings[0]


ODD: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "without a byte": lambda path: path.with_name("e.jsonl.gz").touch(),
    "its name": lambda path: Path(os.fsdecode(os.fsencode(path.parent) + b"/b\xff.jsonl")).write_text("7\n"),
    "name cannot": lambda path: path.with_name("b\n.jsonl").write_text("7\n"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_what_a_pattern_matches_and_cannot_be_read_is_told(tmp_path: Path, odd: str, policy: str) -> None:
    """The other files are read; an incident names what was left out, and why."""
    for name in "ac":
        (tmp_path / f"{name}.jsonl").write_text(f'"{name}"\n')
    ODD[odd](tmp_path / "b.jsonl")
    source = FileSource(f"{tmp_path}/*.jsonl*", on_bad_record=policy, format="jsonl")  # type: ignore[arg-type]
    if "name" in odd and policy == "fail":
        with pytest.raises(SourceFailed, match="no usable name"):
            evaluator_of(source)
        return
    with evaluator_of(source) as evaluator:
        evaluator.run()
        assert seen(evaluator) == ["a", "c"]
        (message,) = told(evaluator, "left out")
        assert odd in message


def test_a_pattern_that_goes_through_folders_means_to(tmp_path: Path) -> None:
    """With ** folders are the way and no matches; a pattern that finds nothing else says what it found."""
    (tmp_path / "d").mkdir()
    with pytest.raises(SourceFailed, match=r"only .*a folder"):
        FileSource(f"{tmp_path}/*", format="jsonl")
    with gzip.open(tmp_path / "d" / "a.jsonl.gz", "wt") as file:
        file.write("1\n")
    assert FileSource(f"{tmp_path}/**", format="jsonl").left_out == ()


@pytest.mark.parametrize("name", ["g.jsonl", "g.csv", "g.jsonl.gz", "g.parquet"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_file_that_is_gone_when_it_is_opened_is_named_with_the_remedy(
    name: str, follow: bool, tmp_path: Path
) -> None:
    """It was there when the source was made, and another node or a replay opens it."""
    path = tmp_path / name
    if name.endswith(".parquet"):
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        parquet.write_table(pyarrow.table({"a": [1, 2]}), path)
    else:
        path.write_bytes(gzip.compress(b"1\n2\n") if name.endswith("gz") else b"1\n2\n")
    if follow and not name.endswith(("jsonl", "csv")):
        pytest.skip("such a file does not grow")
    source = FileSource(path, follow=follow)
    path.unlink()
    with pytest.raises((OSError, SourceFailed)) as caught:
        source.open(name, 1).fetch(1)
    assert str(path) in str(caught.value) and "is gone; put it back" in str(caught.value)
