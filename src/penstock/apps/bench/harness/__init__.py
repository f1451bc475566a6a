"""Building blocks of all benchmarks: servers as pinned processes, bare sockets, samples, facts about the machine.

Owns no workload and no target: `load`, `compare` and the repository's `bench/` bring those.
"""
