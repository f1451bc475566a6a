"""Which doors there are, each with its caller. A test sees to it that no door of the broker is missing here."""

from __future__ import annotations

from contract.callers.caller import Caller
from contract.callers.http import HttpCaller
from contract.callers.json_frames import JsonCaller
from contract.callers.kafka import KafkaCaller
from contract.callers.queue import QueueCaller
from contract.callers.text import TextCaller

CALLERS: tuple[type[Caller], ...] = (KafkaCaller, TextCaller, JsonCaller, QueueCaller, HttpCaller)
