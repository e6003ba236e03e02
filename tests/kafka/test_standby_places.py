"""The places of standby copies: a pure function of the group's members."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from processor_api.task_id import TaskId
from streams.kafka.membership.group_picture import Place, endpoint_of, place_of, thread_name_at
from streams.kafka.membership.standby_places import place_standbys
from streams.kafka.membership.topology_gate import client_id_with_hash
from streams.kafka.ports import GroupMember

UUID = "0a1b2c3d-0000-4000-8000-000000000001"


def group(chance: Random) -> tuple[dict[str, list[TaskId]], dict[str, Place]]:
    """Draws directories with processes and threads, and gives each thread tasks."""
    places: dict[str, Place] = {}
    for directory in range(chance.randint(1, 6)):
        tags = (("zone", f"z{chance.randint(0, 2)}"),)
        for process in range(chance.randint(1, 2)):
            for thread in range(chance.randint(1, 3)):
                places[f"{directory}-{process}-{thread}"] = Place(f"d{directory}", f"p{directory}-{process}", tags)
    tasks = [TaskId(part, number) for part in range(chance.randint(1, 3)) for number in range(chance.randint(1, 12))]
    chance.shuffle(tasks)
    names = sorted(places)
    return {name: tasks[number :: len(names)] for number, name in enumerate(names)}, places


@pytest.mark.parametrize("seed", range(30))
def test_copies_are_in_other_directories_than_their_task_and_each_other(seed: int) -> None:
    chance = Random(seed)
    held, places = group(chance)
    replicas = chance.randint(1, 3)
    tasks = [task for owned in held.values() for task in owned]
    kept = place_standbys(held, places, tasks, replicas)
    directories = {place.directory for place in places.values()}
    owner = {task: name for name, owned in held.items() for task in owned}
    assert kept.keys() == set(tasks)
    for task, names in kept.items():
        found = [places[name].directory for name in (owner[task], *names)]
        assert len(set(found)) == len(found)
        assert len(names) == min(replicas, len(directories) - 1)
    backwards = {name: list(reversed(owned)) for name, owned in reversed(held.items())}
    assert place_standbys(backwards, dict(reversed(places.items())), reversed(tasks), replicas) == kept


def test_copies_are_spread_over_workers_that_are_alike() -> None:
    places = {f"w{number}": Place(f"d{number}", f"p{number}") for number in range(4)}
    tasks = [TaskId(part, number) for part in range(2) for number in range(16)]
    held = {name: tasks[number::4] for number, name in enumerate(places)}
    kept = place_standbys(held, places, tasks, 1)
    counts = Counter((names[0], task.subtopology) for task, names in kept.items())
    assert max(counts.values()) <= 6
    assert min(counts.values()) >= 2
    assert max(Counter(names[0] for names in kept.values()).values()) <= 10


def test_few_copies_move_when_a_worker_comes() -> None:
    places = {f"w{number}": Place(f"d{number}", f"p{number}") for number in range(5)}
    tasks = [TaskId(0, number) for number in range(40)]
    held = {f"w{number}": tasks[number::4] for number in range(4)}
    before = place_standbys(held, {name: places[name] for name in held}, tasks, 1)
    after = place_standbys(held, places, tasks, 1)
    moved = [task for task in tasks if before[task] != after[task]]
    assert sum(after[task] == ("w4",) for task in moved) >= len(moved) / 2
    assert len(moved) <= 20


def test_copies_go_to_other_zones_where_there_are_some() -> None:
    zones = {"a": "1", "b": "1", "c": "2", "d": "2"}
    places = {name: Place(name, name, (("zone", zone), ("rack", "r"))) for name, zone in zones.items()}
    tasks = [TaskId(0, number) for number in range(12)]
    held = {name: tasks[number::4] for number, name in enumerate(zones)}
    owner = {task: name for name, owned in held.items() for task in owned}
    kept = place_standbys(held, places, tasks, 1, ("zone",))
    assert all(zones[names[0]] != zones[owner[task]] for task, names in kept.items())
    by_rack = place_standbys(held, places, tasks, 1, ("rack",))
    assert by_rack == place_standbys(held, places, tasks, 1)


@pytest.mark.parametrize("endpoint", [None, "10.1.2.3:8080", "[fe80::1]:80/2"])
@pytest.mark.parametrize("tags", [{}, {"zone": "eu-1a", "cluster": "k#1=a,b@c%"}])
def test_the_place_of_a_member_is_read_from_its_names(endpoint: str | None, tags: dict[str, str]) -> None:
    thread = thread_name_at(f"shop-{UUID}-3-StreamThread-2", endpoint, tags)
    client_id = client_id_with_hash(f"{thread}-consumer", "0f3c9a71")
    found = place_of(GroupMember(client_id, "m", f"shop-{UUID}-3-2", frozenset()))
    assert found == Place(UUID, f"{UUID}-3", tuple(sorted(tags.items())))
    assert endpoint_of(client_id) == endpoint
    named = client_id.replace(f"shop-{UUID}-3", "mine")
    assert place_of(GroupMember(named, "m", f"shop-{UUID}-3-2", frozenset())) == found
    assert place_of(GroupMember(named, "m", "given-2", frozenset())).directory == "mine"
