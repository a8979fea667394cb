"""It is a Spark driver that says who it is: ``python -m pipeline.secured_driver OPTIONS``.

OPTIONS is JSON: the options of security, the topics, and folders for the checkpoint and the event
log. It copies a topic by a stream, does the last micro-batch again as after a crash, copies the
result by a batch, and shows plans. What it shows and keeps is searched for the password.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

FORMAT = "oncelog"


def session(event_log: str) -> SparkSession:
    """Start a session that keeps a log of events."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{event_log}",
    }
    builder = SparkSession.builder.master("local[2]").appName("oncelog-secured")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def copy(spark: SparkSession, given: dict[str, Any], source: str, target: str) -> None:
    """Copy what there is now, micro-batch by micro-batch."""
    read = spark.readStream.format(FORMAT).options(**given["options"], subscribe=source)
    frame = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "100").load()
    writer = frame.select("key", "value").writeStream.format(FORMAT)
    writer = writer.options(**given["options"], topic=target)
    query = writer.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True)
    running = query.start()
    if not running.awaitTermination(180):
        raise TimeoutError("the stream does not end")
    running.explain(True)


def forget_last_commit(checkpoint: Path) -> None:
    """Let Spark do its last micro-batch again, as after a crash behind the brokers' commit."""
    last = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


def table(spark: SparkSession, options: dict[str, str], topic: str) -> DataFrame:
    """Return a topic as a table."""
    return spark.read.format(FORMAT).options(**options, subscribe=topic).load()


def main(given: dict[str, Any]) -> None:
    """Do all of it; the last line that is written says that it went well."""
    spark = session(given["event_log"])
    spark.sparkContext.setLogLevel("WARN")
    copy(spark, given, given["source"], given["streamed"])
    forget_last_commit(Path(given["checkpoint"]))
    copy(spark, given, given["source"], given["streamed"])
    frame = table(spark, given["options"], given["streamed"]).select("key", "value")
    frame.explain(True)
    frame.write.format(FORMAT).mode("append").options(
        **given["options"], topic=given["batched"]
    ).save()
    try:
        table(spark, {**given["options"], "kafka.sasl.password": "as-an-option"}, given["source"])
    except Exception as error:
        print("refused:", "query plan" in str(error), "as-an-option" in str(error))
    try:
        missing = {**given["options"], "kafka.ssl.truststore.location": "/no/such/ca.pem"}
        table(spark, missing, given["source"]).count()
    except Exception as error:
        print("missing:", "/no/such/ca.pem is not there on" in str(error))
    print("rows", table(spark, given["options"], given["batched"]).count())
    spark.stop()
    print("done")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
