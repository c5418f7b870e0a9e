"""Check before a group begins: a source whose stored positions would mean other records is read by no node of the app.

Each partition checks that for itself as it is opened. But with another key there are partitions that nobody has opened,
and these would be read from their beginning, while others refuse. So a node asks the store of one partition first.
"""

from __future__ import annotations

from collections.abc import Iterable

from hosting.evaluator.source_positions import refusal
from hosting.partitioned.past import Past
from hosting.partitioned.sections import Section
from hosting.sources.numbering import reading_of, renumbered_since
from reliable_rx.reliable import Source


def check_numbering(sections: Iterable[Section], past: Past) -> None:
    """*Raises* `NondeterminismDetected` if a strict app counts records otherwise than those that were read.

    Each source is looked at before a partition of it is opened, so that all have what it was then.
    """
    for section in sections:
        for name, source in section.sources.items():
            _check(section, name, source, past)


def _check(section: Section, name: str, source: Source, past: Past) -> None:
    reading = reading_of(source, anew=True)
    if section.whole or not section.options.get("strict", True):
        return
    stored = past.definitions(section.name, name)
    parts = renumbered_since(stored, reading, source) if stored else ()
    if parts and past.is_used(section.name):
        raise refusal(name, source, parts, strict=True)
