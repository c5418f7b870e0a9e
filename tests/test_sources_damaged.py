"""Compressed files that are cut short or damaged: they end in one bad record, and stop nothing else."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from lanes import every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, QueryEvaluator
from hosting.sources import lines
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Rejected

ROWS = 300
REASON = "the rest of the file cannot be read: "


def row(n: int) -> dict[str, str]:
    return {"n": str(n), "note": f"{random.Random(n).random()}" * (n % 3)}


def text_of(kind: str) -> bytes:
    if kind == "csv":
        return b"n,note\n" + b"".join(f"{n},{row(n)['note']}\n".encode() for n in range(ROWS))
    return b"".join(json.dumps(row(n)).encode() + b"\n" for n in range(ROWS))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut in the header": lambda data: data[:5],
    "no header": lambda data: b"no gzip" + data,
    "cut soon": lambda data: data[:200],
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut before the checksum": lambda data: data[:-8],
    "cut in the checksum": lambda data: data[:-2],
    "another checksum": lambda data: flipped(data, len(data) - 7),
    "garbage behind": lambda data: data + b"garbage",
    "a second part that is cut": lambda data: data + data[: len(data) // 2],
    "no such block in the middle": lambda data: gzip_of_parts(data),
    **{f"byte {at}": lambda data, at=at: flipped(data, at) for at in (100, 400, 777, 1400)},  # type: ignore[misc]
}


def gzip_of_parts(data: bytes) -> bytes:
    """Have a whole first block, and behind it one of a kind that there is not."""
    text = gzip.decompress(data)
    packer = zlib.compressobj(wbits=31)
    half = text.find(b"\n", len(text) // 2) + 1
    return packer.compress(text[:half]) + packer.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 20_000


def damaged(folder: Path, kind: str, how: str, name: str = "b") -> Path:
    path = folder / f"{name}.{kind}.gz"
    path.write_bytes(DAMAGED[how](gzip.compress(text_of(kind), mtime=0)))
    return path


def events(source: FileSource, at: int = 0, most: int = 7) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    with closing(source.open(source.partitions()[0], at)) as reader:
        ended = False
        while not ended:
            batch = reader.fetch(most)
            found += [(each.position, each) for each in batch.rejected] + list(enumerate(batch.values, batch.first))
            ended = batch.ended
    return found


@pytest.mark.parametrize("how, kind", every_of(15, product(DAMAGED, ["csv", "jsonl"]), commits=5))
def test_what_is_before_the_damage_is_read(
    tmp_path: Path, kind: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good records come under their ids, then one bad record ends the file, wherever and however reading begins."""
    path = damaged(tmp_path, kind, how)

    def make() -> FileSource:
        return FileSource(path, on_bad_record="skip")

    whole = events(make())
    assert [n for n, _ in whole] == list(range(len(whole)))
    *before, (_, last) = whole
    assert isinstance(last, Rejected) and REASON in last.error and f"{path.name}, byte " in last.error
    if not how.startswith("byte"):  # there are bytes that are text when they are another
        good = [row(n) for n in range(ROWS)]
        if "second part" in how and kind == "jsonl":
            good += good
        assert [value for _, value in before if not isinstance(value, Rejected)][: len(good)] == good[: len(before)]
    assert how not in ("another checksum", "garbage behind", "cut in the checksum") or len(whole) == ROWS + 1
    for size in (1 << 16, 1, 1000):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        source = make()
        for at in range(len(whole) + 1):
            if at % 29 == 0 or at > len(whole) - 4:
                assert events(make(), at=at) == whole[at:], f"from {at} on in blocks of {size} bytes"
                assert events(source, at=at, most=1) == whole[at:], f"again from {at} on in blocks of {size} bytes"
        assert source.bounds(path.name) == (0, len(whole))


@pytest.mark.parametrize("kind, length", [("csv", 1999), ("csv", 2200), ("jsonl", 2400), ("jsonl", 2600)])
def test_what_fails_does_so_at_the_damage(
    tmp_path: Path, kind: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records before it come, then the error, and whoever asks again has that again: no record follows it."""
    path = tmp_path / f"b.{kind}.gz"
    path.write_bytes(gzip.compress(text_of(kind), mtime=0)[:length])
    *before, (end, _) = events(FileSource(path, on_bad_record="skip"))
    for size in (1 << 16, 900, 1):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        for at in (0, end // 2, end - 1, end):
            found, told = list[tuple[int, Any]](), set[tuple[Any, str]]()
            with closing(FileSource(path).open(path.name, at)) as reader:
                while len(found) < end - at:
                    batch = reader.fetch(20)
                    found += enumerate(batch.values, batch.first)
                for _ in range(3):
                    with pytest.raises(SourceFailed, match="damaged or cut short") as failed:
                        reader.fetch(20)
                    told.add((failed.value.fields["position"], str(failed.value)))
            assert found == before[at:], f"from {at} on in blocks of {size} bytes"
            assert len(told) == 1 and told.pop()[0] == end


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_cut_at_any_byte(tmp_path: Path, kind: str) -> None:
    """The later it is cut the more is read, and what was read of a shorter one is read of the longer one."""
    path, data = tmp_path / f"b.{kind}.gz", gzip.compress(text_of(kind), mtime=0)
    found = []
    for length in [*range(1, len(data) - 10, 97), *range(len(data) - 10, len(data))]:
        path.write_bytes(data[:length])
        *values, (_, last) = events(FileSource(path, on_bad_record="skip"), most=100)
        assert REASON in last.error
        found.append([value for _, value in values])
    assert all(few == more[: len(few)] for few, more in pairwise(found))
    assert len(found[-1]) == ROWS


@pytest.mark.parametrize("how", ["cut", "checksum", "middle"])
@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip(tmp_path: Path, how: str, packing: int) -> None:
    """The same for what is alone in a zip; one that is cut has no list of what it holds, and so nothing."""
    path = tmp_path / "b.jsonl.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("b.jsonl", text_of("jsonl"))
    data = path.read_bytes()
    path.write_bytes(data[:-30] if how == "cut" else flipped(data, 1000 if how == "middle" else 700))
    if how == "checksum":
        place = data.index(b"PK\x01\x02") + 16
        path.write_bytes(flipped(data, place))
    whole = events(FileSource(path, on_bad_record="skip"))
    assert REASON in whole[-1][1].error
    is_one_block = packing == zipfile.ZIP_BZIP2  # of which an unpacker gives all or nothing
    assert len(whole) == 1 if how == "cut" or is_one_block else len(whole) > 10
    for at in range(0, len(whole) + 1, 1 if len(whole) < 50 else 13):
        assert events(FileSource(path, on_bad_record="skip"), at=at) == whole[at:]
    assert events(FileSource(path, on_bad_record="skip"), at=len(whole)) == []


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_a_zip_whose_list_is_damaged(tmp_path: Path, policy: Any, packing: int) -> None:
    """Whatever byte of the headers is another one, what is wrong is said by an error of the source, or by a record."""
    path, packed = tmp_path / "b.jsonl.zip", io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as archive:
        archive.writestr("b", text_of("jsonl"))
    data = packed.getvalue()
    places = [*range(32), *range(data.index(b"PK\x01\x02"), len(data))]
    for place, other in [(place, other) for place in places for other in (0, data[place] ^ 0xFF)]:
        path.write_bytes(data[:place] + bytes([other]) + data[place + 1 :])
        with suppress(SourceFailed):
            events(FileSource(path, on_bad_record=policy))


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_byte_of_a_zip_is_missing(tmp_path: Path, packing: int) -> None:
    """Wherever that is, the file ends in one bad record at most, and what comes before it is read."""
    path, packed = tmp_path / "b.jsonl.zip", io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as archive:
        archive.writestr("b", text_of("jsonl"))
    data = packed.getvalue()
    end = data.index(b"PK\x01\x02")
    for place in [*range(31, end, 37), *range(end - 12, end)]:
        path.write_bytes(data[:place] + data[place + 1 :])
        found = events(FileSource(path, on_bad_record="skip"))
        assert REASON in found[-1][1].error


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_mark_behind_all_that_a_zip_holds(tmp_path: Path, packing: int) -> None:
    """Where that is damaged and all of the content is there, with its checksum, nothing is wrong with the records."""
    path, packed = tmp_path / "b.jsonl.zip", io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as archive:
        archive.writestr("b", text_of("jsonl"))
    data = packed.getvalue()
    whole = [*enumerate(map(row, range(ROWS)))]
    for place in range((end := data.index(b"PK\x01\x02")) - 6, end):
        path.write_bytes(flipped(data, place))
        found, *others = [events(FileSource(path, on_bad_record="skip"), most=most) for most in (7, 1, 1000)]
        assert others == [found, found]
        *values, _, last = found  # the last value may be spoilt
        assert found == whole or (values == whole[: len(values)] and REASON in last[1].error)
        with nullcontext() if found == whole else pytest.raises(SourceFailed, match="cannot be read behind byte"):
            assert events(FileSource(path)) == whole


def run_in_steps(pattern: str, policy: Any, steps_max: int | None) -> tuple[list[str], list[Any]]:
    """Run to the end, with a crash after every so many steps; return the values and the dead letters."""
    store, has_ended = MemoryStore(), False
    while not has_ended:
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", FileSource(pattern, on_bad_record=policy))
            evaluator.create("q", rx.source("n").map(lambda value: value["n"]))
            if policy == "dead_letter":
                evaluator.create("letters", rx.source("n.dead_letters").map(lambda each: (each.partition, each.error)))
            evaluator.start()
            steps = 0
            while steps != steps_max and evaluator.step():
                steps += 1
            has_ended = steps != steps_max
            values = sorted(value for part in evaluator.stream("q").read(0, 10_000) for value in part.values)
            letters: list[Any] = []
            if policy == "dead_letter":
                letters = [value for part in evaluator.stream("letters").read(0, 100) for value in part.values]
        store.crash()
        store = store.reopen()
    return values, letters


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_the_other_files_of_a_pattern_go_on(tmp_path: Path, kind: str, policy: Any) -> None:
    """At whichever event a run stops, the next one makes the same of it: all that is readable, and one dead letter."""
    for name in "ac":
        (tmp_path / f"{name}.{kind}.gz").write_bytes(gzip.compress(text_of(kind)))
    damaged(tmp_path, kind, "cut in the middle")
    results = [run_in_steps(f"{tmp_path}/*.{kind}.gz", policy, steps) for steps in (None, 1, 2, 5)]
    assert all(each == results[0] for each in results)
    seen, letters = results[0]
    assert len(seen) > 2 * ROWS
    assert not letters or (len(letters) == 1 and letters[0][0] == f"b.{kind}.gz" and REASON in letters[0][1])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_under_fail_the_run_ends(tmp_path: Path, kind: str) -> None:
    """The file and the position are named."""
    path = damaged(tmp_path, kind, "cut in the middle")
    with pytest.raises(SourceFailed, match="is it damaged or cut short") as caught:
        events(FileSource(path))
    assert path.name in str(caught.value) and caught.value.position is not None
