"""What a node and the coordinator say to each other: a beat, and its answer.

Either may be lost, late, out of order or come twice. So beats are numbered by their node: the coordinator takes no
report that is older than one it has, and a node no answer to a beat before one that was answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hosting.partitioned.words import Epoch, MemberId, Partition, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a node says of itself; see `hosting.partitioned.words.Member`. *tag* is for people: a host's name, say.

    *offsets* is the setting of a migration that it was started with (`checkpoint.offsets.migration`): ``old``, ``dual``
    or ``new``; None says nothing.
    """

    instance: str | None = None
    tag: str = ""
    room: str | None = None
    capacity: int = 1
    sources: frozenset[str] | None = None
    partitions: frozenset[Partition] | None = None
    offsets: str | None = None

    def __post_init__(self) -> None:
        if self.offsets not in (None, "old", "dual", "new"):
            raise ValueError(f"offsets is {self.offsets!r}; the settings of a migration are old, dual and new")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A node's report. Without a *member* it asks to be let in; *token* tells a repeated call from a second node."""

    number: int
    token: str
    member: MemberId | None = None
    profile: Profile = field(default_factory=Profile)
    holds: Mapping[Partition, tuple[Epoch, Status]] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the beat of the same number: what the member is to hold, ``OPEN`` or ``CLOSING``, and nothing else.

    *fenced*: it is no member any longer: drop everything, commit nothing, come back under another id. *replaced*: not
    even that, for a newer process has the name of its instance.
    """

    number: int
    member: MemberId
    session_s: float
    grants: Mapping[Partition, tuple[Epoch, Status]] = field(default_factory=dict)
    fenced: bool = False
    replaced: bool = False
