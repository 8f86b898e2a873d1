"""Whether a flow can be sent to the executors, found out before Spark tries.

Spark pickles what its tasks need, and answers with an error that says neither whose function it was nor what
to do, below a traceback that it prints by itself. Here the same is tried first, by the same pickler, and who
cannot be sent is named. Nothing is kept: it is pickled twice, which is little beside starting a job.
"""

from pyspark import cloudpickle

from pointstamp.dataflow.plan import Plan
from pointstamp.errors import FlowError


def check_sendable(plan: Plan, sent: object) -> None:
    """FlowError where ``sent``, which holds the plan, cannot be pickled, with the operator that is why."""
    whole = _problem(sent)
    if whole is None:
        return
    for node in plan.nodes:
        found = _problem(node)
        if found is not None:
            raise FlowError(
                f"operator '{node.name}' of flow '{plan.name}' cannot be sent to the workers: {found}. "
                "Locks, open files, connections and sessions stay where they are made; make them inside of "
                "the function, or in a module that it imports."
            )
    raise FlowError(
        f"flow '{plan.name}' cannot be sent to the workers: {whole}. Its sources, its sink and its times are "
        "sent as they are; let them open files and connections where they are used."
    )


def _problem(value: object) -> str | None:
    """Why something cannot be pickled; None where it can."""
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # pickling raises whatever a class of the user's raises
        return str(error).strip().rstrip(".") or type(error).__name__
    return None
