"""tmp"""
def expired_count(log, *, now_ms, retention_ms, retention_bytes): return 0
def active_is_expired(log, *, now_ms, retention_ms, retention_bytes): return False
