"""The rack of a broker that was not given one: its machine. Brokers on one machine fail together."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
from pathlib import Path

MACHINE_ID_FILE = Path("/etc/machine-id")
_PURPOSE = b"penstock rack"
_DIGITS = 16


def machine_rack(machine_id_file: Path = MACHINE_ID_FILE) -> str:
    """A name that all processes of this machine derive alike; its host name if the machine has no id.

    The id itself is confidential (man 5 machine-id), so other brokers and clients see a keyed hash of it.
    """
    try:
        machine_id = machine_id_file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        machine_id = ""
    if not re.fullmatch("[0-9a-f]{32}", machine_id):  # absent, or "uninitialized" in an image
        return socket.gethostname()
    return "machine-" + hmac.new(machine_id.encode(), _PURPOSE, hashlib.sha256).hexdigest()[:_DIGITS]
