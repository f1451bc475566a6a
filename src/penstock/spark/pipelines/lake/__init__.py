"""Tables as directories of Parquet files with a log of commits. Never reads a topic, never knows Spark."""
