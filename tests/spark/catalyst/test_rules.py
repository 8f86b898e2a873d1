"""The rules of Catalyst that are called by name exist, and one that does not is named."""

import pytest
from pyspark.sql import SparkSession

from pointstamp.errors import SqlError
from pointstamp.spark.catalyst import rules


def test_every_rule_exists_in_the_installed_spark(spark: SparkSession) -> None:
    assert rules.CatalystRules(spark) is not None


def test_a_rule_that_is_missing_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "org.apache.spark.sql.catalyst.optimizer.RemoveEverything"
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, missing))
    with pytest.raises(SqlError, match=f"has no rule {missing}, which views of DataFrames need"):
        rules.CatalystRules(spark)
