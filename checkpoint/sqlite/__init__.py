"""Store in a folder: three SQLite files, a seal key and a lock."""
