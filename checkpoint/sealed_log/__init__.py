"""Sealed records of a store, wherever its rows are kept: generations, journal and pushed logs."""
