"""Standing queries written with plain Rx operators, run so that nothing is lost."""
