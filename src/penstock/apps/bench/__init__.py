"""Benchmarks: `load` sends what `penstock bench` sends, `compare` runs Penstock next to other brokers, on `harness`.

Rows that only this repository runs live in its `bench/` directory, on the same harness, and are not in the wheel.
"""
