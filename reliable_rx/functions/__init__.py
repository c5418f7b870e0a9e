"""Analysis of the functions in a query: what they reach, change, remember and are known by."""
