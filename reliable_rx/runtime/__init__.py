"""Runtime of plans for any host: wiring, instances, rows, inner sequences. Knows no host."""
