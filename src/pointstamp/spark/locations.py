"""Locations of files for both Spark and this process.

A path without a scheme is a folder of this host's file system; one with a scheme is opened by ``storage_at``
on the driver and on each worker, and by Spark when it reads: the string travels, the connection does not. So
it must be an address that both know: ``file://``, ``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``, with the
fsspec package for it on the driver and the executors (s3fs, gcsfs, adlfs; HDFS comes with pyarrow and needs
Hadoop's libraries), and with Spark's connector and credentials of its own. ``memory://`` is one process's,
which no executor sees.
"""

import os
import re
from typing import Final

from pointstamp.connectors.staging import folder_name as folder_name
from pointstamp.errors import FlowError

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Spark reads these characters in a path as a pattern.
_PATTERN: Final = re.compile(r"[*?{}\[\]\\]")


def spark_address(path: str) -> str:
    """The address of a folder for Spark; FlowError for a path that Spark or the workers cannot use.

    >>> spark_address("/data/out/"), spark_address("s3a://bucket/out/")
    ('file:///data/out', 's3a://bucket/out')
    """
    if _PATTERN.search(path):
        raise FlowError(
            f"the output path '{path}' has one of the characters * ? {{ }} [ ] \\, which Spark reads as "
            "a pattern. Choose a path without them."
        )
    if path.startswith("memory:"):
        raise FlowError(
            f"the output path '{path}' is in the memory of this process, which executors cannot read. Give a "
            "folder that driver and executors share."
        )
    if _SCHEME.match(path):
        return path.rstrip("/")
    # With the scheme, because a path without one is HDFS for Spark where that is the default.
    return f"file://{os.path.abspath(path)}"
