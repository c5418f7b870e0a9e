"""Store in PostgreSQL: rows of one database, for owners on many machines."""
