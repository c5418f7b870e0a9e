"""Positions of groups: a durable vector each, who may write it, when to, and how to move it to another store.

store.py       what an offset store promises
table.py       its rules, as a pure machine over a table in memory
log.py         the durable log under the table: group commit, replay, compaction
logged.py      the two as an offset store; memory.py, sqlite.py and postgres.py keep its rows
committer.py   when to commit, and what
retention.py   forgetting groups that nobody uses
dual.py        two stores of one group
migration.py   from one store to another and back
"""

from checkpoint.offsets.committer import Committer
from checkpoint.offsets.dual import DualOffsets
from checkpoint.offsets.memory import MemoryOffsets
from checkpoint.offsets.migration import Migration, Phase, Setting
from checkpoint.offsets.postgres import PostgresOffsets
from checkpoint.offsets.retention import retire
from checkpoint.offsets.sqlite import SqliteOffsets
from checkpoint.offsets.store import Committed, Lease, LeaseAuthority, MovableOffsets, OffsetStore, Refusal, lag

__all__ = [
    "Committed",
    "Committer",
    "DualOffsets",
    "Lease",
    "LeaseAuthority",
    "MemoryOffsets",
    "Migration",
    "MovableOffsets",
    "OffsetStore",
    "Phase",
    "PostgresOffsets",
    "Refusal",
    "Setting",
    "SqliteOffsets",
    "lag",
    "retire",
]
