"""Every hard bound, with its reason. Settings may lower or raise some of these; nothing else invents a number."""

TOPIC_NAME_CHARS_MAX = 249
"""Kafka's own limit, so that names fit wherever its tools put them."""

BATCH_HEADER_BYTES = 61
"""Record batch v2: what lies before its records."""

SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions inside a segment are stored in 32 bits, as Kafka's `segment.bytes` is."""

SEGMENT_BYTES_MIN = 1024
"""Below this a segment would hold hardly one batch."""

MESSAGE_ELEMENTS_MAX = 1_000_000
"""Array elements and tagged fields in one wire message, all levels together: none unfolds to gigabytes."""

REQUEST_ELEMENTS_MAX = 100_000
"""The same for one request, unless its API has a limit of its own: no node holds more partitions than that, and the
objects of one request stay near 100 MB."""

PRODUCE_ELEMENTS_MAX = 20_000
"""For Produce, whose partitions are appended to in one go."""

GROUP_CALL_ELEMENTS_MAX = 20_000
"""For the calls of one group member: topics it subscribes to, partitions it owns, assignments that it hands out."""

CONFIG_CALL_ELEMENTS_MAX = 20_000
"""For AlterConfigs and IncrementalAlterConfigs: resources and settings that are decided on together."""

REQUESTS_LARGE_BYTES_MIN = 1 << 14
"""From this frame size on a request other than Produce is decoded, handled and answered in slices."""

LARGE_ELEMENTS_IN_FLIGHT_MAX = 400_000
"""Elements of all large requests that are being handled; further ones wait for room, so that memory stays bounded."""

LARGE_FETCH_WAIT_MS_MAX = 500
"""A large Fetch waits no longer than this for data, because its entries count as in flight meanwhile."""

SLICE_UNITS = 256
"""How much of one long request is done in one turn of the loop. A unit is about ten microseconds: one entry of an
ordinary request, or ten elements of a message that is decoded or encoded."""

FIRST_SLICE_UNITS = 128
"""How much of a request is done at once when it arrives; most end there."""

CODEC_ELEMENTS_PER_YIELD = 512
"""A sliced decoder or encoder may be interrupted after this many elements."""

CODEC_UNITS_PER_YIELD = 64
"""What so many elements count as."""

PARTITIONS_PER_CALL_MAX = 10_000
"""Partitions that one CreateTopics or CreatePartitions may create; Kafka's own limit (POLICY_VIOLATION)."""

AUTO_CREATED_TOPICS_MAX = 1_000
"""Topics that one Metadata creates because they are not there; the others stay unknown until asked for again."""

OFFSETS_PER_BATCH_MAX = 500
"""A commit of more offsets than this is written as several batches of the offsets topic, with others in between."""

HEADER_TAGS_MAX = 1_000
"""Tagged fields in a header. Kafka has none there yet, so nobody needs more."""

GROUP_SAMPLES_MAX = 100_000
"""Partitions of all groups that one metric shows: groups times partitions may be far more."""

JSON_BYTES_MAX = 16 * 2**20
"""One request in JSON: it is decoded in one turn of the loop."""

JSON_VALUES_MAX = 500_000
"""Values in one HTTP body, at all levels: ten thousand messages with forty fields each. They take 50 ms to decode."""

JSON_FRAME_VALUES_MAX = 200_000
"""The same for one frame of the JSON door, where messages are texts and their objects are looked at one by one."""

DOOR_HEADERS_MAX = 10_000
"""Headers of one message, for the doors that take them one by one; each costs time of the loop."""

DOOR_PROPERTIES_BYTES_MAX = 2**20
"""All properties of one request at the queue door, as long as the largest message of an ordinary topic."""

RECORDS_PER_DOOR_BATCH_MAX = 500
"""Messages that a door puts into one batch: what the loop does in one go."""

RECORDS_COPIED_BYTES_MAX = 4_096
"""Record bytes up to this size are joined with the rest of a reply; longer ones are handed on uncopied."""

PARTITIONS_PER_TOPIC_MAX = 10_000
"""One create request may not make more directories than the node can hold."""

PRODUCER_BATCHES_REMEMBERED = 5
"""How many batches a producer may have in flight and still be recognised when it repeats one."""

PRODUCER_IDS_BLOCK = 1_000
"""Producer ids are reserved in blocks so that handing one out does not cost a flush."""

DECOMPRESSED_BYTES_MAX = 256 * 2**20
"""The most that one compressed batch may unfold to."""

DECOMPRESSED_FACTOR_MAX = 16
"""What a produced batch may unfold to, in multiples of its topic's `max.message.bytes`; JSON packs about 10:1."""

DECOMPRESSED_BYTES_MIN = 2**20
"""A batch may always unfold to this much, however small the `max.message.bytes` of its topic is."""

LOOP_COMPRESSED_BYTES_MAX = 16 * 2**10
"""Larger compressed batches are opened in a worker thread. Handing one over costs about as much as unfolding this."""

LOOP_DECOMPRESSED_BYTES_MAX = 64 * 2**10
"""What a batch that is opened on the loop may unfold to; one that unfolds to more starts again in a worker."""

LOOKUP_DECOMPRESSED_BYTES_MAX = 2**20
"""What a batch may unfold to when a record is looked up in it by time on the loop; larger ones go to a worker."""

STORED_DECOMPRESSED_FACTOR_MAX = 64
"""As DECOMPRESSED_FACTOR_MAX, for batches that are in the log already: those from before there was a limit can be read."""

RECORD_ERRORS_MAX = 1_000
"""How many bad records of one batch the answer to its producer names."""

GZIP_MEMBERS_MAX = 64
"""Each further gzip member costs a copy of the rest of the input; no client writes more than one."""

PARTITIONS_TOTAL_MAX = 100_000
"""Every partition costs a directory, an owner and memory, so all topics together may not ask for more."""

DESCRIBED_PARTITIONS_MAX = 2_000
"""How many partitions one page of a description holds, whatever it asks for; Kafka's own limit."""

ERROR_CHARS_MAX = 1_000
"""An error quotes what a client sent; some versions of the protocol carry no text beyond 32,767 bytes."""

FETCH_BYTES_MAX = 55 * 2**20
"""The most that one fetch answers with, whatever it asks for; Kafka's own limit."""

OFFSET_METADATA_BYTES_MAX = 4_096
"""The text beside a committed offset; Kafka's own limit."""

GROUP_NEWCOMER_MS = 300_000
"""How long a member that has never been told its first generation may wait for it; Kafka's own limit."""

GROUP_COMING_MS = 3_000
"""How long the first round of a group waits for a member that was given an id and has not come back with it."""

GROUP_RECORD_BYTES_MAX = 64 * 2**20
"""The largest state of one group that is kept: all members with what they subscribe to and what they were given."""

TOPIC_REGEX_CHARS_MAX = 1_024
"""A regular expression that a member subscribes by; it is kept with the group and looked at whenever topics change."""

TOPIC_REGEX_MEMORY_BYTES = 1 << 20
"""What a compiled regular expression may take; one that needs more is refused."""

SUBSCRIPTION_IN_FLIGHT_MAX = 10_000
"""Messages of one partition that a subscription may have out or settled before their turn: each costs memory."""

SUBSCRIPTION_NAME_CHARS_MAX = 249
"""As long as a topic's, for the same reason."""

RESOURCE_CONFIGS_MAX = 100_000
"""Groups and client metrics subscriptions with settings of their own; the catalog is held in memory."""

ADMIN_ENTRIES_MAX = 10_000
"""Entries of one administrative request (partitions, users, ACLs): each costs time of the loop."""
