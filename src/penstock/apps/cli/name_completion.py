"""Completes names for a shell: topics and groups of the broker, settings of topics and brokers.

A broker that does not answer at once completes nothing; a shell must not wait, and has no place for errors.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from penstock.client.raw.cluster import Cluster

CONNECT_S_MAX = 0.3
_BOOTSTRAP_DEFAULT = "127.0.0.1:9092"


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topic names. Internal ones only after two underscores."""
    from penstock.client.errors import ClientError

    try:
        with _connected(ctx) as cluster:
            names = cluster.topics()
    except (ClientError, click.ClickException, OSError):
        return []
    with_internal = incomplete.startswith("__")
    return _starting((name for name in names if with_internal or not name.startswith("__")), incomplete)


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of consumer groups."""
    from penstock.apps.cli.group_lag import listed_groups
    from penstock.client.errors import ClientError

    try:
        with _connected(ctx) as cluster:
            return _starting((one.group for one in listed_groups(cluster)), incomplete)
    except (ClientError, click.ClickException, OSError):
        return []


def complete_topic_config(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of topic settings; for an option that takes a pair, with the equals sign."""
    from penstock.core.topic_config import SETTINGS

    ending = "=" if param.metavar == "NAME=VALUE" else ""
    return _starting((name + ending for name in SETTINGS), incomplete)


def complete_setting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the settings of a broker."""
    from penstock.node.settings import DEFINITIONS

    return _starting((one.name for one in DEFINITIONS), incomplete)


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _connected(ctx: click.Context) -> Cluster:
    """A client of the broker that the command line names. Raises OSError if nobody listens there."""
    from penstock.apps.cli.client import connect_cluster, split_address

    given = ctx.params.get("bootstrap") or ctx.find_root().params.get("global_bootstrap")
    bootstrap = str(given or os.environ.get("PENSTOCK_BOOTSTRAP") or _BOOTSTRAP_DEFAULT)
    socket.create_connection(split_address(bootstrap.split(",")[0].strip()), CONNECT_S_MAX).close()
    return connect_cluster(bootstrap)
