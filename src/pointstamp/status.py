"""The status of a run or a query: results of ``progress()`` and ``status()``."""

from pointstamp.driver.status import InputStatus, KeptStatus, LoopStatus, OutputStatus, RunStatus

__all__ = [
    "InputStatus",
    "KeptStatus",
    "LoopStatus",
    "OutputStatus",
    "RunStatus",
]
