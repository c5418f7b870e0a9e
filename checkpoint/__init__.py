"""What is durable: codec, envelope, journal, stores. Imports `reliable_rx` only."""

from checkpoint.codec import decode, digest, encode
from checkpoint.envelope import KeyRing, seal, unseal
from checkpoint.journal import Journal
from checkpoint.log import Log
from checkpoint.memory import MemoryStore
from checkpoint.postgres import PostgresReader, PostgresStore
from checkpoint.sqlite import SqliteReader, SqliteStore
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
