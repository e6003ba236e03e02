"""The kinds of accidents of a run. Each leaves all workers and brokers running, and returns whether it took effect."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.chaos.cluster import Cluster, Node
from tools.chaos.crew import EXTRA, Crew
from tools.chaos.group import Group
from tools.chaos.patience import wait_for
from tools.chaos.setups import Setup

__all__ = ["KINDS", "Faults", "kinds_of"]

WRITTEN_BACK = "store is written back"
WRITABLE_STORES = ("windows", "sessions", "orders", "profiles", "sums", "seen", "users")


class Faults:
    """Makes faults happen to the workers and brokers of one run, drawn from one source of chance."""

    def __init__(self, cluster: Cluster, crew: Crew, group: Group, chance: random.Random) -> None:
        self._cluster, self._crew, self._group, self._chance = cluster, crew, group, chance

    def happen(self, kind: str) -> bool:
        """Has an accident happen; returns whether it took effect."""
        took_effect = KINDS[kind](self)
        self._crew.replace_ended()
        return took_effect

    def _one(self) -> int:
        """Returns a worker that has begun."""
        number = self._chance.choice(self._crew.running())
        wait_for(lambda: self._crew.has_begun(number))
        return number

    def _two(self) -> list[int]:
        two = self._chance.sample(self._crew.running(), 2)
        wait_for(lambda: all(map(self._crew.has_begun, two)))
        return two

    def _start(self, number: int) -> None:
        if number not in self._crew.running():
            self._crew.start(number)

    def kill(self) -> bool:
        number = self._one()
        killed = self._crew.kill(number)
        self._start(number)
        return killed

    def kill_for_a_session(self) -> bool:
        number = self._one()
        killed = self._crew.kill(number) and self._group.takes_over()
        self._start(number)
        return killed

    def kill_two(self) -> bool:
        two = self._two()
        killed = [self._crew.kill(number) for number in two]
        for number in two:
            self._start(number)
        return all(killed)

    def delete_a_disk(self) -> bool:
        number = self._one()
        killed = self._crew.kill(number)
        deleted = _delete(self._crew.disk(number))
        self._start(number)
        return killed and deleted

    def delete_a_disk_and_snapshots(self) -> bool:
        """Half of the tasks lose their snapshots, which the others still have."""
        number = self._one()
        tasks = sorted(self._crew.snapshots.glob("*/tasks/*"))
        chosen = self._chance.sample(tasks, (len(tasks) + 1) // 2)
        killed = self._crew.kill(number)
        deleted = [_delete(each) for each in (*chosen, self._crew.disk(number))]
        self._start(number)
        return killed and bool(chosen) and all(deleted)

    def exchange_disks(self) -> bool:
        one, other = two = self._two()
        killed = [self._crew.kill(number) for number in two]
        first, second, aside = self._crew.disk(one), self._crew.disk(other), self._crew.disk(one).with_suffix(".aside")
        exchanged = first.exists() and second.exists()
        for source, target in ((first, aside), (second, first), (aside, second)):
            if source.exists():
                source.rename(target)
        for number in two:
            self._start(number)
        return all(killed) and exchanged

    def stop(self) -> bool:
        number = self._one()
        stopped = self._crew.stop(number)
        self._start(number)
        return stopped

    def roll(self) -> bool:
        number = self._one()
        stopped = self._crew.stop(number)
        if number in self._crew.running():
            return False
        self._crew.start(number, version=self._chance.choice((1, 2)))
        return stopped

    def freeze(self) -> bool:
        number = self._one()
        frozen = self._crew.freeze(number)
        time.sleep(self._chance.uniform(1, 6))  # for so long it stands: this is the accident, and no wait
        return self._crew.thaw(number) and frozen

    def freeze_past_the_session(self) -> bool:
        number = self._one()
        frozen = self._crew.freeze(number)
        frozen = self._group.takes_over() and frozen
        return self._crew.thaw(number) and frozen

    def add_and_stop(self) -> bool:
        return self._added() and self._crew.stop(EXTRA)

    def add_and_kill(self) -> bool:
        return self._added() and self._crew.kill(EXTRA)

    def _added(self) -> bool:
        self._crew.start(EXTRA)
        if wait_for(lambda: self._crew.is_ready(EXTRA), progress=self._group.read, what="the new worker is not ready"):
            return True
        self._crew.kill(EXTRA)
        return False

    def kill_part(self) -> bool:
        return self._crew.kill_part(self._one(), self._chance.random())

    def kill_supervisor(self) -> bool:
        number = self._one()
        wait_for(lambda: bool(self._crew.parts(number)))
        killed = self._crew.kill_supervisor(number)
        self._start(number)
        return killed

    def delete_changelog(self) -> bool:
        return self._lost_changelog(kill=False)

    def delete_changelog_and_kill(self) -> bool:
        return self._lost_changelog(kill=True)

    def _lost_changelog(self, *, kill: bool) -> bool:
        number, written = self._one(), self._crew.count(WRITTEN_BACK)
        wait_for(lambda: self._crew.is_ready(number), progress=self._group.read)
        store = self._chance.choice(WRITABLE_STORES)
        made = self._group.make_again(f"{self._crew.application}-{store}-changelog")
        killed = not kill or self._crew.kill(number)
        self._start(number)
        what = f"store {store} is not written back yet"
        return made and killed and wait_for(lambda: self._crew.count(WRITTEN_BACK) > written, what=what)

    def kill_broker(self) -> bool:
        node = self._node()
        killed = node.kill()
        node.restart()
        self._cluster.wait()
        return killed

    def kill_broker_until_others_lead(self) -> bool:
        node = self._node()
        killed = node.kill() and self._moves_from(node)
        node.restart()
        self._cluster.wait()
        return killed

    def freeze_broker(self) -> bool:
        node = self._node()
        node.freeze()
        time.sleep(self._chance.uniform(1, 6))  # for so long it stands: this is the accident, and no wait
        return self._thaw(node)

    def freeze_broker_until_others_lead(self) -> bool:
        node = self._node()
        node.freeze()
        moved = self._moves_from(node)
        return self._thaw(node) and moved

    def _node(self) -> Node:
        """Returns a broker that leads partitions, if one does."""
        nodes = self._chance.sample(self._cluster.nodes, len(self._cluster.nodes))
        return next((node for node in nodes if self._group.leads(node.number)), nodes[0])

    def _moves_from(self, node: Node) -> bool:
        return wait_for(lambda: not self._group.leads(node.number), pause_s=0.3)

    def _thaw(self, node: Node) -> bool:
        was_frozen = node.is_frozen
        node.thaw()
        self._cluster.wait()
        return was_frozen


def _delete(folder: Path) -> bool:
    """Deletes a folder; returns whether there was something in it."""
    had = folder.exists() and any(folder.iterdir())
    shutil.rmtree(folder, ignore_errors=True)
    return had


KINDS: Mapping[str, Callable[[Faults], bool]] = {
    "kill a worker": Faults.kill,
    "kill a worker until others have its tasks": Faults.kill_for_a_session,
    "kill two workers": Faults.kill_two,
    "kill a worker, delete its disk": Faults.delete_a_disk,
    "kill a worker, delete its disk and snapshots": Faults.delete_a_disk_and_snapshots,
    "kill two workers, exchange their disks": Faults.exchange_disks,
    "stop a worker": Faults.stop,
    "start another version": Faults.roll,
    "freeze a worker": Faults.freeze,
    "freeze a worker until others have its tasks": Faults.freeze_past_the_session,
    "add a worker, stop it": Faults.add_and_stop,
    "add a worker, kill it": Faults.add_and_kill,
    "kill a process of a supervisor": Faults.kill_part,
    "kill a supervisor": Faults.kill_supervisor,
    "delete a changelog": Faults.delete_changelog,
    "delete a changelog, kill the worker": Faults.delete_changelog_and_kill,
    "kill a broker": Faults.kill_broker,
    "kill a broker until others lead": Faults.kill_broker_until_others_lead,
    "freeze a broker": Faults.freeze_broker,
    "freeze a broker until others lead": Faults.freeze_broker_until_others_lead,
}

_ALONE = (
    "delete a changelog",
    "delete a changelog, kill the worker",
)
_OTHERS = (
    "kill a worker until others have its tasks",
    "kill two workers",
    "kill a worker, delete its disk",
    "kill two workers, exchange their disks",
    "freeze a worker until others have its tasks",
    "add a worker, stop it",
    "add a worker, kill it",
)
NEEDS: Mapping[str, Callable[[Setup], bool]] = {
    "kill a worker, delete its disk and snapshots": lambda setup: setup.snapshots,
    "kill a process of a supervisor": lambda setup: setup.processes > 1,
    "kill a supervisor": lambda setup: setup.processes > 1,
    **dict.fromkeys(_ALONE, lambda setup: setup.workers == 1),
    **dict.fromkeys(_OTHERS, lambda setup: setup.workers > 1),
}
"""The kinds that not every setup can have. A store is written back by a worker that has all of it on its disk."""


def kinds_of(setup: Setup) -> Sequence[str]:
    """Returns the kinds of accidents that a setup can have."""
    return [kind for kind in KINDS if kind not in NEEDS or NEEDS[kind](setup)]
