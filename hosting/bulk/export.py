"""All partitions of a source into files, as many at once as there are workers.

Workers are processes: reading, parsing and packing are Python's work, of which a process does one at a time. They
are started afresh (``spawn``) and make the source for themselves, so nothing is shared but the directory. One that
finds its parent dead ends at once; and as a partition is locked while it is written, it could do no harm until then.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from checkpoint.failures import unavailable
from checkpoint.format.codec import decode, encode
from checkpoint.sqlite.files import make_directory
from hosting.bulk.columns import KINDS, Kind
from hosting.bulk.feed import Stopped
from hosting.bulk.partition import Exported, Order, PartitionExport
from hosting.edges.positions import Point, bounds_of, position_of
from hosting.edges.start_positions import ENDLESS
from hosting.engine.blame import blamed
from reliable_rx.class_of import is_a
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import Source

EVENTS_PER_FILE = 100_000
STALL_S = 60.0
WORKERS_MAX = 256
Make = Callable[[], Source]


def export(
    source: Source | Make,
    directory: str | Path,
    *,
    partitions: Sequence[str] | None = None,
    first: Point = "earliest",
    until: Point = "latest",
    events_per_file: int = EVENTS_PER_FILE,
    workers: int | None = None,
    kinds: Mapping[str, Kind] | None = None,
    stall_s: float = STALL_S,
    each: Callable[[Exported], object] = lambda done: None,
) -> list[Exported]:
    """Write the events of *source* into Parquet files under *directory*; called again, go on behind the last whole one.

    >>> import tempfile
    >>> from hosting import GeneratorSource
    >>> source = GeneratorSource(lambda i, random: {"n": i}, partitions=2, count=25)
    >>> done = export(source, tempfile.mkdtemp(), events_per_file=10, workers=1)
    >>> [(each.partition, each.first, each.next, each.files) for each in done]
    [('0', 0, 25, 3), ('1', 0, 25, 3)]

    Columns are the fields of records, or ``value`` (JSON); beside them ``_partition`` and ``_position``. The first
    events fix them; *kinds* says of which kind some are (``int``, ``text``, ``instant``, …). *until* is where a
    partition reaches when this is called, or its end if the source cannot tell. *first* counts for partitions that
    this directory does not have yet. Several *workers* (default: one per core) are processes: give the source as a
    function if it cannot be pickled, and call this behind ``if __name__ == "__main__"`` in a script. *each* is told of
    every partition that is done, failed ones too. The source is not told that anything was taken.

    *Raises* `SourceFailed` with the results as field *exported* if partitions failed; the others are done nevertheless.
    """
    directory = Path(directory)
    _check(events_per_file, workers, kinds or {})
    with unavailable(str(directory)):
        make_directory(directory)
    order = Order(directory=directory, first=first, events_per_file=events_per_file, stall_s=stall_s, kinds=kinds or {})
    here = made(source)
    wanted = list(here.partitions() if partitions is None else partitions)
    ends = {partition: _end(here, partition, until) for partition in wanted}
    count = min(workers or os.cpu_count() or 1, len(wanted))
    done: dict[str, Exported] = {}
    for result in _one_by_one(here, order, ends) if count < 2 else _at_once(source, order, ends, count):
        done[result.partition] = result
        each(result)
    results = [done[partition] for partition in wanted]
    failed = [result for result in results if result.error is not None]
    if failed:
        message = f"{len(failed)} of {len(results)} partitions failed; the first: {failed[0].error}"
        raise SourceFailed(message, exported=results)
    return results


def made(source: Source | Make) -> Source:
    """Return the source, or what it makes if it is a function."""
    it: Any = source
    found: Source = it if hasattr(it, "partitions") and not isinstance(it, type) else it()
    return found


def _check(events_per_file: int, workers: int | None, kinds: Mapping[str, Kind]) -> None:
    if events_per_file < 1:
        raise ValueError(f"events_per_file is {events_per_file}; a file has at least one")
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise ValueError(f"workers is {workers}; give a number from 1 to {WORKERS_MAX}")
    unknown = next((kind for kind in kinds.values() if kind not in KINDS), None)
    if unknown is not None:
        raise ValueError(f"there is no kind of column {unknown!r}; there are {', '.join(KINDS)}")


def _end(source: Source, partition: str, until: Point) -> int | None:
    """Return where *partition* is to end; None: where it ends itself."""
    if until == "latest" and bounds_of(source, partition) is None:
        return None
    end = position_of(source, partition, until)
    if end == ENDLESS:
        message = f"partition {partition!r} has no end; say until where to export"
        raise PositionUnavailable(message, wanted=None, first=0, end=None)
    return end


def _one_by_one(source: Source, order: Order, ends: Mapping[str, int | None]) -> Iterator[Exported]:
    for partition, until in ends.items():
        yield _run(source, partition, order, until=until, stopped=lambda: False)


def _at_once(source: Source | Make, order: Order, ends: Mapping[str, int | None], workers: int) -> Iterator[Exported]:
    with _pool(_packed(source), workers) as pool:
        futures: dict[Future[Exported], str] = {
            pool.submit(_work, partition, order, until): partition for partition, until in ends.items()
        }
        for future in as_completed(futures):
            partition = futures[future]
            try:
                yield future.result()
            except BrokenProcessPool:
                error = (
                    f"partition {partition!r}: a worker process died; call it again, and it goes on from what is whole"
                )
                yield Exported(partition, 0, 0, 0, 0, 0.0, error=error)


def _packed(source: Source | Make) -> bytes:
    try:
        return encode(source)
    except BaseException as error:  # whatever a pickler raises
        let_through(error)
        message = (
            f"the source cannot be sent to worker processes ({error}); give a function that makes it, or workers=1"
        )
        raise SourceFailed(message) from error


@contextmanager
def _pool(source: bytes, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Have worker processes; told to stop when this is left, however it is."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin, initargs=(source, stop))
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


# ---- in a worker

_worker: dict[str, Any] = {}


def _begin(source: bytes, stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent says what it means
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _worker.update(packed=source, stop=stop)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(partition: str, order: Order, until: int | None) -> Exported:
    if "source" not in _worker:
        _worker["source"] = made(decode(_worker["packed"]))
    return _run(_worker["source"], partition, order, until=until, stopped=_worker["stop"].is_set)


def _run(source: Source, partition: str, order: Order, *, until: int | None, stopped: Callable[[], bool]) -> Exported:
    began = time.monotonic()
    at_work = PartitionExport(source, partition, order, until=until, stopped=stopped)
    error = None
    try:
        at_work.run()
    except Stopped:
        error = f"partition {partition!r}: stopped; call it again, and it goes on from what is whole"
    except Exception as raised:
        error = raised.message if is_a(raised, ReliableRxError) else f"partition {partition!r}: {blamed(raised)!r}"
    seconds = time.monotonic() - began
    done = (at_work.first, at_work.next, at_work.events, at_work.files, seconds, at_work.ended)
    return Exported(partition, *done, error)
