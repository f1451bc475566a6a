"""Stories of classic groups, each told as the transcript of what members do and what they are told."""

from __future__ import annotations

from textwrap import dedent

from group_play import LIMITS, Play


def told(play: Play, story: str) -> None:
    """The transcript must read exactly so."""
    assert dedent(play.transcript) == dedent(story).strip("\n")


def test_two_members_find_each_other() -> None:
    play = Play()
    play.join(fresh="ann", known_id=True)
    play.join("ann")
    play.join(fresh="bob", known_id=True)
    play.join("bob")
    play.wait(100)
    play.sync("bob")
    play.sync("ann", ann=b"p0", bob=b"p1")
    play.beat("bob")
    told(
        play,
        """
             0 somebody joins
                 ann ← come back as ann
             0 ann joins and waits
             0 somebody joins
                 bob ← come back as bob
             0 bob joins and waits
            50 time passes
                 ann ← generation 1, range, led by ann, of ann bob
                 bob ← generation 1, range, led by ann
           100 bob asks for its assignment and waits
           100 ann assigns and waits
                 (kept)
                 bob ← assigned p1
                 ann ← assigned p0
           100 bob beats
                 bob ← fine
        """,
    )


def test_static_members_that_start_together_share_their_first_generation() -> None:
    play = Play(LIMITS._replace(initial_rebalance_static_ms=1_000))
    play.join(fresh="ann", instance="one")
    play.wait(900)
    play.join(fresh="bob", instance="two")
    play.wait(2_000)
    told(
        play,
        """
             0 somebody as one joins and waits
           900 somebody as two joins and waits
          1900 time passes
                 ann ← generation 1, range, led by ann, of ann bob
                 bob ← generation 1, range, led by ann
        """,
    )


def test_a_lone_first_member_waits_for_one_quiet_period() -> None:
    play = Play()
    play.join(fresh="ann", known_id=True)
    play.join("ann")
    play.wait(100)
    told(
        play,
        """
             0 somebody joins
                 ann ← come back as ann
             0 ann joins and waits
            50 time passes
                 ann ← generation 1, range, led by ann, of ann
        """,
    )


def test_a_member_that_was_given_an_id_is_waited_for() -> None:
    """Its client is slow to come back, but it is on its way."""
    play = Play()
    play.join(fresh="ann")
    play.wait(20)
    play.join(fresh="bob", known_id=True)
    play.wait(1_000)
    play.join("bob")
    play.wait(1_000)
    told(
        play,
        """
             0 somebody joins and waits
            20 somebody joins
                 bob ← come back as bob
          1020 bob joins and waits
          1070 time passes
                 ann ← generation 1, range, led by ann, of ann bob
                 bob ← generation 1, range, led by ann
        """,
    )


def test_a_member_that_never_comes_back_with_its_id_is_not_waited_for_long() -> None:
    play = Play()
    play.join(fresh="ann")
    play.wait(20)
    play.join(fresh="bob", known_id=True)
    play.wait(4_000)
    told(
        play,
        """
             0 somebody joins and waits
            20 somebody joins
                 bob ← come back as bob
          3000 time passes
                 ann ← generation 1, range, led by ann, of ann
        """,
    )


def test_a_newcomer_makes_everybody_join_again() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.lines.clear()
    play.join(fresh="cleo")
    play.beat("bob")
    play.join("bob")
    play.beat("ann")
    play.join("ann")
    play.sync("ann", ann=b"p0", bob=b"p1", cleo=b"p2")
    play.sync("cleo")
    told(
        play,
        """
           100 somebody joins and waits
           100 bob beats
                 bob ← Rebalancing
           100 bob joins and waits
           100 ann beats
                 ann ← Rebalancing
           100 ann joins and waits
                 cleo ← generation 2, range, led by ann
                 bob ← generation 2, range, led by ann
                 ann ← generation 2, range, led by ann, of ann bob cleo
           100 ann assigns and waits
                 (kept)
                 ann ← assigned p0
           100 cleo asks for its assignment
                 cleo ← assigned p2
        """,
    )


def test_a_silent_member_is_dropped_and_the_others_go_on() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.lines.clear()
    play.wait(6_000)
    play.beat("ann")
    play.wait(5_000)
    play.beat("ann")
    play.join("ann")
    told(
        play,
        """
          6100 ann beats
                 ann ← fine
         11100 ann beats
                 ann ← Rebalancing
         11100 ann joins and waits
                 ann ← generation 2, range, led by ann, of ann
        """,
    )
    assert list(play.group.members) == ["ann"]


def test_a_member_that_beats_but_does_not_rejoin_is_dropped_when_the_round_ends() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.join(fresh="cleo")
    play.join("ann")
    play.lines.clear()
    for _ in range(4):
        play.wait(7_000)
        play.beat("bob")
    play.wait(7_000)
    told(
        play,
        """
          7100 bob beats
                 bob ← Rebalancing
         14100 bob beats
                 bob ← Rebalancing
         21100 bob beats
                 bob ← Rebalancing
         28100 bob beats
                 bob ← Rebalancing
         30100 time passes
                 cleo ← generation 2, range, led by ann
                 ann ← generation 2, range, led by ann, of ann cleo
        """,
    )


def test_a_static_member_restarts_and_nothing_moves() -> None:
    play = Play()
    play.join(fresh="ann-1", instance="ann")
    play.join(fresh="bob-1", instance="bob")
    play.wait(100)
    play.sync("ann-1", **{"ann-1": b"p0", "bob-1": b"p1"})
    play.sync("bob-1")
    play.lines.clear()
    play.join(fresh="bob-2", instance="bob")
    play.sync("bob-2")
    play.beat("bob-1", instance="bob")
    play.join(fresh="ann-2", instance="ann")
    play.sync("ann-2")
    told(
        play,
        """
           100 somebody as bob joins
                 (kept)
                 bob-2 ← generation 1, range, led by ann-1
           100 bob-2 asks for its assignment
                 bob-2 ← assigned p1
           100 bob-1 beats
                 bob-1 ← FencedInstance
           100 somebody as ann joins
                 (kept)
                 ann-2 ← generation 1, range, led by ann-2, of ann-2 bob-2, nothing to assign
           100 ann-2 asks for its assignment
                 ann-2 ← assigned p0
        """,
    )


def test_the_last_one_leaves_and_the_group_is_kept_as_empty() -> None:
    play = Play()
    play.stable("ann")
    play.lines.clear()
    play.leave("ann")
    play.beat("ann")
    told(
        play,
        """
           100 ann leaves
                 (kept)
                 ann ← fine
           100 ann beats
                 ann ← UnknownMember
        """,
    )
    assert play.group.state_name == "Empty" and play.group.generation == 2


def test_a_leader_that_never_assigns_loses_its_place() -> None:
    play = Play()
    play.join(fresh="ann")
    play.join(fresh="bob")
    play.wait(100)
    play.sync("bob")
    play.lines.clear()
    for _ in range(5):
        play.wait(6_100)
        play.beat("ann")
    told(
        play,
        """
          6200 ann beats
                 ann ← fine
         12300 ann beats
                 ann ← fine
         18400 ann beats
                 ann ← fine
         24500 ann beats
                 ann ← fine
         30050 time passes
                 bob ← Rebalancing
         30100 time passes
                 (kept)
         30600 ann beats
                 ann ← UnknownMember
        """,
    )
