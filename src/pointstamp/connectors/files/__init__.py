"""Folders of files as a source: discovery, grouping into units, reading.

``source`` is ``files(path)``. ``file_watch`` finds new files by ``inotify`` or by listing a ``folder``,
``wholeness`` decides whether a file is complete, and ``units`` which files are one unit. ``formats`` reads
Parquet, Arrow IPC, CSV and JSON lines; ``partitions`` are the names of Hive folders.
"""
