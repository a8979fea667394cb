"""Delays of flights by carrier, a day at a time: topic ``flights`` to topic ``delays``.

Each run reads what is new since the last one, and ends. A day is written when a later run, or a
later record of this one, shows that it is over. See docs/spark.md.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

spark = SparkSession.active()
CLUSTER = spark.conf.get("oncelog.bootstrap.servers")

dp.create_sink(
    name="delays",
    format="oncelog",
    options={"oncelog.bootstrap.servers": CLUSTER, "topic": "delays"},
)


@dp.append_flow(target="delays", name="by_carrier")
def by_carrier() -> DataFrame:
    """The flow; its name is a part of its checkpoint's place."""
    flights = (
        spark.readStream.format("oncelog")
        .option("oncelog.bootstrap.servers", CLUSTER)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("groupId", "delays")
        .option("valueFormat", "json")
        .option("valueSchema", "carrier STRING, dep_delay INT, time_hour TIMESTAMP")
        .load()
        .select("value.*")
        .withWatermark("time_hour", "1 day")
    )
    days = flights.groupBy(F.window("time_hour", "1 day"), "carrier").agg(
        F.count("*").alias("flights"), F.sum("dep_delay").alias("departure_delay")
    )
    return days.select(
        F.col("carrier").alias("key"),
        F.to_json(
            F.struct(
                "carrier",
                F.date_format("window.start", "yyyy-MM-dd").alias("day"),
                "flights",
                "departure_delay",
            )
        ).alias("value"),
    )
