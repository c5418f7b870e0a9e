"""What is durable: codec, envelope, journal, stores. Imports `reliable_rx` only."""
