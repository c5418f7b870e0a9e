"""Check before a group begins: a source whose stored positions would mean other records is read by no node of the app.

Each partition checks that for itself as it is opened. But with another key there are partitions that nobody has opened,
and these would be read from their beginning, while others refuse. So a node asks the store of one partition first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from checkpoint.codec import decode
from checkpoint.store import StoreReader
from hosting.partitioned.keys import Key, key_of
from hosting.partitioned.sections import Section, listing_of
from hosting.partitioned.words import Partition
from hosting.source_positions import read_otherwise, refusal
from hosting.sources.fingerprint import Fingerprint, Versions
from reliable_rx.errors import CheckpointRefused

LOOKED_AT_MAX = 4
Look = Callable[[Partition], Any]
"""Opens the store of a partition for looking only; None if it has none."""


def check_numbering(sections: Iterable[Section], known: Collection[Key], look: Look) -> None:
    """*Raises* `NondeterminismDetected` if a strict app counts records otherwise than the *known* positions.

    A partition that is listed now tells; where none is that has been read, one that was.
    """
    for section in sections:
        for name, source in section.sources.items():
            read = {partition for of, partition in known if of == key_of(section.name, name, "")[0]}
            if section.whole or not section.options.get("strict", True) or not read:
                continue
            listed = [each.name for each in listing_of(source) if each.name in read]
            stored = _stored(name, [Partition(section.name, each) for each in listed or sorted(read)], look)
            parts = read_otherwise(stored, source) if stored else ()
            if parts:
                raise refusal(name, source, parts, strict=True)


def _stored(source: str, partitions: Iterable[Partition], look: Look) -> Versions:
    for partition, _ in zip(partitions, range(LOOKED_AT_MAX), strict=False):
        reader = look(partition)
        if reader is not None:
            with reader as store:
                found = _of_store(store).get(source)
            if found:
                return tuple(Fingerprint(*each) for each in found)
    return ()


def _of_store(store: StoreReader) -> dict[str, Any]:
    try:
        recovered = store.recover()
        found: dict[str, Any] = {} if recovered is None else decode(recovered.meta).get("definitions", {})
    except CheckpointRefused:  # its own start tells
        return {}
    return found
