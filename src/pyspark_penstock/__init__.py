"""What Spark finds by itself: the data source `penstock`. Never holds anything of its own."""
