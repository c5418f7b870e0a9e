"""Stores of partitions as folders on one machine: ``root/source/partition/epoch``, one SQLite store per grant.

A partition's folder has one entry per epoch that has been here: ``7`` is a store, ``7.tmp`` the claim of an epoch that
is still taking over. **The claim is the fence**: it is made before anything is read, and every store looks, inside each
of its transactions and again once the transaction is durable, whether an entry newer than its own is there; if so, that
is `LeaseLost` and nothing counts as durable. So whatever an owner was told is durable (and has shown, or acknowledged
to a source, because of that) was committed before the claim, and is in what is read after it. A former owner that goes
on commits at most what was on its way in each of its threads, and shows nothing of it.

That is also why the order in which the three files are copied can do no harm. A turn that was shown stands in the
journal, an input that was accepted in the log, and a checkpoint whose success let the journal be cut or the log be
trimmed is in the checkpoint that is copied. What one file has beyond the others was never promised: turns of the
journal that nobody saw are taken again, a checkpoint beyond the journal cuts it.

**Taking over.** After the claim the newest older store is looked at. If its lock is free, its owner has closed it or
is dead: it is renamed, whatever its size. If the lock is held, its owner is stopped or lost: it is copied beside
(`checkpoint.sqlite.copy`), and the copy renamed. After the rename the claims are looked at once more: of two that take
over at once, the newer has claimed before it looked for stores, so either it finds the store of the older one or the
older one finds its claim. A crash on the way leaves a claim, or a store nobody has written to; the next epoch begins
with the same stores. Claims are not synced: what they hold off dies with the machine.

**Cleaning.** Older claims are deleted as soon as there is a newer one, so that failed copies do not pile up on a full
disk; older stores once the new one is open, whoever still has them open: a former owner goes on
in files without names and needs none, since it is told by the claim. Rejected: markers of superseding or of handing
over inside the folders (the claim and the lock say both, and cannot be out of date), keeping the folder of a live owner
(a stopped one may stay for ever), leaving one store in place under a lock (a stopped owner keeps its lock).

All nodes must be on one machine and its own disk, as for every SQLite store; on several machines use PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from checkpoint.failures import unavailable
from checkpoint.format.envelope import KeyRing
from checkpoint.sqlite.copy import copy_store
from checkpoint.sqlite.files import DirectoryLock, RealDisk, make_directory
from checkpoint.sqlite.parts import is_whole
from checkpoint.sqlite.store import SqliteReader, SqliteStore
from hosting.partitioned.file_names import file_name, name_of, write_name
from hosting.partitioned.words import Epoch, Lease, Partition
from reliable_rx.errors import LeaseLost, StoreOwned, StoreUnavailable
from reliable_rx.failpoints import probe

TRIES_MAX = 20
_CLAIM = ".tmp"
_GONE = "%gone"
_SAFE = " +,=@()"


class FolderStores:
    """Keep the stores of a group's partitions under *root*, for nodes on one machine.

    *keys*, *retain* and *clock* are those of `checkpoint.SqliteStore`; without *keys* each partition has a key file.
    *group* is where commands find the group, and its name.

    >>> import tempfile
    >>> from hosting.partitioned.words import MemberId
    >>> jfk = Partition("flights", "JFK")
    >>> stores = FolderStores(tempfile.mkdtemp())
    >>> first = stores.open(Lease(jfk, MemberId("a"), Epoch(1)))
    >>> second = stores.open(Lease(jfk, MemberId("b"), Epoch(2)))
    >>> second.journal.append(1, 1, b"a turn")
    >>> first.journal.append(1, 1, b"the same turn")
    Traceback (most recent call last):
    reliable_rx.errors.LeaseLost: flights/JFK has been taken over by epoch 2 (this is epoch 1): stop and write nothing
    >>> first.close(); second.close()

    *Raises* `StoreUnavailable` when the disk fails; the same call may be made again.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        keys: KeyRing | None = None,
        retain: int = 3,
        clock: Callable[[], float] = time.time,
        group: tuple[str, str] | None = None,
    ) -> None:
        self._group = group
        self._root, self._keys, self._retain, self._clock = Path(root).absolute(), keys, retain, clock

    def open(self, lease: Lease, /) -> SqliteStore:
        """Take over the newest older store, closed or not; open this epoch's own again if it has one."""
        folder = self._folder(lease.partition)

        def fence() -> None:
            probe("take_over.fence")
            _check(folder, lease)

        with unavailable(str(folder)):
            try:
                _take(folder, lease)
                store = SqliteStore(
                    folder / str(lease.epoch), keys=self._keys, retain=self._retain, clock=self._clock, fence=fence
                )
            except (OSError, sqlite3.Error):
                _check(folder, lease)  # the reason behind a store that has gone
                raise
            with ExitStack() as undo:
                undo.callback(store.close)
                _check(folder, lease)
                probe("take_over.before_clean")
                _clean(folder, lease.epoch)
                undo.pop_all()
        store.group = self._group
        store.journal.repaired_at = ()  # no repair helps against the loss of turns of a partition
        return store

    def opened(self) -> list[Partition]:
        """Return the partitions in whose folder a store is whole, whoever lists them."""
        with unavailable(str(self._root)):
            folders = [each for each in self._root.glob("*/*") if each.is_dir() and not each.name.endswith(_GONE)]
            return sorted(Partition(name_of(each.parent), name_of(each)) for each in folders if _has_whole(each))

    def look(self, partition: Partition, /, *, claimed: bool = False) -> SqliteReader | None:
        """Open the newest store for looking only.

        What was read counts if `newest` is the same before `look` and after reading: a store that has been taken over
        may hold outputs that nobody was shown. *Raises* `StoreUnavailable` while it is being taken over.
        """
        folder = self._folder(partition)
        for _ in range(TRIES_MAX):
            newest, stores = _newest(folder), _stores(folder)
            if not newest:
                return None
            if stores and (claimed or stores[-1] == newest):
                try:
                    reader = SqliteStore.read_only(folder / str(stores[-1]), keys=self._keys)
                    reader.group = self._group
                    return reader
                except StoreUnavailable:
                    if _stores(folder) == stores and _newest(folder) == newest:
                        raise
        raise StoreUnavailable(f"{partition} is being taken over; look again soon", where=str(folder))

    def newest(self, partition: Partition, /) -> Epoch:
        """Return the newest epoch that has been here, if only to take over."""
        return Epoch(_newest(self._folder(partition)))

    def forget(self, partition: Partition, /) -> None:
        """Delete all stores of *partition* at once."""
        folder = self._folder(partition)
        gone = folder.with_name(folder.name + _GONE)
        with unavailable(str(folder)):
            shutil.rmtree(gone, ignore_errors=True)
            if not folder.exists():
                return
            with ExitStack() as locked:
                for epoch in _stores(folder):
                    locked.callback(DirectoryLock(folder / str(epoch)).release)
                folder.rename(gone)
            RealDisk(folder.parent).sync_directory()
            shutil.rmtree(gone)

    def close(self) -> None:
        """Do nothing: the stores share nothing that is open."""

    def _folder(self, partition: Partition) -> Path:
        return self._root / file_name(partition.source, safe=_SAFE) / file_name(partition.name, safe=_SAFE)


def _newest(folder: Path) -> int:
    """Return the newest epoch that has a store or a claim here."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    return max(map(_epoch, names), default=0)


def _epoch(name: str) -> int:
    """Return the epoch whose store or claim is called *name*, 0 for a file that is none of ours."""
    number = name.removesuffix(_CLAIM)
    return int(number) if number.isdecimal() else 0


def _stores(folder: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(folder) if name.isdecimal()) if folder.exists() else []


def _has_whole(folder: Path) -> bool:
    """Whether a store here was made to the end; one that is renamed meanwhile is looked for again."""
    for _ in range(TRIES_MAX):
        stores = _stores(folder)
        if any(is_whole(folder / str(each)) for each in stores):
            return True
        if stores == _stores(folder):
            return False
    return True


def _check(folder: Path, lease: Lease) -> None:
    """Raise `LeaseLost` unless the epoch of *lease* is the newest that has been here."""
    newest = _newest(folder)
    if newest == lease.epoch:
        return
    by = f"has been taken over by epoch {newest}" if newest else "has been forgotten"
    message = f"{lease.partition} {by} (this is epoch {lease.epoch}): stop and write nothing"
    raise LeaseLost(message, partition=lease.partition, epoch=lease.epoch, newest=Epoch(newest))


def _take(folder: Path, lease: Lease) -> None:
    """Make the store of *lease* exist, with all that the newest one before it holds."""
    mine = folder / str(lease.epoch)
    make_directory(folder)
    write_name(folder.parent, lease.partition.source)
    write_name(folder, lease.partition.name)
    if _newest(folder) > lease.epoch:
        _check(folder, lease)
    for _ in range(TRIES_MAX):
        if mine.exists():
            break
        _claim(folder, lease)
        try:
            _take_newest(folder, lease, mine)
        except FileNotFoundError:  # another one was there first: either it is newer, or its store is the newest now
            _check(folder, lease)
    else:
        raise StoreUnavailable(f"{lease.partition}: its stores come and go; try again", where=str(folder))
    RealDisk(folder).sync_directory()
    probe("take_over.after_rename")
    _check(folder, lease)


def _claim(folder: Path, lease: Lease) -> None:
    _claim_of(folder, lease.epoch).mkdir(exist_ok=True)
    probe("take_over.after_claim")
    _check(folder, lease)
    _sweep(folder, lease.epoch)


def _sweep(folder: Path, epoch: int) -> None:
    """Delete the claims before *epoch*, with what failed copies have left in them: they hold off nobody any more.

    Each is moved away first: its owner may be about to make it its store, which is then whole or not there.
    """
    for name in os.listdir(folder):
        gone = folder / name
        if name.endswith(_CLAIM) and 0 < _epoch(name) < epoch:
            with suppress(OSError):
                gone = gone.rename(folder / f"{name}{_GONE}")
        if gone.name.endswith(_GONE):
            shutil.rmtree(gone, ignore_errors=True)


def _claim_of(folder: Path, epoch: int) -> Path:
    return folder / f"{epoch}{_CLAIM}"


def _take_newest(folder: Path, lease: Lease, mine: Path) -> None:
    claim = _claim_of(folder, lease.epoch)
    stores = _stores(folder)
    if not stores:
        claim.rename(mine)
        return
    newest = folder / str(stores[-1])
    try:
        lock = DirectoryLock(newest)
    except StoreOwned:
        copy_store(newest, claim)
        probe("take_over.before_rename")
        claim.rename(mine)
        return
    try:
        _sync_logs(newest)
        probe("take_over.before_rename")
        newest.rename(mine)
    finally:
        lock.release()


def _sync_logs(store: Path) -> None:
    """What a killed owner wrote and did not sync can be read, and would be shown; so let it be durable first.

    Only the write-ahead logs: opening and closing a database file would cost a reader in this process its locks.
    """
    disk = RealDisk(store)
    for log in store.glob("*-wal"):
        disk.sync(log.name)


def _clean(folder: Path, epoch: int) -> None:
    """Delete what is older than *epoch*, and its claim; what cannot be deleted now is the next one's."""
    for name in os.listdir(folder):
        if name != str(epoch) and 0 < _epoch(name) <= epoch:
            shutil.rmtree(folder / name, ignore_errors=True)
