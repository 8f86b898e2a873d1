"""Whether a flow can be sent to the executors, found out before Spark tries.

Spark pickles what its tasks need, and answers with an error that says neither whose function it was nor what
to do, below a traceback that it prints by itself. Here the same is tried first, by the same pickler, and who
cannot be sent is named. Nothing is kept: it is pickled twice, which is little beside starting a job.
"""

from pyspark import cloudpickle

from pointstamp.flow.plan import Plan
from pointstamp.running.sendable import pack_with


def check_sendable(plan: Plan, sent: object) -> None:
    """FlowError where ``sent``, which holds the plan, cannot be pickled, with the operator that is why."""
    pack_with(cloudpickle.dumps, plan, sent)
