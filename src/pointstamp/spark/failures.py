"""The failure of a Spark job in one sentence, with the setting to change.

A task that fails comes back as a Java stack trace with a Python one inside. The user needs one line of it: an
error of ours that a task raised, a package that the executors lack, a Python of another version, an executor
that died. The rest is in the executors' logs, where Spark keeps it.
"""

import re
from typing import Final

from pyspark import cloudpickle

from pointstamp import errors
from pointstamp.driver.sendable import pack_with
from pointstamp.errors import FlowError, PointstampError, TransportError
from pointstamp.flow.plan import Plan

_ENVIRONMENT: Final = (
    "Install the driver's environment on them, or ship it with spark.archives and set PYSPARK_PYTHON to the "
    "Python in it."
)
_LINE_CHARACTERS_MAX: Final = 400


def in_words(message: str, *, published: str = " Nothing was published.") -> PointstampError:
    """The error that the user should see for a message of Spark, with what became of the output."""
    ours = re.search(r"pointstamp\.errors\.(\w+): (.+)", message)
    if ours is not None:
        kind: type[PointstampError] = getattr(errors, ours[1], PointstampError)
        return kind(ours[2])
    missing = re.search(r"ModuleNotFoundError: No module named '([^'.]+)", message)
    if missing is not None:
        return FlowError(f"the Python of the executors has no package '{missing[1]}'. {_ENVIRONMENT}")
    python = re.search(r"PYTHON_VERSION_MISMATCH\]?.*?\((\d+, \d+)\).*?\((\d+, \d+)\)", message, re.DOTALL)
    if python is not None:
        worker, driver = (found.replace(", ", ".") for found in python.groups())
        return FlowError(f"the executors run Python {worker} and the driver {driver}. {_ENVIRONMENT}")
    program = re.search(r'Cannot run program "([^"]+)"', message)
    if program is not None:
        return FlowError(
            f"the executors cannot start Python: there is no '{program[1]}' on them. {_ENVIRONMENT}"
        )
    lost = re.search(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason: ([^\n]+))?", message)
    if lost is not None:
        why = (lost[2] or "no reason given").strip().rstrip(".")
        return TransportError(
            f"executor {lost[1]} died while the flow ran: {why}.{published} Look at its log; if it ran out "
            "of memory, raise spark.executor.memoryOverhead, which is where the memory of the workers is "
            "counted."
        )
    if "Python worker exited unexpectedly" in message:
        return TransportError(
            f"a worker's Python process died while the flow ran.{published} If it ran out of memory, raise "
            "spark.executor.memoryOverhead or the host's memory; otherwise look at the executor's log, with "
            "spark.sql.execution.pyspark.udf.faulthandler.enabled=true to see where it crashed."
        )
    return FlowError(f"Spark could not run the workers: {_main_line(message)}")


def cause_in_words(message: str) -> str:
    """Why a stream failed, in one line: the innermost condition that Spark names.

    >>> cause_in_words("[STREAM_FAILED] Query terminated: [FAILED_READ_FILE] cannot read a. SQLSTATE: KD001")
    'cannot read a.'
    """
    ours = re.search(r"pointstamp\.errors\.\w+: (.+)", message)
    if ours is not None:
        return ours[1]
    conditions = list(re.finditer(r"\[[A-Z]+_[A-Z_0-9.]+\] ", message))
    line = _main_line(message[conditions[-1].end() :] if conditions else message)
    return re.sub(r"\s*SQLSTATE: \w+", "", line).rstrip(". ") + "."


def _main_line(message: str) -> str:
    """The last line of a Python traceback in the message, or else its first line."""
    traced = re.search(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = traced[1].strip() if traced else next(iter(lines), "no reason given")
    return line if len(line) <= _LINE_CHARACTERS_MAX else line[:_LINE_CHARACTERS_MAX] + " ..."


# Whether a flow can be sent to the executors, found out before Spark tries.
#
# Spark pickles what its tasks need. If that fails, its error names neither the function nor a remedy, below a
# traceback that Spark prints. Here the same pickler tries it first, and the error names the operator that
# cannot be sent. Everything is then pickled twice, which costs little beside starting a job.


def check_sendable(plan: Plan, sent: object) -> None:
    """FlowError if ``sent``, which holds the plan, cannot be pickled; it names the operator to blame."""
    pack_with(cloudpickle.dumps, plan, sent)
