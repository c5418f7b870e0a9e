"""The demo: a year of real flights out of New York, eight standing queries, and a process that is killed all the time.

data.py      where the flights and the weather come from, and what an event is
queries.py   what a person running an airport would want to know
airport.py   both as an `App`, with a file for every stream
worker.py    the process that hosts it, and that is killed
job.py       the command: once in peace, once under fire
verdict.py   the comparison, record by record
tables.py    the results as text
chart.py     the results as a picture
"""
