"""Whether a flow can be sent to the executors, found out before Spark tries.

Spark pickles what its tasks need. If that fails, its error names neither the function nor a remedy, below a
traceback that Spark prints. Here the same pickler tries it first, and the error names the operator that
cannot be sent. Everything is then pickled twice, which costs little beside starting a job.
"""

from pyspark import cloudpickle

from pointstamp.flow.plan import Plan
from pointstamp.running.sendable import pack_with


def check_sendable(plan: Plan, sent: object) -> None:
    """FlowError if ``sent``, which holds the plan, cannot be pickled; it names the operator to blame."""
    pack_with(cloudpickle.dumps, plan, sent)
