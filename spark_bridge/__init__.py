"""What meets Spark: the only package that imports pyspark. It is empty until the Spark bridge is built."""
