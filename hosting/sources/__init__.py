"""Partitioned inputs: files, Kafka, a seeded generator with scripted faults, sequences in memory, a pushed stream."""

from hosting.sources.faults import End, Error, Fail, Fault, FaultySource, Stall
from hosting.sources.files import FileSource
from hosting.sources.generator import GeneratorSource
from hosting.sources.kafka import KafkaRecord, KafkaSource
from hosting.sources.memory import ListSource
from hosting.sources.ring import HashRing
from hosting.sources.script import Base, Merge, Split

__all__ = [
    "Base", "End", "Error", "Fail", "Fault", "FaultySource", "FileSource", "GeneratorSource", "HashRing",
    "KafkaRecord", "KafkaSource", "ListSource", "Merge", "Split", "Stall",
]  # fmt: skip
