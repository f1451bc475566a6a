"""The protocol as data, by theme. Only text in our own notation; nothing here parses or encodes.

A table is here if the broker serves its API or a client of ours calls it. Two exceptions are written down for the
security calls of a cluster and not served yet: AlterClientQuotas and AlterUserScramCredentials. ShareGroupHeartbeat and
ShareFetch are sent by the benchmark of Kafka's share groups. Those in `links` are not Kafka's.
"""

from penstock.wire.kafka.tables import admin, groups, links, security, shares, streams, transactions

TEXTS = (streams.TEXT, groups.TEXT, transactions.TEXT, admin.TEXT, security.TEXT, shares.TEXT, links.TEXT)
