"""Sources and partitions that a start finds under another name: what is new is read from its beginning, and told.

A position lies under the name of its source and partition. So what is renamed is new, and the records that were read
come once more, into states that are kept. Whether something was renamed nobody knows: one name less and one more is
what is seen. Rejected: refusing it (files come and go each day), comparing contents (a source may not give them again).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from hosting.sources.pushed import PushedStream

if TYPE_CHECKING:
    from hosting.edges.ingress import Intake


def renamed_sources(intake: Intake, positions: Collection[tuple[str, str]], *, read: Collection[str]) -> Iterator[str]:
    """Say which sources *intake* over stored *positions* lacks, and which new ones its queries *read*."""
    known = {source for source, _ in positions}
    gone = sorted({source for (source, _), at in intake.absent.items() if at} - intake.sources.keys())
    new = [
        name
        for name, source in intake.sources.items()
        if name in read and name not in known | intake.starts.declared.keys() and not isinstance(source, PushedStream)
    ]
    if gone and new:
        yield (
            f"source {shown_some(gone)} is not declared any more, and {shown_some(new)} is new to queries that go on: "
            f"it is read from its beginning, so if a source was renamed, its records come twice; give a source that "
            f"is read no other name, or say where a new one is to begin (start=)"
        )


def renamed_partitions(intake: Intake, told: Collection[tuple[str, str]]) -> Iterator[str]:
    """Say which sources have a partition less and one more that is read now, as a file has that was renamed.

    Of those that are gone a start has *told* before, and nobody reads a warning that comes each day.
    """
    listed, intake.told_gone = intake.lineages.keys(), intake.absent.keys() & told
    for source in [each for each in intake.sources if each not in listed and intake.late.end_of(each) is None]:
        gone = sorted(name for each, name in intake.absent.keys() - intake.told_gone if each == source)
        new = sorted(name for each, name in intake.unknown if each == source)
        if gone and new:
            intake.told_gone |= {(source, name) for name in gone}
            yield partition(source, gone, new)


# ---- what is said


def source_of_group(source: str, new: Sequence[str], queries: Sequence[str]) -> str:
    """Say what comes of a source of a group that was renamed: its queries live in stores that go by its name."""
    return (
        f"this group has read source {source!r}, which no query of this app reads any more, and {shown_some(new)} is "
        f"new: {shown_some(queries)} over it begins without state at its beginning, and its outputs have ids from 0 "
        f"on, so if a source was renamed, its records come twice, and outputs again under ids that were used; then "
        f"stop, and give the source its old name, with which its queries go on. If it was not, {OLD_STAYS}"
    )


def source_unread(source: str) -> str:
    """Say what comes of a source of a group that nothing reads any more."""
    return f"this group has read source {source!r}, and no query of this app does any more: {OLD_STAYS}"


OLD_STAYS = (
    "the queries that did are run by no node of this app, and their streams do not end; what they have stays in their "
    "stores, and declared again they go on"
)


def partition(source: str, gone: Sequence[str], new: Sequence[str]) -> str:
    """Say what comes of a partition that was renamed."""
    return (
        f"source {source!r} has no partition {shown_some(gone)} any more, and has {shown_some(new)}, which is "
        f"read from its beginning: if a file was renamed, its records come twice; give files that are read "
        f"no other names"
    )


def shown_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{', '.join(map(repr, names[:3]))}{more}"
