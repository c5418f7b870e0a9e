"""Partitioned inputs: files, a seeded generator with scripted faults, sequences in memory, a durable pushed stream."""

from hosting.sources.files import FileSource

__all__ = ["FileSource"]
