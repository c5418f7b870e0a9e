"""Partitioned inputs: files, a seeded generator with scripted faults, sequences in memory, a durable pushed stream."""

from hosting.sources.faults import End, Error, Fail, Fault, FaultySource, Stall
from hosting.sources.files import FileSource
from hosting.sources.generator import GeneratorSource
from hosting.sources.memory import ListSource

__all__ = ["End", "Error", "Fail", "Fault", "FaultySource", "FileSource", "GeneratorSource", "ListSource", "Stall"]
