"""One mock cluster for all tests of a process."""

from __future__ import annotations

import pytest
from kafka_cluster import Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster()
