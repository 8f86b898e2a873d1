"""How far a run or a query is: what ``query.progress()`` and ``run.status()`` return."""

from pointstamp.driver.status import InputStatus, KeptStatus, LoopStatus, OutputStatus, RunStatus

__all__ = [
    "InputStatus",
    "KeptStatus",
    "LoopStatus",
    "OutputStatus",
    "RunStatus",
]
