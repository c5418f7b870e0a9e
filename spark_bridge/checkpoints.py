"""Which log a checkpoint of Spark's belongs to, so that the two are never mixed up.

A checkpoint that has finished batches elsewhere would begin in the middle here, and what came before would be missing;
a new checkpoint over an old log would give all rows twice. So a checkpoint is marked with the id of its log before
Spark begins, and the log knows the query (`spark_bridge.log.writer`). Only what lies in a local or mounted directory
can be looked into; elsewhere the log's own check remains.
"""

from __future__ import annotations

import json
from pathlib import Path

from checkpoint.files import create_durably, make_directory
from spark_bridge.log.disk import RealLogDisk, log_directory
from spark_bridge.log.refusal import LogRefused

MARK = "reliable_rx.json"


def check_checkpoint(place: str, log: str, *, where: str) -> str | None:
    """Mark the checkpoint at *place* as that of the log whose id is *log*; return its query's id, None if it is new.

    *Raises* `LogRefused` if it has been used for something else.
    """
    directory = _directory(place)
    if directory is None:
        return None
    make_directory(directory)
    disk = RealLogDisk(directory)
    mark, query = disk.read(MARK), query_of(directory)
    if mark is None and query is not None:
        message = f"the checkpoint {directory} was used without {where}, which would miss what was done then"
        raise LogRefused(f"{message}; give this query a checkpoint directory of its own", where=where, found=query)
    belongs = None if mark is None else str(json.loads(mark)["log"])
    if belongs is not None and belongs != log:
        message = f"the checkpoint {directory} belongs to another log than {where}"
        raise LogRefused(f"{message}; use the checkpoint it was made with", where=where, found=belongs, wanted=log)
    if mark is None:
        create_durably(disk, MARK, json.dumps({"log": log}).encode())
    return query


def query_of(directory: Path) -> str | None:
    """Return the id of the query whose checkpoint lies in *directory*, None if it has not begun."""
    metadata = directory / "metadata"
    return str(json.loads(metadata.read_text())["id"]) if metadata.is_file() else None


def _directory(place: str) -> Path | None:
    try:
        return log_directory(place)
    except ValueError:
        return None
