"""What is durable: codec, envelope, journal, stores. Imports `reliable_rx` only."""

from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.envelope import KeyRing, seal, unseal
from checkpoint.memory import MemoryStore
from checkpoint.postgres.store import PostgresReader, PostgresStore
from checkpoint.sealed_log.journal import Journal
from checkpoint.sealed_log.log import Log
from checkpoint.sqlite.store import SqliteReader, SqliteStore
from checkpoint.store import Checkpoint, GenerationInfo, Recovered, Segment, Store, StoreReader

__all__ = [
    "Checkpoint",
    "GenerationInfo",
    "Journal",
    "KeyRing",
    "Log",
    "MemoryStore",
    "PostgresReader",
    "PostgresStore",
    "Recovered",
    "Segment",
    "SqliteReader",
    "SqliteStore",
    "Store",
    "StoreReader",
    "decode",
    "digest",
    "encode",
    "seal",
    "unseal",
]
