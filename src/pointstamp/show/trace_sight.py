"""A trace as a dashboard shows it: stepped through, with the models' state beside it."""

from pointstamp.dashboard.sight import Json, SightError
from pointstamp.judge.recorded import RecordedRun, about_recorded


class TraceSight:
    """A recorded run."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run

    @property
    def is_over(self) -> bool:
        """It is shown until it is closed."""
        return False

    def about(self) -> Json:
        """The flow, how the run ended, and what the judge says."""
        return about_recorded(self._run)

    def moment(self) -> Json:
        """Nothing happens any more."""
        return {}

    def history(self, since: float) -> Json:
        """The events, in their order."""
        del since
        return {"events": self._run.steps}

    def why(self, output: str) -> Json:
        """The page has all that there is to know."""
        raise SightError(f"a trace does not work, so nothing holds output '{output}' back.")

    def metrics(self) -> str:
        """There are none."""
        return ""

    def act(self, what: str, given: str) -> str:
        """A trace cannot be told anything."""
        raise SightError(f"a trace cannot be told '{what} {given}'.")
