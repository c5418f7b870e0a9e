"""Files damaged anywhere, in every format: what is read has its right place, and the error is raised again.

The rows of a file stand in several blocks, or row groups, so that there is something behind the damage to be lost. An
error that is followed by an end, or by rows of behind, is a loss that nothing tells of.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lanes import crossed, share_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, QueryEvaluator
from hosting.sources import lines, parquet_files
from hosting.sources.decoding import Decoder
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.reliable import Reader, Source

Row = dict[str, str]
KEYS = ("a", "b", "c")
ROWS: list[Row] = [
    {"key": KEYS[n * 7 % 3], "n": str(n), "note": f"{random.Random(n).random()}" * (n % 3) or f"-{n}"}
    for n in range(400)
]
"""Two columns tell each from all others, so that damage in one, which no checksum finds, makes no other row of it."""
ERRORS = (SourceFailed, PositionUnavailable)
ASKED_AGAIN = 3
PLACES = 36


def csv_bytes() -> bytes:
    return b"key,n,note\n" + b"".join(f"{','.join(row.values())}\n".encode() for row in ROWS)


def jsonl_bytes() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def zipped(data: bytes, packing: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as archive:
        archive.writestr("rows", data)
    return packed.getvalue()


def parquet_bytes(**options: Any) -> bytes:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    packed = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), packed, row_group_size=90, data_page_size=512, **options)
    return packed.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "rows.csv": csv_bytes,
    "rows.jsonl": jsonl_bytes,
    "rows.csv.gz": lambda: gzip.compress(csv_bytes(), mtime=0),
    "rows.jsonl.gz": lambda: gzip.compress(jsonl_bytes(), mtime=0),
    "rows.csv.zip": lambda: zipped(csv_bytes(), zipfile.ZIP_DEFLATED),
    "rows.jsonl.zip": lambda: zipped(jsonl_bytes(), zipfile.ZIP_STORED),
    "bzip2.csv.zip": lambda: zipped(csv_bytes(), zipfile.ZIP_BZIP2),
    "lzma.jsonl.zip": lambda: zipped(jsonl_bytes(), zipfile.ZIP_LZMA),
    "snappy.parquet": lambda: parquet_bytes(compression="snappy", use_dictionary=False),
    "zstd.parquet": lambda: parquet_bytes(compression="zstd"),
    "bare.parquet": lambda: parquet_bytes(compression="none", use_dictionary=False),
    "checksums.parquet": lambda: parquet_bytes(compression="none", write_page_checksum=True),
}


class Damage(NamedTuple):
    """What was done to a file: its bytes from *begin* to *end* are no longer what they were."""

    data: bytes
    begin: int
    end: int


def damaged(data: bytes, how: str, draw: random.Random) -> Damage:
    begin = draw.randrange(len(data))
    end = min(len(data), begin + draw.choice([1, 2, 40, 700]))
    between = {
        "flipped": bytes(byte ^ 0xFF for byte in data[begin:end]),
        "zeroed": bytes(end - begin),
        "taken out": b"",
        "cut": b"",
    }[how]
    behind = b"" if how == "cut" else data[end:]
    return Damage(data[:begin] + between + behind, begin, end if how != "cut" else len(data))


HOW = ("flipped", "zeroed", "taken out", "cut")


def whole_before(name: str, damage: Damage) -> int:
    """Return how many rows certainly lie before the damage."""
    data = damage.data[: damage.begin]
    if name.endswith(".gz"):
        data = zlib.decompressobj(wbits=31).decompress(data)
    elif name.endswith((".zip", ".parquet")):
        return 0
    return max(0, data.count(b"\n") - ("csv" in name))


def whole_behind(name: str, damage: Damage) -> int:
    """Return how many rows certainly lie behind the damage in a file without a checksum."""
    data = FILES[name]()[damage.end :]
    return max(0, data.count(b"\n") - 1) if name.endswith((".csv", ".jsonl")) else 0


def is_checked(name: str) -> bool:
    """Whether a file of this kind says by itself how much is in it."""
    return not name.endswith((".csv", ".jsonl"))


@dataclass
class Read:
    """What came of one partition: rows and rejected records by their ids, and how it ended."""

    rows: dict[int, Any] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)
    error: ReliableRxError | None = None

    @property
    def end(self) -> int:
        return max([*self.rows, *self.rejected], default=-1) + 1


def read_all(reader: Reader, at: int = 0) -> Read:
    """Read to the end, or to an error: behind that nothing else may come, however often one asks."""
    found, next_id = Read(), at
    for size in (5, 1, 64, 20) * 1000:
        try:
            batch = reader.fetch(size)
        except ERRORS as error:
            found.error = error
            assert_raised_again(reader, error)
            return found
        assert batch.first - batch.skipped == next_id, "ids are consecutive"
        found.rows |= dict(enumerate(batch.values, batch.first))
        found.rejected += [each.position for each in batch.rejected]
        next_id = batch.next
        if batch.ended:
            return found
    raise AssertionError("it has an end")


def assert_raised_again(reader: Reader, error: ReliableRxError) -> None:
    for _ in range(ASKED_AGAIN):
        with pytest.raises(type(error)) as again:
            reader.fetch(7)
        assert again.value.fields == error.fields


def check_places(name: str, damage: Damage, found: Read, good: list[Row], before: int, behind: int) -> None:
    """Hold what was read to its places; of bytes that were changed and have no checksum the values may be others."""
    for n, row in found.rows.items():
        if n < before or name.endswith(".parquet"):
            assert row == good[n] or row not in good, f"id {n} is that of another row"
    assert [n for n in found.rejected if n < before] == []
    if found.error is not None:
        return
    read = [*found.rows.values()]
    assert read[len(read) - behind :] == good[len(good) - behind :], "what lies behind the damage is read"
    if is_checked(name):
        assert found.rejected or found.end == len(good), f"{found.end} of {len(good)} rows, and no word of the others"
    if name.endswith(".parquet"):
        assert found.end == len(good), "each row has its number, whether it can be read or not"


def keyed(policy: Any, path: Path) -> FileSource:
    return FileSource(path, partition_by="key", partitions=KEYS, on_bad_record=policy)


SOURCES: dict[str, Callable[[Any, Path], Source]] = {
    "plain": lambda policy, path: FileSource(path, on_bad_record=policy),
    "polled": lambda policy, path: PolledSource(FileSource(path, on_bad_record=policy), Want(count_min=9, wait_s=0.0)),
    "shared": lambda policy, path: SharedSource(FileSource(path, on_bad_record=policy), events_max=50),
    "keyed": keyed,
    "sorted": lambda policy, path: FileSource(path, sort_by=lambda row: int(row["n"]), on_bad_record=policy),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 900)
    monkeypatch.setattr(parquet_files, "BATCH_ROWS", 32)


def damages(name: str, how: str, salt: str) -> Iterator[Damage]:
    data = FILES[name]()
    for place in range(share_of(PLACES)):
        yield damaged(data, how, random.Random(f"{name}/{how}/{salt}/{place}"))


@pytest.mark.parametrize(
    "name, how, policy, made", crossed(FILES, HOW, ["fail", "skip", "dead_letter"], ["plain", "polled", "shared"])
)
def test_what_is_read_has_its_place(tmp_path: Path, name: str, how: str, policy: Any, made: str) -> None:
    """Rows come in order under their own ids up to the error, which is raised again; an end means all are there."""
    path = tmp_path / name
    for damage in damages(name, how, policy + made):
        path.write_bytes(damage.data)
        before, behind = whole_before(name, damage), whole_behind(name, damage)
        source = SOURCES[made](policy, path)
        with closing(source.open(name, 0)) as reader:
            found = read_all(reader)
        check_places(name, damage, found, ROWS, before, behind)
        for at in {0, min(1, found.end), found.end // 2, found.end}:
            check_opened_within(SOURCES[made](policy, path), source, name, at, found)


def check_opened_within(fresh: Source, used: Source, name: str, at: int, whole: Read) -> None:
    """From wherever reading begins the same ids hold the same."""
    for source in (fresh, used):
        with closing(source.open(name, at)) as reader:
            found = read_all(reader, at)
        common = found.rows.keys() & whole.rows.keys()
        assert {n: found.rows[n] for n in common} == {n: whole.rows[n] for n in common}
        assert (found.error is None) == (whole.error is None)
        assert found.error is not None or found.end in (whole.end, 0)


@pytest.mark.parametrize("name, how, policy", crossed(FILES, HOW, ["fail", "skip"], nth=2))
def test_split_by_key(tmp_path: Path, name: str, how: str, policy: Any) -> None:
    """Readers that share one walk over a damaged file, in turn or one after the other, each keep to it."""
    path = tmp_path / name
    for damage in damages(name, how, policy):
        path.write_bytes(damage.data)
        before = whole_before(name, damage)
        source = keyed(policy, path)
        with closing(source.open("b", 0)) as other, closing(source.open("a", 0)) as first:
            ahead = first_rows(other)
            for key, reader in (("a", first), ("c", source.open("c", 0))):
                found = read_all(reader)
                good = [row for row in ROWS if row["key"] == key]
                its = sum(row["key"] == key for row in ROWS[:before])
                if policy == "fail":
                    check_places(name, damage, found, good, its, 0)
                reader.close()
            again = source.open("b", 0)
            assert list(read_all(again).rows.values())[: len(ahead)] == ahead
            again.close()


def first_rows(reader: Reader) -> list[Any]:
    try:
        return list(reader.fetch(3).values)
    except ERRORS as error:
        assert_raised_again(reader, error)
        return []


@pytest.mark.parametrize("name, how", crossed(FILES, HOW, nth=2))
def test_sorted_by_a_function(tmp_path: Path, name: str, how: str) -> None:
    """A partition that is put in order comes whole, or not at all."""
    path = tmp_path / name
    for damage in damages(name, how, "sorted"):
        path.write_bytes(damage.data)
        with closing(SOURCES["sorted"]("fail", path).open(name, 0)) as reader:
            found = read_all(reader)
        assert found.error is None or not found.rows
        assert found.error is not None or not is_checked(name) or found.end == len(ROWS)


class Run:
    """One store, and evaluators of it one after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.store = path, MemoryStore()
        self.evaluator = self.opened()

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, batch_events_max=16, checkpoint_interval_s=1e9)
        evaluator.source("rows", FileSource(self.path))
        evaluator.create("all", rx.source("rows"))
        return evaluator

    def fails(self) -> bool:
        try:
            self.evaluator.run()
        except ERRORS:
            return True
        return False

    def seen(self) -> list[Any]:
        return [value for part in self.evaluator.stream("all").read(0, 10_000) for value in part.values]

    def end(self, how: str) -> None:
        if how == "called again":
            return
        if how == "killed":
            self.evaluator.intake.close()
            self.store = self.store.reopen()
        else:
            self.evaluator.close()
            self.store = self.store.reopen()
        self.evaluator = self.opened()


@pytest.mark.parametrize(
    "name, how, ending", crossed(FILES, HOW, ["killed", "stopped", "called again"], nth=2, nightly=4)
)
def test_when_the_good_file_is_back(tmp_path: Path, name: str, how: str, ending: str) -> None:
    """A run ends with the error as often as it is called, and goes on to each row once when the file is mended."""
    path = tmp_path / name
    for damage in damages(name, how, ending):
        path.write_bytes(damage.data)
        run = Run(path)
        has_failed = run.fails()
        if has_failed:
            assert run.fails() and run.fails()
        seen = run.seen()
        if has_failed and seen == ROWS[: len(seen)]:
            run.end(ending)
            path.write_bytes(FILES[name]())
            assert not run.fails()
            assert run.seen() == ROWS
        elif is_checked(name) and not has_failed:
            assert len(seen) == len(ROWS)
        run.evaluator.close()


class Flaky(io.FileIO):
    """A file whose disk fails at one of the reads, once it is set *left* to do so."""

    left = 0

    def read(self, size: int | None = -1, /) -> Any:
        self.left -= 1
        if self.left == 0:
            raise OSError(5, "Input/output error")
        return super().read(-1 if size is None else size)


def fails_once(patched: pytest.MonkeyPatch, reads: int) -> list[Flaky]:
    """Let the first file that is opened fail at its read number *reads*."""
    opened, ours = lines.open_bytes, list[Flaky]()

    def open_bytes(path: Path) -> Any:
        if ours:
            return opened(path)
        raw = Flaky(path)
        ours.append(raw)
        file: Any = zipfile.ZipFile(raw).open("rows") if path.suffix == ".zip" else raw  # noqa: SIM115
        raw.left = reads
        return gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else file

    patched.setattr(lines, "open_bytes", open_bytes)
    return ours


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".parquet")])
def test_a_disk_that_fails_once(tmp_path: Path, name: str, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks again has the row that was due: nothing that was unpacked by then is lost."""
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    for reads in range(1, 9):
        with monkeypatch.context() as patched:
            opened = fails_once(patched, reads)
            found, failures = until_its_end(FileSource(path, on_bad_record=policy))
            opened[0].close()
        assert found == ROWS and failures <= 1


def test_a_group_that_cannot_be_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a Parquet file: what a disk has not given for a moment is no bad record, whatever the policy."""
    path = tmp_path / "snappy.parquet"
    path.write_bytes(FILES[path.name]())
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.ParquetFile.iter_batches
    for raised in (OSError(5, "Input/output error"), MemoryError("malloc of size 64 failed")):
        for failing in range(1, 14):
            left = [failing]

            def iter_batches(*args: Any, left: list[int] = left, raised: Exception = raised, **kwargs: Any) -> Any:
                for batch in read(*args, **kwargs):
                    left[0] -= 1
                    if left[0] == 0:
                        raise raised
                    yield batch

            monkeypatch.setattr(parquet.ParquetFile, "iter_batches", iter_batches)
            found, failures = until_its_end(FileSource(path, on_bad_record="skip"))
            assert found == ROWS and failures <= 1 and left[0] <= 0


def until_its_end(source: Source) -> tuple[list[Any], int]:
    """Read all of a source that fails now and then; return how often it did."""
    found, failures = list[Any](), 0
    with closing(source.open(source.partitions()[0], 0)) as reader:
        while failures < 9:
            try:
                batch = reader.fetch(11)
            except SourceFailed:
                failures += 1
            else:
                assert not batch.rejected and batch.first == len(found)
                found += batch.values
                if batch.ended:
                    break
    return found, failures


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.csv.zip", "snappy.parquet"])
def test_a_file_without_a_byte_has_not_ended(name: str, policy: Any, tmp_path: Path) -> None:
    """One that has an end in itself is refused until it is there: it was cut short."""
    path = tmp_path / name
    store = MemoryStore()
    for content in (b"", FILES[name]()):
        path.write_bytes(content)
        store = store.reopen()
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("rows", FileSource(path, on_bad_record=policy))
            evaluator.create("all", rx.source("rows").map(lambda row: row["n"]))
            with suppress(SourceFailed):
                evaluator.run()
            found = {value for part in evaluator.stream("all").read(0, 999) for value in part.values}
            assert (evaluator.query("all").status == "completed") == bool(content)
            assert found == ({row["n"] for row in ROWS} if content else set())


def test_bad_records_of_a_shared_partition_that_is_opened_again(tmp_path: Path) -> None:
    """However many there are, and however often all readers were closed: each comes once to whoever reads it."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n" + b"{\n" * 60 + b"2\n")
    source = SharedSource(FileSource(path, on_bad_record="skip"), events_max=50)
    for at in (0, 0, 30, 61, 0):
        with closing(source.open(path.name, at)) as reader:
            found = read_all(reader, at)
        assert found.rows == {n: value for n, value in ((0, 1), (61, 2)) if n >= at}
        assert found.rejected == [*range(max(at, 1), 61)]


def test_a_polled_reader_gives_what_it_holds_before_an_error(tmp_path: Path) -> None:
    """Fewer records than are worth a pull come at once where an error is behind them, which is raised then."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"1\n2\n3\n{\n")
    with closing(PolledSource(FileSource(path), Want(count_min=50, wait_s=1e9)).open(path.name, 0)) as reader:
        assert reader.fetch(2).values == [1, 2]
        assert reader.fetch(2).values == [3]
        for _ in range(ASKED_AGAIN):
            with pytest.raises(SourceFailed, match="not a line of JSON"):
                reader.fetch(2)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl.gz", "snappy.parquet"])
def test_an_interrupt_at_any_chunk(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a chunk and its values something may be raised that is no error of the file: the chunk comes again."""
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    decode, left = Decoder.decode, [0]

    def decoded(decoder: Decoder, part: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return decode(decoder, part)

    monkeypatch.setattr(Decoder, "decode", decoded)
    for left[0] in range(1, 9):
        found = list[Any]()
        with closing(FileSource(path).open(name, 0)) as reader:
            while len(found) < len(ROWS):
                with suppress(KeyboardInterrupt):
                    found += reader.fetch(30).values
        assert found == ROWS


@pytest.mark.parametrize("ending", ["called again", "stopped", "killed"])
@pytest.mark.parametrize("how", ["in place", "replaced"])
@pytest.mark.parametrize("key", ["", "n"])
def test_a_record_of_a_followed_file_is_mended(how: str, ending: str, key: str, tmp_path: Path) -> None:
    """The run ends with the error as often as it is called, and goes on behind what it had when the record is well."""
    path, values = tmp_path / "rows.jsonl", [1, 1, 2] if key else [1, 2, 1]
    path.write_text('{"n": 1}\n{"n": \n{"n": 1}\n')
    options: dict[str, Any] = {"partition_by": key, "partitions": ["1", "2"]} if key else {}
    store = MemoryStore()

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("rows", FileSource(path, follow=True, **options))
        evaluator.create("all", rx.source("rows").map(lambda row: row["n"]))
        return evaluator

    evaluator = opened()
    for _ in range(3):
        with pytest.raises(SourceFailed, match="line 2"):
            evaluator.run(until=lambda: evaluator.statistics().events_in == 3)
    if ending != "called again":
        evaluator.close() if ending == "stopped" else evaluator.abandon()
        store = store.reopen()
        evaluator = opened()
    mended = tmp_path / "mended" if how == "replaced" else path
    mended.write_text('{"n": 1}\n{"n": 2}\n{"n": 1}\n')
    mended.replace(path)
    evaluator.run(until=lambda: evaluator.stream("all").next_id == len(values))
    assert [value for part in evaluator.stream("all").read(0, 9) for value in part.values] in (values, [1, 2, 1])
    evaluator.close()
