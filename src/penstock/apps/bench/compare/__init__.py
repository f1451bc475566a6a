"""`penstock bench compare`: Penstock next to other brokers on one machine, measured in interleaved runs.

Compares within one invocation only, never with figures of an earlier one.
"""
