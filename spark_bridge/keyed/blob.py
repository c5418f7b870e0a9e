"""A bucket as bytes: a format version, and under a seal the query it is of and what the bucket holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import Any

from checkpoint.format.codec import decode_data, encode
from checkpoint.format.salvage import Unreadable
from reliable_rx.errors import CheckpointRefused
from reliable_rx.runtime.signatures import Signature
from spark_bridge.keyed.seals import Seals

MAGIC, VERSION = b"RRXK", 3
HEAD = MAGIC + VERSION.to_bytes(2, "big")
DIGEST_BYTES = 16
Waiting = tuple[float, int, str, Any]
"""An event whose time has not come: its time, its sequence id, its source, its value."""


@dataclass
class Content:
    """What a bucket holds: the fields are the format.

    *shape* is the signature of a chain's rows, and None if they are those of engines, whose plans are in *signatures*.
    Keys that come later have ids from *first_id* on.
    """

    clock: float = -inf
    rows: dict[Any, Any] = field(default_factory=dict)
    dues: dict[Any, float] = field(default_factory=dict)
    waiting: dict[Any, list[Waiting]] = field(default_factory=dict)
    late: int = 0
    first_id: int = 0
    manner: dict[str, Any] = field(default_factory=dict)
    shape: Signature | None = None
    signatures: dict[int, Signature] = field(default_factory=dict)


def sealed(content: Content, identity: str, seals: Seals) -> bytes:
    """Return *content* as the blob of a bucket of the query *identity*."""
    fields = (getattr(content, name) for name in content.__dataclass_fields__)
    return HEAD + seals.sealed(short(identity.encode()) + encode(tuple(fields)), kind="bucket")


def short(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def opened(blob: bytes, identity: str, seals: Seals) -> tuple[Content, bool, tuple[Unreadable, ...]]:
    """Return what is in a blob, whether it is of the query *identity*, and the parts that cannot be read.

    *Raises* `CheckpointRefused` before anything of it is read, if it is damaged, of another format, or sealed with
    another key.
    """
    blob = bytes(blob)
    if blob[: len(MAGIC)] != MAGIC or len(blob) < len(HEAD):
        raise CheckpointRefused("the state of a bucket does not begin as one does", what="format", where="bucket")
    version = int.from_bytes(blob[len(MAGIC) : len(HEAD)], "big")
    if version != VERSION:
        raise CheckpointRefused(f"the bucket has format {version}, not {VERSION}", what="version", where="bucket")
    data = seals.unsealed(blob[len(HEAD) :], kind="bucket")
    fields, lost = decode_data(data[DIGEST_BYTES:])
    return Content(*fields), data[:DIGEST_BYTES] == short(identity.encode()), lost
