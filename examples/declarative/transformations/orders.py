"""Orders from a topic to a table, and large orders back to a topic. Spark discovers the data source."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
BOOTSTRAP = spark.conf.get("spark.penstock.bootstrap")

dp.create_sink("large_orders", "penstock", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "large-orders"})


@dp.table
def orders() -> DataFrame:
    """All orders that parse, as columns."""
    records = spark.readStream.format("penstock").option("kafka.bootstrap.servers", BOOTSTRAP)
    records = records.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    row = F.from_json(F.col("value").cast("string"), "order_id bigint, customer string, amount double")
    return (
        records.select(row.alias("order"), "offset").select("order.*", "offset").where("order_id is not null")
    )


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Large orders as records for a topic."""
    rows = spark.readStream.table("orders").where("amount > 100")
    return rows.select(
        F.col("customer").cast("binary").alias("key"), F.to_json(F.struct("*")).cast("binary").alias("value")
    )
