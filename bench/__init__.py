"""`make bench`: speed and memory of a broker process, each figure next to a reference of the same run.

Built on `penstock.apps.bench.harness`; not part of the wheel.
"""
