"""What runs: engine, edges, evaluator, sources, sinks, command line. Imports `reliable_rx` and `checkpoint`."""
