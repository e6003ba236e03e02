"""No application can have a name that this library makes for its own use, and no two applications share one."""

from __future__ import annotations

import inspect
import uuid

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from processor_api.errors import ConfigError
from streams.config import StreamsConfig
from streams.kafka import own_names
from streams.kafka.topics.left_behind import looking_own

IDS = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(lambda name: name not in (".", ".."))


def corrections_group(application_id: str) -> str:
    return own_names.corrections_group(application_id, "5f3c07a19b22d8e4")


MARKED = (
    *(own_names.copy_group, own_names.replay_group, own_names.upgrade_group, own_names.publishing_id),
    corrections_group,
)
FORMER = (own_names.former_copy_group, own_names.former_replay_group, own_names.former_publishing_id)
PROCESS = f"{uuid.UUID(int=1)}-0"


@pytest.mark.parametrize("make", MARKED)
@pytest.mark.parametrize("application", ["shop", "a", "0", "x-clone", "x.y_z"])
def test_no_application_can_have_the_name_of_a_group_or_transaction_of_ours(make, application):
    assert StreamsConfig(application_id=application, bootstrap_servers="b:9092").application_id == application
    with pytest.raises(ConfigError, match=r"application\.id"):
        StreamsConfig(application_id=make(application), bootstrap_servers="b:9092")


def test_every_function_that_makes_a_group_or_transactional_id_is_tried():
    made = {
        name
        for name, one in vars(own_names).items()
        if inspect.isfunction(one) and name.endswith(("_group", "_id")) and one is not own_names.thread_id
    }
    assert made == {one.__name__ for one in (*MARKED, *FORMER)}


@given(IDS, IDS)
@example("shop", "shop-clone")
@example("shop", "shop-dlq-replay")
def test_the_marked_names_of_two_applications_are_never_the_same(one, other):
    assume(one != other)
    assert {make(one) for make in MARKED}.isdisjoint({*(make(other) for make in MARKED), one, other})


@given(IDS, IDS, st.integers(0, 99), st.integers(0, 99))
@example("shop", "shop-1", 0, 0)
@example("shop-0-tasks", "shop", 0, 0)
def test_a_control_topic_is_of_one_application(one, other, first, second):
    assume(one != other)
    assert own_names.control_topic(one, first) != own_names.control_topic(other, second)


@given(IDS, IDS, st.integers(0, 99))
@example("shop", f"shop-{PROCESS}", 1)
def test_a_thread_is_of_one_application(one, other, number):
    assume(one != other)
    assert own_names.thread_id_form(one).fullmatch(own_names.thread_id(one, PROCESS, number))
    assert not own_names.thread_id_form(one).fullmatch(own_names.thread_id(other, PROCESS, number))
    assert own_names.writer_form(one).fullmatch(own_names.thread_id(one, PROCESS, number))
    assert not own_names.writer_form(one).fullmatch(own_names.thread_id(other, PROCESS, number))


@given(IDS, IDS, IDS)
@example("green", "2", "out")
@example("green", "2-out", "out")
def test_a_topic_of_a_longer_id_that_is_known_is_not_taken(shorter, more, topic):
    """A shadow topic or changelog may have two readings; the longer id has it, by its group or its control topic."""
    longer = f"{shorter}-{more}"
    names = {own_names.shadow_topic(longer, topic), f"{longer}-{topic}-changelog"}
    control = own_names.control_topic(longer, 3)
    for groups, tasks in ({longer}, set()), (set(), {control}), ({own_names.copy_group(longer)}, set()):
        existing = {*names, *tasks, topic, f"{more}-{topic}"}
        assert not looking_own(shorter, existing, groups)
        assert not own_names.own_shadow_topics(shorter, existing, groups, {f"{more}-{topic}"})
        assert own_names.own_shadow_topics(longer, existing, groups, ()) == {own_names.shadow_topic(longer, topic)}


def test_a_shadow_topic_without_its_output_is_nobodys():
    """The shadow green-2 may have lost its group to retention, and have no control topic."""
    existing = {"green-2-out-shadow", "green-out-shadow", "out"}
    assert own_names.own_shadow_topics("green", existing, {"green"}, {"out"}) == {"green-out-shadow"}
    assert own_names.own_shadow_topics("green", existing - {"out"}, {"green"}, {"out"}) == {"green-out-shadow"}


def test_topics_of_the_application_itself_stay_its_own():
    existing = {"shop-0-tasks", "shop-12-tasks", "shop-counts-changelog", "shop-counts-repartition", "shop-out"}
    assert looking_own("shop", existing, {"shop", "shop~clone", "other"}) == existing - {"shop-out"}
