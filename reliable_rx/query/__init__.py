"""Queries as data: the tree, its fluent form, identity and explanation; nothing runs."""
