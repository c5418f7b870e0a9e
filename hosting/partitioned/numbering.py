"""Check before a group begins: a source whose stored positions would mean other records is read by no node of the app.

Each partition checks that for itself as it is opened. But with another key there are partitions that nobody has opened,
and these would be read from their beginning, while others refuse. So a node asks the store of one partition first.
"""

from __future__ import annotations

from collections.abc import Iterable

from hosting.partitioned.past import Past
from hosting.partitioned.sections import Section, listing_of
from hosting.partitioned.words import Partition
from hosting.source_positions import read_otherwise, refusal


def check_numbering(sections: Iterable[Section], past: Past) -> None:
    """*Raises* `NondeterminismDetected` if a strict app counts records otherwise than those that were read.

    A partition that is listed now tells; where none is that has been opened, one that was.
    """
    for section in sections:
        opened = past.partitions(section.name)
        if section.whole or not section.options.get("strict", True) or not opened:
            continue
        for name, source in section.sources.items():
            names = [each.name for each in listing_of(source) if each.name in opened] or sorted(opened)
            stored = past.definitions(name, (Partition(section.name, each) for each in names))
            parts = read_otherwise(stored, source) if stored else ()
            if parts and past.is_used(section.name):
                raise refusal(name, source, parts, strict=True)
