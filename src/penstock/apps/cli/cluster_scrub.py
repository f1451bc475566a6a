"""`penstock cluster scrub`: compares replicas. The brokers read, compare and repair."""

from __future__ import annotations

import time

import click

from penstock.apps.cli.cluster_moves import say_result, source_of
from penstock.apps.cli.cluster_status import Content, difference_words
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.terminal import say

POLL_SECONDS = 1.0
_PATH = "/api/v1/cluster/scrub"
_MIB = 1 << 20


@click.command()
@click.argument("topic", required=False)
@click.option("--wait", is_flag=True, help="Return when all replicas are compared; shows progress.")
@bootstrap_option
@output_option
def scrub(topic: str | None, wait: bool, bootstrap: str, output: str) -> None:
    """Compare the replicas of all partitions, or of one topic.

    Brokers read committed records back from disk on every in-sync replica and compare them, as they do regularly. A
    replica that is damaged, or differs from the majority, is set aside and copied again. Compacted topics are left out:
    their replicas differ in form.

    \b
    penstock cluster scrub orders --wait
    """
    source = source_of(bootstrap)
    before = source.scrub()
    found = source.change(_PATH, body={} if topic is None else {"topic": topic})
    said = ""
    while wait and found["running"]:
        text = f"{_compared(found, before)} compared"
        if text != said:
            say(text, err=True)
            said = text
        time.sleep(POLL_SECONDS)
        found = source.scrub() or found
    if not wait:
        say_result(output, found, "Started. See `penstock cluster status`.")
        return
    differences = found["differences"] - (before or {}).get("differences", 0)
    text = f"{_compared(found, before)} compared: {difference_words(max(0, differences))}."
    if differences > 0:
        text += " Damaged replicas are repaired from the others; the logs of the brokers say which."
    for one in found["brokers"]:
        if "error" in one:
            text += f"\nBroker {one['id']} did not answer: {one['error']['detail']}"
    say_result(output, found, text)


def _compared(found: Content, before: Content | None) -> str:
    size_bytes = max(0, found["scrubbed_bytes"] - (before or {}).get("scrubbed_bytes", 0))
    return f"{size_bytes / _MIB:,.1f} MiB"
