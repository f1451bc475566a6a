"""The security state: ACLs, SCRAM credentials and client quotas. `decide_*` reads, `apply` writes; no I/O."""
