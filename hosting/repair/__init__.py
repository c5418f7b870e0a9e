"""Repair of stores that do not open: what is wrong, what a repair gives up, and the repair itself."""
