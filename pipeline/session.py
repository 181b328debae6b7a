"""A Spark session that has the ``kafkalog`` source and workers of this same Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

from kraftspec.extras import extras_named
from kraftspec.pipeline.source import FILTER_PUSHDOWN, register

with extras_named():
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    FILTER_PUSHDOWN: "true",
    # Tables come to the driver as Arrow, not row by row.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",  # Kafka's timestamps have no zone of their own.
    "spark.ui.showConsoleProgress": "false",
}
# The masters that Spark's launcher accepts; for others it prints only a Java trace.
_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|spark://.+|k8s://.+|yarn")
# A local master binds to loopback only, whatever the host name resolves to.
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def check_master(master: str) -> None:
    """Raise ValueError for an invalid Spark master."""
    if _MASTER.fullmatch(master) is None:
        raise ValueError(
            f"{master!r} is no master of Spark: local, local[N], local[*], spark://HOST:PORT, "
            "k8s://… and yarn are"
        )


def session(
    app_name: str = "kraftspec",
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session, started where none is, with ``kafkalog`` registered.

    ``settings`` are Spark's own (``spark.driver.memory``) and win over those set here. Workers run
    this interpreter unless ``PYSPARK_PYTHON`` names another one. In a session that you made by
    yourself, call ``kraftspec.pipeline.source.register`` instead. ValueError for a ``master`` that
    is none; what Spark itself refuses is an exception of pyspark or py4j.
    """
    check_master(master)
    # Spark would start the first python3 on PATH, which may lack kraftspec.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    local = _LOCAL if master.startswith("local") else {}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**_SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
