"""The members of one subscription over all its partitions: turn order and free window. Not persisted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Members:
    """Shared by the machines of a subscription, one per partition; written only by their `apply`."""

    windows: dict[str, int] = field(default_factory=dict)
    """Member → its window, in order of joining; 0 pauses delivery."""
    holding: dict[str, int] = field(default_factory=dict)
    """Member → how many messages it holds."""
    served_last: str | None = None

    def put(self, member_id: str, window: int) -> None:
        self.windows[member_id] = window
        self.holding.setdefault(member_id, 0)

    def drop(self, member_id: str) -> None:
        self.windows.pop(member_id, None)
        self.holding.pop(member_id, None)

    @property
    def room(self) -> int:
        """How many messages can be delivered before all windows are full."""
        holding = self.holding
        return sum(max(0, window - holding[name]) for name, window in self.windows.items())

    def turns(self) -> Iterator[str]:
        """Members with a free window in turn, starting after the last one served."""
        names = list(self.windows)
        first = names.index(self.served_last) + 1 if self.served_last in self.windows else 0
        room = {name: self.windows[name] - self.holding[name] for name in names}
        turns = deque(name for name in (*names[first:], *names[:first]) if room[name] > 0)
        while turns:
            name = turns.popleft()
            yield name
            room[name] -= 1
            if room[name]:
                turns.append(name)
