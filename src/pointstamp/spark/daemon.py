"""A daemon for Spark's Python workers, with modules loaded before the fork.

Spark starts one daemon for each executor, which forks a process for each worker; a worker then loads pyspark,
pyarrow, numpy and what its function needs, each time again. With ``spark.python.daemon.module`` set to this
module when the session starts, the daemon loads all that once, and a new worker has it when it is forked:
above all the workers that come after one has died.

pyspark's own daemon loads nothing beforehand, because a process should not fork beside threads of its own,
and does not know what it would load. Here that is known: no thread but those of jemalloc and OpenBLAS, which
see to their own locks and threads when the process forks.
"""

from pyspark import daemon


def load() -> None:
    """Load what a task of a flow loads."""
    import pyspark.worker  # noqa: F401 - these are loaded only to be there
    from pyspark.sql.pandas import serializers  # noqa: F401

    from pointstamp.spark import bounded, crew_task  # noqa: F401


if __name__ == "__main__":
    load()
    daemon.manager()
