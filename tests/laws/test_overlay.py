"""Law of the overlay: it behaves as a dict that is changed in place, and what lies below stays as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.machines.overlay import Overlay

KEYS = st.integers(0, 6)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "del", "clear", "pop"]), KEYS, st.integers()), max_size=30
)


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_an_overlay_is_a_dict_that_leaves_the_one_below_alone(
    below: dict[int, int], changes: list[tuple[str, int, int]]
) -> None:
    untouched, model, overlay = dict(below), dict(below), Overlay(below)
    for act, key, value in changes:
        if act == "set":
            model[key] = overlay[key] = value
        elif act == "clear":
            model.clear()
            overlay.clear()
        elif act == "pop":
            assert overlay.pop(key, None) == model.pop(key, None)
        elif key in model:
            del model[key], overlay[key]
        assert dict(overlay.items()) == model and len(overlay) == len(model)
        assert all((one in overlay) == (one in model) for one in range(7))
    assert below == untouched
