"""Nodes that share the partitions of a topic: our leases say who reads what, and the brokers are never asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

from kafka_cluster import PARTITIONS, Cluster, eventually

from hosting import App, CallbackSink, Node, Place, Timing, open_group

Came = dict[str, list[tuple[int, int]]]


def app_over(cluster: Cluster, topic: str, came: Came) -> App:
    def shown(place: Place) -> CallbackSink:
        return CallbackSink(lambda n, value: came.setdefault(place.partition.name, []).append((n, value)))

    app = App(checkpoint_interval_s=0.05)
    records = app.source("topic", lambda: cluster.source(topic, group="nodes", commit_interval_s=0.01))
    app.query("sums", records.scan(lambda total, n: total + n, 0))
    app.sink("sums", shown)
    return app


@contextmanager
def node(folder: Path, app: App) -> Iterator[Node]:
    shared = open_group(folder, "g")
    made = Node(app, *shared, group="g", timing=Timing(gather_s=0.0), commit_interval_s=0.05)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join(60)
        shared.close()
        assert not thread.is_alive()


def test_two_nodes_share_a_topic_and_hand_it_over(cluster: Cluster, tmp_path: Path) -> None:
    """Each reads half of the partitions; when one leaves in order the other goes on behind its last record, and the
    brokers' tools see how far the group is, whoever read what."""
    topic, came = cluster.topic(), Came()

    def all_have(count: int) -> bool:
        return all(len(came.get(name, ())) == count for name in PARTITIONS)

    with node(tmp_path, app_over(cluster, topic, came)) as stays:
        with node(tmp_path, app_over(cluster, topic, came)) as leaves:
            eventually(lambda: len(stays.agents) == len(leaves.agents) == 2)
            for name in PARTITIONS:
                cluster.produce(topic, range(50), int(name))
            eventually(lambda: all_have(50))
        for name in PARTITIONS:
            cluster.produce(topic, range(50, 100), int(name))
        eventually(lambda: all_have(100))
        eventually(lambda: cluster.committed(topic, "nodes") == dict.fromkeys(PARTITIONS, 100))
    for name in PARTITIONS:
        assert came[name] == list(enumerate(accumulate(range(100))))
