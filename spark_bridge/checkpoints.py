"""What a checkpoint of Spark's belongs to, a log or a keyed query, so that they are never mixed up.

A checkpoint that has finished batches elsewhere would begin in the middle here, and what came before would be missing;
a new checkpoint over an old log would give all rows twice. So a checkpoint is marked with the id of its log before
Spark begins, and the log knows the query (`spark_bridge.micro_batch_log.writer`). Only what lies in a local or mounted
directory can be looked into; elsewhere the log's own check remains. A keyed query marks its checkpoint with what it
keeps, so that an edit is refused before anything is started; each bucket checks the same when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from checkpoint.sqlite.files import create_durably, make_directory
from reliable_rx.errors import CheckpointRefused, described
from spark_bridge.micro_batch_log.disk import RealLogDisk, log_directory
from spark_bridge.micro_batch_log.errors import LogRefused

if TYPE_CHECKING:
    from reliable_rx.runtime.rows import Report
    from reliable_rx.runtime.signatures import Signature
    from spark_bridge.keyed.editing import Manner
    from spark_bridge.keyed.query import KeyedQuery

A = TypeVar("A")
MARK = "reliable_rx.json"
KEYED_MARK = "reliable_rx.keyed.json"


def check_checkpoint(place: str, log: str, *, where: str) -> str | None:
    """Mark the checkpoint at *place* as that of the log whose id is *log*; return its query's id, None if it is new.

    *Raises* `LogRefused` if it has been used for something else.
    """
    directory = log_directory(place)
    if directory is None:
        return None
    make_directory(directory)
    disk = RealLogDisk(directory)
    mark, query = disk.read(MARK), query_of(directory)
    if mark is None and query is not None:
        message = f"the checkpoint {directory} was used without {where}, which would miss what was done then"
        raise LogRefused(f"{message}; give this query a checkpoint directory of its own", where=where, found=query)
    belongs = None if mark is None else told(directory / MARK, mark, lambda body: text(body["log"]))
    if belongs is not None and belongs != log:
        message = f"the checkpoint {directory} belongs to another log than {where}"
        raise LogRefused(f"{message}; use the checkpoint it was made with", where=where, found=belongs, wanted=log)
    if mark is None:
        create_durably(disk, MARK, json.dumps({"log": log}).encode())
    return query


def check_keyed(place: str, query: KeyedQuery, placed: Manner) -> Report | None:
    """Mark the checkpoint at *place* as that of *query*; return what becomes of the state if another was there before.

    *Raises* `CheckpointRefused` if it belongs to another query, keys, columns or number of buckets, or something else.
    """
    from spark_bridge.keyed.editing import check_edit, check_manner  # every task of a log would load it

    directory = log_directory(place)
    if directory is None:
        return None
    make_directory(directory)
    disk = RealLogDisk(directory)
    where, found, report = f"the checkpoint {directory}", disk.read(KEYED_MARK), None
    manner = {**query.manner, **placed}
    mark = {"query": query.identity, "manner": manner, "keeps": query.signatures}
    if query_of(directory) is not None:
        if found is None:
            message = f"{where} was used without this mark, for something else: give the query one of its own"
            raise CheckpointRefused(message, what="checkpoint", where=where)
        identity, before, shapes = told(directory / KEYED_MARK, found, kept_in)
        check_manner(before, manner, where=where)
        if identity != query.identity:
            report = check_edit(shapes, query.signatures, inside=not query.per_key, where=where)
    create_durably(disk, KEYED_MARK, json.dumps(mark).encode())
    return report


def query_of(directory: Path) -> str | None:
    """Return the id of the query whose checkpoint lies in *directory*, None if it has not begun.

    *Raises* `CheckpointRefused` if the file that has it is damaged.
    """
    metadata = directory / "metadata"
    return told(metadata, metadata.read_bytes(), lambda body: text(body["id"])) if metadata.is_file() else None


def kept_in(body: Any) -> tuple[str, dict[str, Any], list[Signature]]:
    """Return what a mark says of a keyed query: its identity, how it is run, what its operators keep."""
    keeps = body["keeps"]
    shapes = [tuple((text(p), text(name), int(v), tuple(fields)) for p, name, v, fields in each) for each in keeps]
    return text(body["query"]), {**body["manner"]}, shapes


def text(value: Any) -> str:
    """Return *value*, which must be a text. *Raises* `TypeError`."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text was expected")
    return value


def told(file: Path, data: bytes, read: Callable[[Any], A]) -> A:
    """Return what *read* makes of the JSON in *data*. *Raises* `CheckpointRefused` naming the *file* it is of."""
    try:
        return read(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointRefused(
            f"{file} is damaged ({described(error)}): bring it back from a copy of the checkpoint, or give the query a "
            f"new checkpoint, with which it begins anew",
            what=file.name,
            where=str(file),
        ) from error
