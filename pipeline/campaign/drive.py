"""A campaign over Spark: a task a unit, and the driver that looks on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Thread

from pyspark.sql import SparkSession

from kraftspec.pipeline.campaign.kind import Kind, Unit
from kraftspec.pipeline.campaign.store import Store

LOOK_EVERY_S = 0.5

Progress = Callable[[int, int], None]  # Called with the units done and the cases done.


def run_units(
    spark: SparkSession, kind: Kind, store: Store, units: Sequence[Unit], progress: Progress
) -> None:
    """Do units on the executors; each result is in the store when its task ends.

    A task that fails, or whose executor is lost, is tried again by Spark (in local mode where the
    master says so, as ``local[2,4]`` does). Raises what Spark raises when one fails for good; an
    interruption cancels all. What was finished by then is in the store.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            tasks = spark.sparkContext.parallelize(units, max(1, len(units)))
            tasks.foreach(lambda unit: _do(kind, store, unit))
        except BaseException as error:
            raised.append(error)

    names = {store.name(unit): unit.cases for unit in units}
    worker = Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(LOOK_EVERY_S)
        progress(*store.count_done(names))
    if raised:
        raise raised[0]


def _do(kind: Kind, store: Store, unit: Unit) -> None:
    started = time.monotonic()
    result = kind.run(unit)
    store.write(kind.schema, unit, result, time.monotonic() - started)
