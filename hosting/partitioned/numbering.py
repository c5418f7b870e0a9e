"""Check before a group begins: a source whose stored positions would mean other records is read by no node of the app.

Each partition checks that for itself as it is opened. But with another key there are partitions that nobody has opened,
and these would be read from their beginning, while others refuse. So a node asks the store of one partition first.
"""

from __future__ import annotations

from collections.abc import Iterable

from hosting.partitioned.past import Past
from hosting.partitioned.sections import Section
from hosting.source_positions import read_otherwise, refusal


def check_numbering(sections: Iterable[Section], past: Past) -> None:
    """*Raises* `NondeterminismDetected` if a strict app counts records otherwise than those that were read."""
    for section in sections:
        if section.whole or not section.options.get("strict", True):
            continue
        for name, source in section.sources.items():
            stored = past.definitions(section.name, name)
            parts = read_otherwise(stored, source) if stored else ()
            if parts and past.is_used(section.name):
                raise refusal(name, source, parts, strict=True)
