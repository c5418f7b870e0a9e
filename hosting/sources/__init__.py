"""Partitioned inputs: files, a seeded generator, a durable pushed stream."""
