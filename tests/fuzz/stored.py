"""Everything that is read from disk: batches, indexes, state files, whole logs, events, settings.

A file of ours that is damaged is told apart from one that is whole, or does no harm; it is never believed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random

from fuzz.target import Target
from log_samples import DIRECTORY, LIMITS, keyed_batch, opaque_batch, reopen
from penstock.core.codecs import CODEC_NAMES
from penstock.core.errors import (
    BrokerError,
    CorruptBatch,
    InvalidRecord,
    TooLarge,
    TornSegment,
    UnsupportedCompression,
)
from penstock.core.limits import BATCH_HEADER_BYTES, DECOMPRESSED_BYTES_MAX
from penstock.core.log import checksummed_file as checked
from penstock.core.log.epochs import Epochs
from penstock.core.log.index import SavedIndex
from penstock.core.log.index import decode as decode_index
from penstock.core.log.producers import Producers
from penstock.core.log.recovery import open_log
from penstock.core.log.transactions import PartitionTransactions
from penstock.core.machines.catalog import events as catalog_events
from penstock.core.machines.catalog.events import ProducerIdsReserved, Topic, TopicRemoved, TopicSaved
from penstock.core.records.batch import check_produced, decode_header, stamp_checksum
from penstock.core.records.build import open_batch, payload_of
from penstock.core.records.compression import compress, decompress
from penstock.core.records.payload import iterate_keys
from penstock.node import checkpoint
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings_loader import SettingsError, load_settings
from sim.chance import SimRng

REFUSED_BATCH = (CorruptBatch, InvalidRecord, TooLarge, UnsupportedCompression)
BATCHES = 20
UNFOLDED_BYTES_MAX = 1 << 20


# -- batches


def make_batch(rng: Random) -> bytes:
    pairs = [
        (rng.choice((None, b"", b"key")), rng.choice((None, b"", rng.randbytes(9) * rng.randint(1, 300))))
        for _ in range(rng.randint(1, 4))
    ]
    return bytes(keyed_batch(pairs, time_ms=rng.getrandbits(40), codec=rng.choice(tuple(CODEC_NAMES))))


def read_batch(content: bytes) -> str:
    """As it came, and with its checksum made right, so that what lies behind it is reached."""
    words = [_read_batch(content)]
    if len(content) >= BATCH_HEADER_BYTES:
        mended = bytearray(content)
        mended[8:12] = (len(mended) - 12).to_bytes(4, "big", signed=True)
        mended[16] = 2
        stamp_checksum(mended)
        words.append(_read_batch(bytes(mended)))
    return " / ".join(words)


def _read_batch(content: bytes) -> str:
    try:
        header = check_produced(content)
        assert header.size == len(content)
        records = open_batch(content, header)
        assert len(records) == header.count
        assert sum(1 for _ in iterate_keys(payload_of(content, header), header.count)) == header.count
    except REFUSED_BATCH as error:
        return type(error).__name__
    return f"codec {header.codec}"


def make_compressed(rng: Random) -> bytes:
    """A byte that says which codec, then what it made: sometimes of a bomb, sometimes of noise."""
    codec = rng.choice(tuple(CODEC_NAMES))
    plain = rng.choice(
        (bytes(rng.choice((0, 100, 3_000_000))), rng.randbytes(rng.randint(0, 3_000)), b"ab" * 500)
    )
    return bytes([codec]) + compress(codec, plain)


def read_compressed(content: bytes) -> str:
    codec = content[0] % 8 if content else 0
    try:
        unfolded = decompress(codec, content[1:], UNFOLDED_BYTES_MAX)
    except REFUSED_BATCH as error:
        return f"{codec} {type(error).__name__}"
    assert len(unfolded) <= UNFOLDED_BYTES_MAX < DECOMPRESSED_BYTES_MAX
    return f"{codec} unfolded"


# -- the files of a log


def _payload(offset: int) -> bytes:
    return b"%08d" % offset * 4


def _make_log() -> MemoryFiles:
    files = MemoryFiles()
    log, _ = reopen(files)
    for offset in range(BATCHES):
        batch = opaque_batch(
            payload=_payload(offset), time_ms=offset, producer_id=7, producer_epoch=0, sequence=offset
        )
        log.append(batch, decode_header(batch), 0, 1_000)
    log.persist_start(1)
    log.save_state()
    return files


_WHOLE = _make_log()
_PAYLOADS = frozenset(map(_payload, range(BATCHES)))
NAMES = _WHOLE.names(DIRECTORY)


def make_log(rng: Random) -> bytes:
    """A byte that says what is known durable, then every file of a small log after its length."""
    parts = [_WHOLE.read_whole(f"{DIRECTORY}/{name}") or b"" for name in NAMES]
    return rng.randbytes(1) + b"".join(len(one).to_bytes(4, "big") + one for one in parts)


def read_log(content: bytes) -> str:
    """It opens or is refused; and whatever it serves was written, and offsets follow each other.

    That a batch stands at its own offset is not for a checksum to say: as in Kafka it leaves the offset out.
    """
    recovery_offset = (content[0] if content else 0) % (BATCHES + 1)
    files, rest = MemoryFiles(), content[1:]
    for name in NAMES:
        length = int.from_bytes(rest[:4], "big")
        files.write_whole(f"{DIRECTORY}/{name}", rest[4 : 4 + length])
        rest = rest[4 + length :]
    words: list[str] = []
    try:
        log = open_log(
            files, DIRECTORY, LIMITS, recovery_offset=recovery_offset, now_ms=1_000, report=words.append
        )
        log.advance(log.end_offset)
        offset = log.start_offset
        while (run := log.read(offset, 1, log.high_watermark_mark)) is not None:
            raw = run.read()
            header = decode_header(raw)
            assert header.base_offset == offset and raw[BATCH_HEADER_BYTES:] in _PAYLOADS
            offset = header.next_offset
        log.find_time(BATCHES // 2, log.high_watermark_mark)
    except BrokerError as error:
        return type(error).__name__
    return f"opened, {len(words)} complaints"


def make_index(rng: Random) -> bytes:
    return _WHOLE.read_whole(f"{DIRECTORY}/{next(name for name in NAMES if name.endswith('.index'))}") or b""


def read_index(content: bytes) -> str:
    index = decode_index(content, 1_000)
    offsets = [index.entry(at).offset for at in range(len(index))]
    assert offsets == sorted(set(offsets))
    files = MemoryFiles()
    files.write_whole("i", content)
    saved = SavedIndex(files.open("i"))
    try:
        for value in (0, 7, 10**6):
            saved.floor(value)
            saved.floor_position(value)
            saved.ceil_position(value)
            saved.before_time(value)
    except TornSegment:
        return f"{len(index)} entries, torn"
    return f"{len(index)} entries"


def make_state(rng: Random) -> bytes:
    """Any of the small state files."""
    name = rng.choice([name for name in NAMES if not name.endswith((".log", ".index"))])
    return _WHOLE.read_whole(f"{DIRECTORY}/{name}") or b""


STATE_PATHS = (
    "d/leader-epochs",
    "d/log-start",
    f"d/{5:020d}.snapshot",
    checkpoint.RECOVERY_FILE,
    checkpoint.CLEAN_FILE,
    checkpoint.IDENTITY_FILE,
)


def read_state(content: bytes) -> str:
    """Under the name of every state file there is: it is whole under one of them at most, and torn for the others."""
    files, whole = MemoryFiles(), []
    for path in STATE_PATHS:
        files.write_whole(path, content)
        try:
            checked.read(files, path)
            whole.append(path)
        except TornSegment:
            continue
    assert len(whole) <= 1
    assert checkpoint.load_recovery_points(files) == {} or checkpoint.RECOVERY_FILE in whole
    producers = Producers(files, "d", PartitionTransactions(files, "d"))
    assert producers.load(10) == (5 if STATE_PATHS[2] in whole else 0)
    assert checkpoint.take_clean_marker(files) == (checkpoint.CLEAN_FILE in whole)
    try:
        Epochs(files, "d").load()
        assert STATE_PATHS[0] in whole
    except TornSegment:
        assert STATE_PATHS[0] not in whole
    return " ".join(whole) or "torn"


def make_identity(rng: Random) -> bytes:
    files = MemoryFiles()
    checkpoint.load_identity(files, SimRng(rng), 0, was_clean=False)
    return files.read_whole(checkpoint.IDENTITY_FILE) or b""


def read_identity(content: bytes) -> str:
    files = MemoryFiles()
    files.write_whole(checkpoint.IDENTITY_FILE, content)
    try:
        identity = checkpoint.load_identity(files, SimRng(Random(1)), 0, was_clean=False)
    except TornSegment:
        return "torn"
    return f"epoch {identity.run_epoch}"


# -- events: key and value after the length of the key


def record(key: bytes, value: bytes | None) -> bytes:
    return len(key).to_bytes(2, "big") + key + (b"" if value is None else value)


def fields(content: bytes) -> tuple[bytes, bytes | None]:
    end = 2 + int.from_bytes(content[:2], "big")
    return content[2:end], content[end:] or None


def make_catalog(rng: Random) -> bytes:
    topic = Topic(rng.randbytes(16), "orders", rng.randint(1, 9), {"retention.ms": "5"}, created_ms=3)
    event = rng.choice((TopicSaved(topic), TopicRemoved(topic.id), ProducerIdsReserved(rng.getrandbits(40))))
    return record(*catalog_events.encode(event))


def read_catalog(content: bytes) -> str:
    try:
        event = catalog_events.decode(*fields(content))
    except TornSegment:
        return "torn"
    assert catalog_events.decode(*catalog_events.encode(event)) == event
    return type(event).__name__


# -- settings


def make_settings(rng: Random) -> bytes:
    """A byte that says YAML or JSON, then the file."""
    if rng.random() < 0.5:
        return b"j" + json.dumps({"port": 9092, "logDir": "/x", "limits": {"connections_max": "5"}}).encode()
    lines = (
        "port: 9092",
        "storage:",
        "  durability: os",
        "  segment_bytes: 1GiB",
        "bufferSizes: [1, 2]",
        "logLevel: INFO",
    )
    return b"y" + "\n".join(lines).encode()


_SETTINGS_HOME = tempfile.TemporaryDirectory(prefix="penstock-fuzz-")


def read_settings(content: bytes) -> str:
    path = Path(_SETTINGS_HOME.name) / ("s.json" if content[:1] == b"j" else "s.yaml")
    path.write_bytes(content[1:])
    try:
        load_settings(str(path))
    except SettingsError as error:
        return f"{len(error.problems)} problems"
    return "read"


TARGETS = (
    Target("batch", make_batch, read_batch),
    Target("compression", make_compressed, read_compressed),
    Target("log", make_log, read_log),
    Target("index", make_index, read_index),
    Target("state-file", make_state, read_state),
    Target("identity", make_identity, read_identity),
    Target("catalog-event", make_catalog, read_catalog),
    Target("settings-file", make_settings, read_settings),
)
