"""Every hard limit, with its reason. Some are defaults of settings; no other module defines a limit of its own."""

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's limit, so that names work with its tools."""

BATCH_HEADER_BYTES = 61
"""Size of the header of a record batch v2."""

SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions inside a segment are stored in 32 bits, as Kafka's `segment.bytes` is."""

SEGMENT_BYTES_MIN = 1024
"""A smaller segment would hold barely one batch."""

MESSAGE_ELEMENTS_MAX = 1_000_000
"""Array elements and tagged fields in one wire message, over all levels: bounds what a message decodes to."""

REQUEST_ELEMENTS_MAX = 100_000
"""The same for one request, unless its API has its own limit: no node holds more partitions than that, and the objects
of one request stay near 100 MB."""

PRODUCE_ELEMENTS_MAX = 20_000
"""For Produce, whose partitions are appended without yielding."""

GROUP_CALL_ELEMENTS_MAX = 20_000
"""For requests of a group member: subscribed topics, owned partitions, assignments by the leader."""

CONFIG_CALL_ELEMENTS_MAX = 20_000
"""For AlterConfigs and IncrementalAlterConfigs: resources and settings that are applied atomically."""

REQUESTS_LARGE_BYTES_MIN = 1 << 14
"""Requests of at least this size, except Produce, are decoded, handled and encoded in slices."""

LARGE_ELEMENTS_IN_FLIGHT_MAX = 400_000
"""Elements of all large requests in flight; further requests wait, so that memory stays bounded."""

LARGE_FETCH_WAIT_MS_MAX = 500
"""Longest wait of a large Fetch for data, because its elements count as in flight while it waits."""

SLICE_UNITS = 256
"""How much of a long request runs in one turn of the event loop. A unit is about ten microseconds: one entry of an
ordinary request, or ten elements of a message that is decoded or encoded."""

FIRST_SLICE_UNITS = 128
"""How much of a request runs as soon as it arrives; most requests complete there."""

CODEC_ELEMENTS_PER_YIELD = 512
"""A sliced decoder or encoder can yield after this many elements."""

CODEC_UNITS_PER_YIELD = 64
"""The cost of that many elements."""

PARTITIONS_PER_CALL_MAX = 10_000
"""Partitions that one CreateTopics or CreatePartitions may create; Kafka's limit (POLICY_VIOLATION)."""

AUTO_CREATED_TOPICS_MAX = 1_000
"""Topics that one Metadata request auto-creates; the others stay unknown until they are requested again."""

OFFSETS_PER_BATCH_MAX = 500
"""A commit of more offsets is written as several batches, between which other requests run."""

HEADER_TAGS_MAX = 1_000
"""Tagged fields in a header. Kafka defines none yet."""

GROUP_SAMPLES_MAX = 100_000
"""Series of one per-group metric: groups times partitions could be far more."""

JSON_BYTES_MAX = 16 * 2**20
"""One JSON request: it is decoded in one turn of the event loop."""

JSON_VALUES_MAX = 500_000
"""Values in one HTTP body, over all levels: ten thousand messages with forty fields each take 50 ms to decode."""

JSON_FRAME_VALUES_MAX = 200_000
"""The same for one frame of the JSON door, where messages are strings and each object is validated."""

DOOR_HEADERS_MAX = 10_000
"""Headers of one message at the doors that decode them one by one on the event loop."""

DOOR_PROPERTIES_BYTES_MAX = 2**20
"""All properties of one request at the queue door: as large as the default maximum message."""

RECORDS_PER_DOOR_BATCH_MAX = 500
"""Messages that a door puts into one batch, built in one turn of the event loop."""

RECORDS_COPIED_BYTES_MAX = 4_096
"""Record data up to this size is copied into the response; larger data is sent without copying."""

PARTITIONS_PER_TOPIC_MAX = 10_000
"""Bounds the directories that one create request makes."""

PRODUCER_BATCHES_REMEMBERED = 5
"""Batches remembered per producer, to recognise duplicates of batches in flight."""

PRODUCERS_EXPECTED_MAX = 10_000
"""While the disk is full, the first batch of a producer is remembered as long as a partition knows fewer producers."""

PRODUCER_IDS_BLOCK = 1_000
"""Producer ids are reserved in blocks, so that allocating one does not need a flush."""

DECOMPRESSED_BYTES_MAX = 256 * 2**20
"""Maximum decompressed size of one batch."""

DECOMPRESSED_FACTOR_MAX = 16
"""Maximum decompressed size of a produced batch, as a multiple of `max.message.bytes`; JSON compresses about 10:1."""

DECOMPRESSED_BYTES_MIN = 2**20
"""A batch may always decompress to this size, however small `max.message.bytes` is."""

LOOP_COMPRESSED_BYTES_MAX = 16 * 2**10
"""Larger compressed batches go to a worker thread. The hand-over costs about as much as decompressing this size."""

LOOP_DECOMPRESSED_BYTES_MAX = 64 * 2**10
"""Maximum decompressed size on the event loop; a larger batch starts again in a worker."""

LOOKUP_DECOMPRESSED_BYTES_MAX = 2**20
"""Maximum decompressed size for a lookup by time on the event loop; larger batches go to a worker."""

STORED_DECOMPRESSED_FACTOR_MAX = 64
"""DECOMPRESSED_FACTOR_MAX for batches in the log: those written before there was a limit stay readable."""

RECORD_ERRORS_MAX = 1_000
"""Invalid records of one batch that the response lists."""

GZIP_MEMBERS_MAX = 64
"""Each gzip member costs a copy of the remaining input; no client writes more than one."""

PARTITIONS_TOTAL_MAX = 100_000
"""Partitions of all topics: each costs a directory, an owner and memory."""

DESCRIBED_PARTITIONS_MAX = 2_000
"""Partitions per page of a description, whatever the request asks for; Kafka's limit."""

ERROR_CHARS_MAX = 1_000
"""An error may quote the client's input; some protocol versions carry at most 32,767 bytes of text."""

FETCH_BYTES_MAX = 55 * 2**20
"""Maximum bytes of one fetch response, whatever the request asks for; Kafka's limit."""

OFFSET_METADATA_BYTES_MAX = 4_096
"""Metadata of a committed offset; Kafka's limit."""

GROUP_NEWCOMER_MS = 300_000
"""How long a new member may wait for its first generation; Kafka's limit."""

GROUP_COMING_MS = 3_000
"""How long a group's first rebalance waits for a member that was assigned an id to rejoin with it."""

GROUP_RECORD_BYTES_MAX = 64 * 2**20
"""Largest persisted state of one group: all members with subscriptions and assignments."""

TOPIC_REGEX_CHARS_MAX = 1_024
"""A subscription regex; it is persisted with the group and evaluated whenever topics change."""

TOPIC_REGEX_MEMORY_BYTES = 1 << 20
"""Memory of a compiled regular expression; larger ones are rejected."""

SUBSCRIPTION_IN_FLIGHT_MAX = 10_000
"""Messages of one partition in flight or settled out of order in a subscription: each costs memory."""

SUBSCRIPTION_NAME_CHARS_MAX = 249
"""As for topic names."""

RESOURCE_CONFIGS_MAX = 100_000
"""Groups and client metrics subscriptions with their own settings; the catalog is held in memory."""

ADMIN_ENTRIES_MAX = 10_000
"""Entries of one admin request (partitions, users, ACLs): each takes time on the event loop."""

BROKER_ID_MAX = 2**31 - 1
"""Kafka's protocol has signed 32-bit ids."""

LINK_KEY_BYTES = 32
"""As many as HMAC-SHA256 makes use of."""

LINK_REQUESTS_IN_FLIGHT_MAX = 10_000
"""Calls to one peer without an answer: those of all clients here, most of which wait for data. Further ones are
throttled, and the peer stops reading."""

LINK_BYTES_IN_FLIGHT_MAX = 64 * 2**20
"""Bytes of those calls: what a peer that stopped reading can keep in memory here."""

LINK_RESPONSE_BYTES_MAX = FETCH_BYTES_MAX + 2**20
"""One response of a peer: a full Fetch and its frame."""

FORWARD_MS_MAX = 10_000
"""How long a door tries to reach the leader of a partition on another broker: longer than the default session of a
broker that was killed, after which metadata names another leader, or none."""

FORWARD_BYTES_MAX = 64 * 2**20
"""Records at one broker that wait for leaders elsewhere or for their acknowledgement; further ones are throttled."""

FORWARD_PARTITION_BYTES_MAX = 4 * 2**20
"""The same for one partition; beyond it the connections that publish to it are held."""

FORWARDED_READ_BYTES_MAX = 2**20
"""One read from another broker: as much of a page as one round trip brings."""

FORWARDED_READS_MAX = 32
"""Reads from one other broker in flight; further ones wait. Bounds the memory of their responses."""

READ_AHEAD_PARTITIONS_MAX = 16
"""Partitions on other brokers whose records one client's stream holds in memory, unsent."""

WATCHED_PARTITIONS_MAX = 1_000
"""Partitions of one long poll that waits at another broker for all readers here."""

WATCHES_MAX = 4
"""Long polls of one isolation level at one other broker: what comes while all of them wait joins a
short one."""

PEER_QUERY_PARTITIONS_MAX = 1_000
"""Partitions in one question about offsets and sizes to another broker."""

PEER_QUERY_MS_MAX = 3_000
"""Time limit of questions to other brokers; whoever has not answered by then is missing from the answer, which says
so."""

METADATA_APPEND_BYTES_MAX = 16 << 20
"""The events of one append to a shared metadata log: tens of thousands of topics."""

GOSSIP_PACKET_BYTES_MAX = 1_400
"""One gossip datagram: fits into an Ethernet frame with room for tunnels, so that it is never fragmented."""

GOSSIP_PEERS_MAX = 1_000
"""Peers that one broker keeps track of; the oldest dead ones make room for new ones."""

GOSSIP_ATTRIBUTES_BYTES_MAX = 512
"""All attributes of one peer, so that several peers fit into one packet."""

GOSSIP_TEXT_BYTES_MAX = 255
"""Name or value of one attribute: its length takes one byte."""

GOSSIP_INCARNATION_MAX = 2**62
"""Greater incarnations are rejected: a peer must always be able to raise its own."""

GOSSIP_RELAYS_MAX = 256
"""Probes in flight on behalf of other peers; further requests are ignored."""
