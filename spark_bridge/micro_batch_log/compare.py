"""Whether a batch that comes again has the rows it had.

Mostly it has them byte for byte, and the digests say so. Otherwise rows are compared one by one, as a bag: Spark may
cut a batch into other tasks, and shuffle it into another order, and it is still the same batch. Only then are rows
turned into Python values, so what is rare is what is slow.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_bridge.micro_batch_log.manifest import Manifest, Part, digest_of
from spark_bridge.micro_batch_log.parts import open_part
from spark_bridge.micro_batch_log.view import LogView


@dataclass(frozen=True, slots=True)
class Difference:
    """What a batch had the first time and has now."""

    first_digest: str
    digest: str
    only_first: int
    only_now: int


def difference(view: LogView, first: Manifest, parts: Sequence[Part]) -> Difference | None:
    """Return how *parts*, which come as the batch of the manifest *first*, differ from it; None if they do not."""
    now = Manifest(first.number, first.query, first.batch, first.before, tuple(sorted(parts, key=lambda p: p.task)))
    if now.digest == first.digest:
        return None
    before, after = _bag(view, first), _bag(view, now)
    if before is None or after is None or before == after:
        return None
    counts = ((before - after).total(), (after - before).total())
    return Difference(_bag_digest(before), _bag_digest(after), *counts)


def _bag(view: LogView, manifest: Manifest) -> Counter[bytes] | None:
    """Return the digests of all rows, None if they have been forgotten meanwhile."""
    bag: Counter[bytes] = Counter()
    for part in manifest.parts:
        file = open_part(view, manifest, part)
        if file is None:
            return None
        for index, (partition, _) in enumerate(part.chunks):
            bag.update(_row_digest(partition, row) for row in file.get_batch(index).to_pylist())
    return bag


def _row_digest(partition: int, row: Any) -> bytes:
    return hashlib.blake2b(repr((partition, row)).encode(), digest_size=16).digest()


def _bag_digest(bag: Counter[bytes]) -> str:
    return digest_of(b"".join(sorted(bag.elements())))
