"""Evaluator: the loop around an engine, with group commit, checkpoints, recovery and calls."""
