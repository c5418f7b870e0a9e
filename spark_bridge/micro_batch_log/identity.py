"""What a log is, fixed when it is made: its columns, its partitions and the key that shares rows out to them.

**How many partitions?** One, unless said otherwise. Then the log is totally ordered, as the manifests order it, and one
evaluator sees everything in that order. A log with a *key* and *partitions* N is N such logs in one: a row goes to
``pmod(hash(key), N)``, so all rows of a key are in one partition, in their order, and N nodes can share the log. N is
fixed for the life of the log, because a key that moved would leave its rows in two orders. Rejected: a partition per
task of Spark, of which the next batch, or the replay of this one, may have another number, over which keys move about.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reliable_rx.errors import CheckpointRefused
from spark_bridge.micro_batch_log.columns import check_columns, described, from_text, to_text
from spark_bridge.micro_batch_log.disk import LogDisk
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.names import LOG

FORMAT = 1
PARTITIONS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Identity:
    """What one log is."""

    id: str
    schema: Any
    partitions: int
    key: tuple[str, ...]

    def encoded(self) -> bytes:
        """Return what stands in the file ``log``; *columns* is for people."""
        body = {
            "format": FORMAT,
            "id": self.id,
            "partitions": self.partitions,
            "key": list(self.key),
            "columns": described(self.schema),
            "schema": to_text(self.schema),
        }
        return json.dumps(body, indent=1).encode()


def read_identity(disk: LogDisk, *, where: str) -> Identity | None:
    """Return what the log on *disk* is, None if there is none. *Raises* `CheckpointRefused` for a damaged one."""
    data = disk.read(LOG)
    if data is None:
        return None
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise ValueError(f"its format is {body['format']}, this version reads {FORMAT}")
        return Identity(body["id"], from_text(body["schema"]), body["partitions"], tuple(body["key"]))
    except (ValueError, KeyError, TypeError) as error:
        message = f"{where}: the file {LOG!r} does not say what the log is ({error})"
        raise CheckpointRefused(message, what=str(error), where=where) from error


def claim(
    disk: LogDisk, schema: Any, *, partitions: int | None = None, key: Sequence[str] | None = None, where: str
) -> Identity:
    """Return the identity of the log on *disk*, which is made if there is none, and is what is asked for.

    *partitions* and *key* that are None are taken as they are found. *Raises* `LogRefused` naming what differs.
    """
    found = read_identity(disk, where=where)
    if found is None:
        fresh = Identity(uuid.uuid4().hex, schema, partitions or 1, tuple(key or ()))
        check_sharing(fresh.partitions, fresh.key)
        try:
            disk.create(LOG, fresh.encoded())
        except FileExistsError:  # another driver has just made it
            return claim(disk, schema, partitions=partitions, key=key, where=where)
        return fresh
    disk.settle()
    check_columns(schema, found.schema, where=where)
    for what, is_, asked in (("partitions", found.partitions, partitions), ("key", list(found.key), key)):
        if asked is not None and is_ != (list(asked) if isinstance(asked, Sequence) else asked):
            message = f"{where} was made with {what}={is_!r}, not {asked!r}; say {what}={is_!r}, or use a new directory"
            raise LogRefused(message, where=where, found=is_, wanted=asked)
    return found


def check_sharing(partitions: int, key: Sequence[str]) -> None:
    """Check that several partitions have a key, and one has none. *Raises* `ValueError`."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise ValueError(f"partitions is {partitions}; a log has 1 to {PARTITIONS_MAX:,}")
    if (partitions > 1) != bool(key):
        raise ValueError(f"partitions is {partitions} and key is {list(key)}; several partitions need a key, one none")
