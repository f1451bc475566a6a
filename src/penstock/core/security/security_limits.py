"""Hard limits of ACLs, credentials and quotas, with their reasons."""

ACLS_MAX = 20_000
"""All of them are in memory on every broker, and a filter without a principal or a name scans them, in about a
microsecond each. A prefixed pattern replaces many."""

ACL_TEXT_CHARS_MAX = 1_024
"""Principal or resource name of an ACL: as long as names in certificates."""

ACL_REMOVALS_MAX = 10_000
"""ACLs that one request removes; Kafka's limit."""

CREDENTIALS_MAX = 50_000
"""SCRAM credentials of all users, in memory on every broker."""

QUOTA_ENTITIES_MAX = 20_000
"""Entities with quotas, in memory on every broker."""

QUOTA_NAME_CHARS_MAX = 1_024
"""User or client id of a quota entity."""

QUOTA_METERS_MAX = 10_000
"""Clients whose rates one broker tracks, at about 2 KB each; beyond it the least recently active one is forgotten."""

DECISIONS_CACHED_MAX = 65_536
"""Access decisions and quota lookups that one broker remembers, at about 300 bytes each."""

RELATED_ACLS_MAX = 20
"""ACLs that an explanation lists besides the one that decided."""

QUESTION_CHARS_MAX = 4_096
"""A question about access in words: room for the longest principal and the longest name."""
