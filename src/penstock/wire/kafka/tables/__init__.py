"""The protocol as data, by theme. Only text in our own notation; nothing here parses or encodes."""

from penstock.wire.kafka.tables import admin, groups, security, shares, streams, transactions

TEXTS = (streams.TEXT, groups.TEXT, transactions.TEXT, admin.TEXT, security.TEXT, shares.TEXT)
