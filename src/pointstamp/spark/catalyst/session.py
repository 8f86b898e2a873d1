"""The settings of a Spark session that the meaning of an expression depends on."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings that are read when a view is defined, and are kept with it."""

    time_zone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False

    @classmethod
    def of(cls, spark: Any) -> Self:  # noqa: ANN401 - a Spark session, classic or Connect
        """Return the settings of a session."""

        def is_on(name: str) -> bool:
            return str(spark.conf.get(name)).lower() == "true"

        return cls(
            str(spark.conf.get("spark.sql.session.timeZone")),
            is_on("spark.sql.ansi.enabled"),
            is_on("spark.sql.caseSensitive"),
        )
