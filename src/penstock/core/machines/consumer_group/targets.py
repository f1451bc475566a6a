"""From subscriptions to targets: evaluates regular expressions, detects changed topics, runs the assignor. Never fails.

Every step reads a draft of the group and records its events there; the group epoch is bumped before the targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from penstock.core.machines.catalog.events import Topic
from penstock.core.machines.consumer_group.assignors import ASSIGNOR_DEFAULT, ASSIGNORS, Subscriber, TopicId
from penstock.core.machines.consumer_group.events import (
    ConsumerGroupMember,
    GroupEpoch,
    GroupEpochSet,
    RegexSet,
    ResolvedRegex,
    TargetEpochSet,
    TargetSet,
    TopicsChecked,
)
from penstock.core.machines.consumer_group.state import UNKNOWN_HASH, ConsumerGroupState
from penstock.core.machines.consumer_group.topic_regex import matching_topics


class TopicCatalog(Protocol):
    """The topic catalog, as groups need it."""

    @property
    def topics(self) -> list[Topic]: ...

    def find(self, name: str) -> Topic | None: ...


class Topics(NamedTuple):
    """The catalog and its version: an unchanged version means unchanged topics."""

    catalog: TopicCatalog
    version: int


class Draft:
    """A tentative copy of a group: recorded events apply to `state` immediately and never to the group itself."""

    def __init__(self, state: ConsumerGroupState) -> None:
        self.state = state.draft()
        self.events: list[Any] = []

    def record(self, event: Any) -> None:
        self.state.apply(event)
        self.events.append(event)


def advance(draft: Draft, topics: Topics, wall_ms: int, *, is_changed: bool) -> None:
    """Bump the group epoch if members, subscriptions or topics have changed, and compute the targets for it."""
    state = draft.state
    if is_changed or state.checked_version != topics.version or _hash_of(state) == UNKNOWN_HASH:
        _resolve(draft, topics, wall_ms)
        topics_hash = _hash_topics(state, topics.catalog)
        is_changed = is_changed or _hash_of(state) not in (topics_hash, UNKNOWN_HASH)
        group_epoch = GroupEpoch(state.epoch + is_changed, topics_hash)
        if group_epoch != state.group_epoch:
            draft.record(GroupEpochSet(state.id, group_epoch))
        if state.checked_version != topics.version:
            draft.record(TopicsChecked(state.id, topics.version))
    if state.epoch > state.target_epoch:
        _retarget(draft, topics.catalog)


def forget_unused_regexes(draft: Draft) -> None:
    """Remove regular expressions without subscribers."""
    state = draft.state
    used = {member.topic_regex for member in state.members.values()}
    for regex in sorted(state.regexes.keys() - used):
        draft.record(RegexSet(state.id, regex, None))


def topic_names(state: ConsumerGroupState, member: ConsumerGroupMember) -> frozenset[str]:
    """The topics that a member subscribes to, by name and by regular expression."""
    found = state.regexes.get(member.topic_regex) if member.topic_regex is not None else None
    return frozenset(member.topic_names).union(found.topics if found is not None else ())


def _hash_of(state: ConsumerGroupState) -> int:
    return state.group_epoch.topics_hash if state.group_epoch is not None else UNKNOWN_HASH


def _resolve(draft: Draft, topics: Topics, wall_ms: int) -> None:
    """Evaluate all expressions if topics have changed since, and new ones in any case."""
    state = draft.state
    forget_unused_regexes(draft)
    used = sorted({member.topic_regex for member in state.members.values() if member.topic_regex is not None})
    is_stale = state.checked_version != topics.version
    due = [regex for regex in used if is_stale or regex not in state.regexes]
    if not due:
        return
    names = [topic.name for topic in topics.catalog.topics if not topic.internal]
    for regex in due:
        found, known = matching_topics(regex, names), state.regexes.get(regex)
        if known is None or known.topics != found:
            draft.record(RegexSet(state.id, regex, ResolvedRegex(found, topics.version, wall_ms)))


def _hash_topics(state: ConsumerGroupState, catalog: TopicCatalog) -> int:
    """A hash of all subscribed topics with their ids and partition counts. Never UNKNOWN_HASH."""
    names = set(state.topic_readers)
    for resolved in state.regexes.values():
        names.update(resolved.topics)
    digest = blake2b(digest_size=8)
    for topic in _existing(names, catalog):
        digest.update(b"%s %d %s\0" % (topic.id, topic.partition_count, topic.name.encode()))
    return int.from_bytes(digest.digest(), "big", signed=True) or 1


def _existing(names: Iterable[str], catalog: TopicCatalog) -> list[Topic]:
    return [topic for name in sorted(names) if (topic := catalog.find(name)) is not None]


def _retarget(draft: Draft, catalog: TopicCatalog) -> None:
    """Compute the targets of this epoch with the assignor that most members prefer."""
    state = draft.state
    subscribers, counts = _subscribers(state, catalog)
    assign = ASSIGNORS[preferred_assignor(state)]
    for member_id, target in sorted(assign(subscribers, counts).items()):
        if target != state.targets.get(member_id):
            draft.record(TargetSet(state.id, member_id, target))
    draft.record(TargetEpochSet(state.id, state.epoch))


def _subscribers(
    state: ConsumerGroupState, catalog: TopicCatalog
) -> tuple[list[Subscriber], Mapping[TopicId, int]]:
    counts: dict[TopicId, int] = {}
    by_subscription: dict[tuple[tuple[str, ...], str | None], frozenset[TopicId]] = {}
    subscribers = []
    for member_id, member in state.members.items():
        subscription = (member.topic_names, member.topic_regex)
        if subscription not in by_subscription:
            found = _existing(topic_names(state, member), catalog)
            counts.update((topic.id, topic.partition_count) for topic in found)
            by_subscription[subscription] = frozenset(topic.id for topic in found)
        subscribers.append(
            Subscriber(member_id, by_subscription[subscription], state.target(member_id), member.instance_id)
        )
    return subscribers, counts


def preferred_assignor(state: ConsumerGroupState) -> str:
    """The assignor that most members prefer; ties go to the first by name; the default if no member names one."""
    votes = Counter(member.assignor for member in state.members.values() if member.assignor is not None)
    if not votes:
        return ASSIGNOR_DEFAULT
    return min(votes, key=lambda name: (-votes[name], name))
