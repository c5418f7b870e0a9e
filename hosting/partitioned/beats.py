"""What a node and the coordinator say to each other: a beat, and its answer.

Either may be lost, late, out of order or come twice. So beats are numbered by their node: the coordinator takes no
report that is older than one it has, and a node no answer to a beat before one that was answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hosting.partitioned.words import Epoch, Failure, MemberId, Partition, Shard, Status
from reliable_rx.names import check_name


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


def checked(profile: Profile) -> Profile:
    """Return *profile* with plain names, as the group keeps and shows them. *Raises* as `check_name`.

    Rejected: to check whenever one is made, also of what is stored: a group would not open for a name that it has had.
    """
    for each in profile.partitions or ():
        check_name("partition", each.name)
    return replace(
        profile,
        instance=None if profile.instance is None else check_name("instance", profile.instance),
        tag=check_name("tag", profile.tag) if profile.tag != "" else "",
        room=None if profile.room is None else check_name("room", profile.room),
    )


@dataclass(frozen=True, slots=True)
class Catalog:
    """The partitions that a node's app lists, by a *version* that all nodes give that list the same partitions."""

    version: str
    shards: Mapping[Partition, Shard]


def catalog_of(shards: Iterable[Shard]) -> Catalog:
    """Return the catalog of *shards*. What they weigh, and follow, changes no version: it may change all the time.

    >>> one, two = (Shard(Partition("flights", name)) for name in ("JFK", "LGA"))
    >>> catalog_of([one, two]).version == catalog_of([two, one]).version != catalog_of([one]).version
    True
    """
    listed = {each.partition: each for each in shards}
    names = hashlib.sha256()
    for each in sorted(listed):
        names.update(f"{len(each.source)}:{each.source}{len(each.name)}:{each.name}".encode("utf-8", "surrogatepass"))
    return Catalog(names.hexdigest()[:8], listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A node's report. Without a *member* it asks to be let in; *token* tells a repeated call from a second node.

    *catalog* is what its app lists; None: as it was. *failing* are the partitions that it cannot run, *trouble* is what
    else fails on it.
    """

    number: int
    token: str
    member: MemberId | None = None
    profile: Profile = field(default_factory=Profile)
    holds: Mapping[Partition, tuple[Epoch, Status]] = field(default_factory=dict)
    leaving: bool = False
    catalog: Catalog | None = None
    failing: Mapping[Partition, Failure] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the beat of the same number: what the member is to hold, ``OPEN`` or ``CLOSING``, and nothing else.

    *fenced*: it is no member any longer: drop everything, commit nothing, come back under another id. *replaced*: not
    even that, for a newer process has the name of its instance. *catalogs* counts the catalogs that the group has
    heard of: when it grows, somebody lists something else, and so may this member's sources by now. *identity* is the
    group's, which tells it from others of its name.
    """

    number: int
    member: MemberId
    session_s: float
    grants: Mapping[Partition, tuple[Epoch, Status]] = field(default_factory=dict)
    fenced: bool = False
    replaced: bool = False
    catalogs: int = 0
    identity: str = ""
