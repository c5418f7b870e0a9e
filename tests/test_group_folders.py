"""Folders of the stores of groups, whatever these are called."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from lanes import every

from checkpoint import SqliteStore
from hosting.cli.command import main
from hosting.partitioned import folder_stores
from hosting.partitioned.opening import groups_with_stores, open_group
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from hosting.reports.partition_store import group_of
from reliable_rx.names import NAME_BYTES_MAX, check_name

NAMES = (
    "shop", "night shift", ".", "..", "...", ".hidden", "a.b", "~", "%", "%2E", "%x", "a%xb", "a/b", "../up", "a\\b",
    "-g", "*", "x" * NAME_BYTES_MAX, "/" * NAME_BYTES_MAX, "." * NAME_BYTES_MAX, "д" * 60, "д" * (NAME_BYTES_MAX // 2),
    "𝒟" * (NAME_BYTES_MAX // 4), "partitions", "offsets", "registry.sqlite", "name", "7",
)  # fmt: skip


@pytest.mark.parametrize("name", every(3, NAMES, commits=1), ids=lambda name: f"{name[:12]} {len(name)}")
def test_any_name_that_a_group_may_have(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The stores of its partitions lie where each command knows them for this group's, and its registry by its name."""
    where = tmp_path / "shared"
    opened = open_group(where, check_name("group", name))
    with opened.stores.open(Lease(Partition("orders", name), MemberId("me"), Epoch(1))) as store:
        assert isinstance(store, SqliteStore)
        directory = store.directory
        store.journal.append(1, 1, b"turn")
    opened.close()
    assert directory.relative_to(where / "partitions").parts[1] == "orders"
    assert group_of(directory) == (str(where), name)
    assert groups_with_stores(where) == [name]
    main(["status", "--store", str(where), f"--group={name}"])
    said = "".join(capsys.readouterr())
    assert "it knows nothing of the group, of which stores are here; restore it" in said, said  # no node was there


def test_no_two_names_have_one_folder(tmp_path: Path) -> None:
    """Also where they are cut."""
    long = ["д" * 120 + each for each in "абв"]
    for each in (*NAMES, *long):
        opened = open_group(tmp_path, each)
        opened.stores.open(Lease(Partition("orders", "a"), MemberId("me"), Epoch(1))).close()
        opened.close()
    assert all(one != other for one, other in pairwise(groups_with_stores(tmp_path)))
    assert set(groups_with_stores(tmp_path)) == {*NAMES, *long}


def test_a_store_that_is_renamed_while_it_is_looked_for_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest store of a partition was 1 when the folder was listed and is 2 when it is looked into."""
    (tmp_path / "1").mkdir()

    def moved(store: Path) -> bool:
        if store.name == "1":
            store.rename(tmp_path / "2")
        return store.name == "2"

    monkeypatch.setattr(folder_stores, "is_whole", moved)
    assert folder_stores._has_whole(tmp_path)
