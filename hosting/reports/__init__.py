"""Reports on evaluators and nodes: incidents, log lines, statistics, status for other processes."""
