"""Event time: watermarks, reordering, and a clock of its own for each query."""
