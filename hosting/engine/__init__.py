"""Deterministic engine: takes turns, gives outputs; no clock, thread, file or chance of its own."""
