"""The assignment of partitions to members is balanced, sticky and a function of its input alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from processor_api.task_id import TopicPartition
from streams.testing.broker.groups import MemberState, assign

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
TOPICS = ["t", "u", "v"]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7))
PARTITIONS = st.builds(TopicPartition, st.sampled_from([*TOPICS, "deleted"]), st.integers(0, 8))


def members(topics: st.SearchStrategy[list[str]]) -> st.SearchStrategy[dict[str, MemberState]]:
    return st.dictionaries(NAMES, st.builds(MemberState, topics, st.frozensets(PARTITIONS)), min_size=1)


def disjoint(states: dict[str, MemberState]) -> dict[str, MemberState]:
    """The same members, none owning what an earlier one owns."""
    taken: set[TopicPartition] = set()
    result = {}
    for name in sorted(states):
        result[name] = MemberState(states[name].topics, frozenset(states[name].owned) - taken)
        taken |= set(states[name].owned)
    return result


def partitions_of(counts: dict[str, int]) -> set[TopicPartition]:
    return {TopicPartition(topic, p) for topic, count in counts.items() for p in range(count)}


ANY_TOPICS = st.lists(st.sampled_from(TOPICS), unique=True)


@given(members(ANY_TOPICS), COUNTS)
def test_every_subscribed_partition_has_exactly_one_owner(
    states: dict[str, MemberState], counts: dict[str, int]
) -> None:
    """Each partition of a topic somebody subscribes to is given to one of its subscribers, and nothing else is."""
    target = assign(states, counts)
    assert target.keys() == states.keys()
    owners = Counter(partition for owned in target.values() for partition in owned)
    subscribed = {topic for state in states.values() for topic in state.topics}
    assert owners == Counter(p for p in partitions_of(counts) if p.topic in subscribed)
    for name, owned in target.items():
        assert {partition.topic for partition in owned} <= set(states[name].topics)


@given(members(st.just(TOPICS)), COUNTS)
def test_equal_subscriptions_get_even_shares_with_the_fewest_moves(
    states: dict[str, MemberState], counts: dict[str, int]
) -> None:
    """Shares differ by one at most, and no assignment with such shares keeps more where it is."""
    states = disjoint(states)
    target = assign(states, counts)
    shares = [len(owned) for owned in target.values()]
    assert max(shares) - min(shares) <= 1
    alive = partitions_of(counts)
    owned = {name: set(state.owned) & alive for name, state in states.items()}
    floor, larger = divmod(len(alive), len(states))
    wish_for_one_more = sum(len(kept) > floor for kept in owned.values())
    most_kept = sum(min(len(kept), floor) for kept in owned.values()) + min(wish_for_one_more, larger)
    assert sum(len(target[name] & kept) for name, kept in owned.items()) == most_kept


@given(members(ANY_TOPICS), COUNTS)
def test_no_single_move_would_improve_the_balance(states: dict[str, MemberState], counts: dict[str, int]) -> None:
    """Also with unequal subscriptions nobody has two more than another who could take one of them."""
    target = assign(states, counts)
    for giver in target:
        for taker, state in states.items():
            movable = any(partition.topic in state.topics for partition in target[giver])
            assert not movable or len(target[giver]) - len(target[taker]) < 2


@given(members(ANY_TOPICS), COUNTS)
def test_an_assignment_taken_on_stays(states: dict[str, MemberState], counts: dict[str, int]) -> None:
    """When every member owns its target, the next target is the same: rebalancing comes to rest."""
    target = assign(states, counts)
    settled = {name: MemberState(states[name].topics, target[name]) for name in states}
    assert assign(settled, counts) == target


@given(members(ANY_TOPICS), COUNTS)
def test_the_order_of_the_input_does_not_matter(states: dict[str, MemberState], counts: dict[str, int]) -> None:
    """The same group gets the same answer."""
    backwards = dict(reversed(states.items()))
    assert assign(backwards, dict(reversed(counts.items()))) == assign(states, counts)


def test_nobody_means_nothing() -> None:
    """A group without members has no targets."""
    assert assign({}, {"t": 3}) == {}
