"""Inner sequences: what feeds the groups and windows that an operator owns.

A subject is one row together with the instances that read it: an idle group costs that row and nothing else. A
reference to it may sit in any state and is saved as an address, never as an object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from reliable_rx.query.query import Inner

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode

Address = tuple[Any, ...]
Subscriber = tuple[int, Any, Any]  # order, instance or None, leaf node or observer


class OwnKey:
    """The key of a group which no copy of it equals (a NaN, an object without ``__eq__``), told apart by a *number*.

    No value of a key mapper is equal to it, so that each of these begins a group, in every replay alike.
    """

    __slots__ = ("key", "number")

    def __init__(self, key: Hashable, number: int) -> None:
        self.key, self.number = key, number

    def __eq__(self, other: object) -> bool:
        return type(other) is OwnKey and other.number == self.number

    def __hash__(self) -> int:
        return self.number

    def __reduce__(self) -> tuple[Any, ...]:
        return (OwnKey, (self.key, self.number))

    def __repr__(self) -> str:
        return repr(self.key)


def given_key(key: Any) -> Any:
    """Return the key of a group as its key mapper has given it."""
    return key.key if type(key) is OwnKey else key


class Subject:
    """One live inner sequence: its owner, its key, and who reads it, in order of subscription."""

    __slots__ = ("ended", "epoch", "error", "is_over", "key", "node", "order", "owner", "saved", "subscribers")

    def __init__(self, owner: Instance | None, node: PlanNode | None, key: Hashable) -> None:
        self.owner = owner
        self.node = node
        self.key = key
        self.order = 0 if owner is None else owner.world.order()
        self.epoch = 0 if owner is None else owner.world.epoch
        self.subscribers: list[Subscriber] = []
        self.saved: Any = None
        self.ended = False
        self.error: Exception | None = None
        self.is_over: bool | None = None
        """While it opens, whether it is to end behind its first element; else None."""

    def feed(self, values: Sequence[Any]) -> None:
        """Give *values* to everyone who reads; who subscribes meanwhile, be it again, gets the next one."""
        subscribers = self.subscribers
        if len(subscribers) == 1:
            _, instance, leaf = subscribers[0]
            if instance is not None:
                deliver = leaf.deliver
                deliver(instance, values)
                return
        for value in values:
            subscribers = self.subscribers
            for reader in tuple(subscribers):
                _, instance, leaf = reader
                if self.subscribers is not subscribers and reader not in self.subscribers:
                    continue
                if instance is not None:
                    leaf.deliver(instance, (value,))
                else:
                    leaf.on_next(value)

    @property
    def is_read(self) -> bool:
        """Whether anybody reads it but what its owner has made for it: a time to live, a duration."""
        if self.owner is None or self.node is None or not getattr(self.node.op, "reads_own", False):
            return bool(self.subscribers)
        return any(not self._is_own(reader) for _, reader, _ in self.subscribers)

    def _is_own(self, reader: Instance | None) -> bool:
        """Whether *reader* is part of what the owner itself has subscribed to."""
        while reader is not None and not (reader.parent is self.owner and reader.sink is self.node):
            reader = reader.parent
        return reader is not None

    def end(self, error: Exception | None) -> None:
        """Complete, or fail with *error*, for everyone who reads and everyone who comes later."""
        self.ended, self.error = True, error
        if self.owner is not None:
            self.epoch = self.owner.world.epoch
        readers, self.subscribers = self.subscribers, []
        for _, instance, leaf in readers:
            if instance is not None:
                instance.end_leaf(leaf, error)
            else:
                tell_end(leaf, error)

    def abandon(self) -> None:
        """Its owner goes, and nobody reads it: who does so later finds it ended, as whoever has been recovered does."""
        if self.owner is not None:
            self.owner.world.forget(self)
            self.ended, self.epoch = True, self.owner.world.epoch

    def add(self, subscriber: Subscriber) -> None:
        self.subscribers.append(subscriber)

    def remove(self, instance: Any, leaf: Any) -> None:
        """Forget one reader; the owner hears when it was the last."""
        if instance is not None:
            self.release(instance)
        before = len(self.subscribers)
        self.subscribers = [s for s in self.subscribers if not (s[1] is instance and s[2] is leaf)]
        if len(self.subscribers) == before or self.owner is None or self.node is None:
            return
        if not self.subscribers or getattr(self.node.op, "reads_own", False):
            self.owner.reader_left(self.node)

    def release(self, instance: Instance) -> None:
        """Let an instance that was saved with this row have a row of its own."""
        if instance.unit is self:
            instance.world.touch(self)
            instance.unit = instance
            instance.epoch = self.epoch  # a snapshot that has this row has that of the reader in it
            instance.world.touch(instance)

    def release_all(self) -> None:
        for _, instance, _ in self.subscribers:
            if instance is not None:
                self.release(instance)

    @property
    def given_key(self) -> Any:
        """The key of a group as its key mapper has given it."""
        return given_key(self.key)

    @property
    def row_key(self) -> Any:
        """The key under which a store has this row."""
        return self.saved

    def address(self) -> Address:
        """Name this subject from the root of its standing query."""
        if self.owner is None or self.node is None:
            return ()
        return (*self.owner.address(), "subject", self.node.path, self.key)

    def reference(self) -> tuple[Address, Any, bool, Exception | None]:
        """Return what a saved reference says: how it is now, or how it was when the snapshot at work was taken."""
        if self.ended and self.epoch != SNAPSHOT.get():
            if self.owner is None and self.saved is not None:  # it was read out of a store, and its row was not
                return (self.saved, self.key, False, None)
            return ((), self.key, True, self.error)
        return (self.address(), self.key, False, None)


def tell_end(observer: Any, error: Exception | None) -> None:
    """Send the terminal notification to a plain observer."""
    if error is None:
        observer.on_completed()
    else:
        observer.on_error(error)


SNAPSHOT: ContextVar[int] = ContextVar("the epoch of the snapshot that is writing rows as they were", default=-1)
RESOLVE: ContextVar[Callable[[Address], Subject | None]] = ContextVar("resolve an inner sequence by address")


def restore_inner(address: Address, key: Hashable, ended: bool, error: Exception | None) -> Inner[Any, Any]:
    """Find the subject of a saved reference, or stand in for one that has ended."""
    found = None if ended else RESOLVE.get()(address)
    if found is None:
        found = Subject(None, None, key)
        found.ended, found.error = True, error
    return Inner(found)


def restore_leaf(address: Address, key: Hashable, ended: bool, error: Exception | None) -> Any:
    """The same for a reference inside a saved query."""
    return restore_inner(address, key, ended, error).node.op
