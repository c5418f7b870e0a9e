"""Bulk load: everything that a source holds into Parquet files, by many processes, restartable without duplicates.

export.py     all partitions, shared out to worker processes
partition.py  one partition: read, cut into files
feed.py       its events, waited for where they are due
files.py      the files of one partition: their names, who may write them, how one comes to its place
columns.py    values as columns: which there are, and what fits
"""

from hosting.bulk.export import export
from hosting.bulk.partition import Exported

__all__ = ["Exported", "export"]
