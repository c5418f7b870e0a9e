"""Checks of what is to be hosted: queries, names, arguments, all before the first event."""
