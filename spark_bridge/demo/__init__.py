"""The demo with Spark in it: the flights through Spark into the standing queries, some of which run on Spark as well.

feed.py      the flights as an airport's system would drop them: lines in files, some torn
frames.py    what Spark does: read the lines, clean them, windows of event time
keyed.py     which queries of the main job run on Spark too, and their rows beside the main job's
hosted.py    the app: logs in place of the file of flights, and Spark's driver as its companion
worker.py    the process that runs all of it, and that is killed
job.py       the command: once in peace without Spark, once with it under fire, and the comparison
"""
