"""Settings that every test shares: how many examples, and that none depends on the clock or on chance.

The examples of hypothesis are the same in every run, so that a commit is judged by what it changes. New ones
are looked for where there is time for it, with ``--hypothesis-profile=more`` and ``long``; what fails there
prints how it is repeated, and stays in the suite.
"""

import os

from hypothesis import HealthCheck, settings

from pointstamp.flow.plan import Plan

# No deadlines: the machines that run the tests are shared and noisy.
_quiet = [HealthCheck.too_slow]
settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=30, suppress_health_check=_quiet
)
for _name, _examples in (("more", 300), ("long", 2_000)):
    settings.register_profile(
        _name,
        deadline=None,
        derandomize=False,
        max_examples=_examples,
        print_blob=True,
        suppress_health_check=_quiet,
    )
settings.load_profile("default")


if os.environ.get("POINTSTAMP_CHECK_PLANS"):
    # Every flow of every test: its record is lowered once more when its plan is asked for.
    from pointstamp.dataflow.record import FlowRecord
    from pointstamp.plan.streams import Lowered
    from support import relowering

    _plan = FlowRecord.plan

    def _checked(record: FlowRecord) -> Plan:
        is_whole = not any(isinstance(each, Lowered) for each in record.written)
        if is_whole and record.written and len(record.written) != record.__dict__.get("checked"):
            record.__dict__["checked"] = len(record.written)
            relowering.check_record(record)
            relowering.check_schemas(record)
            relowering.check_structured(record)
        return _plan(record)

    FlowRecord.plan = _checked  # type: ignore[assignment, method-assign]
