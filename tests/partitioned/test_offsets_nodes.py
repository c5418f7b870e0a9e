"""A group of real nodes moves its positions to another store and back, node by node, while nodes are killed.

The six steps of a migration are commands, and between them nodes are started with their next setting, as somebody
would do it; most of them die of SIGKILL, one in the midst of a dual commit, when one store has it and the other not.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import cli
from node_app import COUNT
from node_harness import GROUP, KILLED, Cluster, cluster
from postgres_server import PostgresServer

from checkpoint.offsets import Committed
from hosting.partitioned.opening import lease_authority, open_offsets

PORTION = 15


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as found:
        yield found


class Move:
    """The stores of positions *old* and *new*, the commands over both, and nodes of each setting."""

    def __init__(self, nodes: Cluster, new: str) -> None:
        self.nodes, self.old, self.new, self.came = nodes, str(nodes.folder / "group"), new, 0

    def step(self, command: str, *, code: int = 0) -> str:
        """Take the next step there (``migrate``) or back (``rollback``); return what it says."""
        places = ("--store", self.old, "--from", self.old, "--to", self.new)
        done = cli("offsets", command, *places, cwd=self.nodes.folder, code=code)
        return f"{done.stdout}{done.stderr}"

    def start(self, name: str, setting: str, *, faults: str = "") -> None:
        """Start a node with *setting*."""
        self.nodes.start(name, "--offsets", setting, "--new-offsets", self.new, faults=faults)
        self.nodes.until(lambda: name in self.nodes.tags(), f"{name} among the members")

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        self.nodes.signal(name, number)
        self.nodes.until(lambda: self.nodes.nodes[name].exitcode is not None, f"the end of {name}")

    def more(self, name: str) -> None:
        """Wait until *name* holds everything, and let some more events come."""
        self.nodes.until(lambda: list(self.nodes.owners().values()) == [name] * 3, f"all partitions with {name}")
        self.came += PORTION
        self.nodes.begin(events_max=self.came)

    def go_on(self, name: str) -> None:
        """Let some more events come, and wait until *name* has taken and written them."""
        self.more(name)
        self.nodes.until(lambda: self.nodes.written_by(name), f"records of {name}")

    def until_committed(self, *stores: str) -> None:
        """Wait until each of *stores* has the positions behind all events that have come."""

        def committed() -> bool:
            return all(set(self.positions(where).values()) == {self.came} for where in stores)

        self.nodes.until(committed, f"positions {self.came} in {' and '.join(stores)}")

    def until_claimed(self, name: str, where: str) -> None:
        """Wait until *name* has every partition, and has fenced its earlier epochs at *where*."""

        def claimed() -> bool:
            group, stored = self.nodes.group(), self.stored(where)
            return group is not None and self.nodes.owners() == dict.fromkeys(stored, name) and all(
                stored[each.name].epoch == hold.epoch for each, hold in group.holds.items()
            )  # fmt: skip

        self.nodes.until(claimed, f"claims of {name} in {where}")

    def positions(self, where: str) -> Mapping[str, int]:
        return {name: each.position for name, each in self.stored(where).items()}

    def stored(self, where: str) -> Mapping[str, Committed]:
        """Return what is stored at *where*, whoever is in charge of it."""
        leases = lease_authority(self.nodes.shared.registry, GROUP)
        with closing(open_offsets(where, leases)) as store:
            return {name: each for (_, name), each in store.stored(GROUP).items()}


@pytest.mark.slow
def test_there_and_back(nodes: Cluster) -> None:
    """S16: nodes of every setting are killed between and within the steps; nothing is lost, and positions agree."""
    check_there_and_back(Move(nodes, str(nodes.folder / "new")))


@pytest.mark.slow
def test_to_postgres_and_back(nodes: Cluster, postgres: PostgresServer) -> None:
    """S16: the same, from a folder into a database and back."""
    check_there_and_back(Move(nodes, postgres.new_database()))


def check_there_and_back(move: Move) -> None:
    nodes, old, new = move.nodes, move.old, move.new
    # to the new store
    move.start("first", "old")
    move.go_on("first")
    assert "group node_app: dual to new (it was: old)" in move.step("migrate")
    assert "runs with setting old; restart it with dual first" in move.step("migrate", code=1)
    move.start("second", "dual", faults="offsets.between:kill@7")  # its first commit is in the new store alone
    move.end("first")
    move.until_claimed("second", old)
    move.more("second")
    nodes.until(lambda: nodes.nodes["second"].exitcode == KILLED, "the death of the second between the two stores")
    ahead, behind = move.positions(new), move.positions(old)
    assert ahead.keys() == behind.keys() and sum(ahead.values()) > sum(behind.values())
    move.start("third", "dual")
    move.go_on("third")
    move.until_committed(new, old)
    # on it
    assert "group node_app: new (it was: dual to new)" in move.step("migrate")
    move.start("fourth", "new")
    move.end("third")
    move.go_on("fourth")
    move.until_committed(new)
    assert max(move.positions(old).values()) == move.came - PORTION
    assert "ask " in cli("offsets", "show", "--store", old, cwd=nodes.folder, code=1).stderr
    # and back
    assert "group node_app: dual to old (it was: new)" in move.step("rollback")
    move.start("fifth", "dual")
    move.end("fourth")
    move.go_on("fifth")
    move.until_committed(new, old)
    assert "group node_app: old (it was: dual to old)" in move.step("rollback")
    move.start("sixth", "old")
    move.end("fifth", signal.SIGTERM)
    move.go_on("sixth")
    nodes.begin()
    nodes.finish()
    nodes.check(losses=4)
    said = cli("offsets", "show", "--store", old, "--json", cwd=nodes.folder).stdout
    assert {each["position"] for each in json.loads(said)["positions"]} == {COUNT}
