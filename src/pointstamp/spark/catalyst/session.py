"""The settings of a Spark session that the meaning of an expression depends on."""

from dataclasses import dataclass
from typing import Any, Final, Self

from pointstamp.spark.catalyst.python_batches import UTC_CONVERSIONS, Conversions

_OTHER_CONVERSIONS: Final = (
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
)
"""Settings with which Spark converts values for Python functions in another way."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings that are read when a view is defined, and are kept with it."""

    time_zone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False
    conversions: Conversions = UTC_CONVERSIONS
    """How the arguments and the results of Python functions are converted."""

    @classmethod
    def of(cls, spark: Any) -> Self:  # noqa: ANN401 - a Spark session, classic or Connect
        """Return the settings of a session."""

        def is_on(name: str, otherwise: str | None = None) -> bool:
            found = spark.conf.get(name) if otherwise is None else spark.conf.get(name, otherwise)
            return str(found).lower() == "true"

        zone = str(spark.conf.get("spark.sql.session.timeZone"))
        return cls(
            zone,
            is_on("spark.sql.ansi.enabled"),
            is_on("spark.sql.caseSensitive"),
            Conversions(
                zone,
                is_on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
                is_on("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
                tuple(name for name in _OTHER_CONVERSIONS if is_on(name, "false")),
            ),
        )
