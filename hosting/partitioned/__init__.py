"""Standing queries over partitioned sources on several nodes: one lease is one partition is one evaluator.

Imports nothing of the evaluator: `words` are values, `assign` are pure functions over them.
"""

from hosting.partitioned.words import (
    Assignment,
    Assignor,
    Epoch,
    Lease,
    Member,
    MemberId,
    Partition,
    Shard,
    Status,
)

__all__ = ["Assignment", "Assignor", "Epoch", "Lease", "Member", "MemberId", "Partition", "Shard", "Status"]
