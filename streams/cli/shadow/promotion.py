"""The steps by which a live shadow takes the place of the application that it follows.

They are those of a clone, from the shadow to the application, whose former state goes first. Each may be killed, and is
done or gone on with by the next call (docs/decisions/changelogs-and-restore.md, "A promotion replaces the old state by
a clone"):

1. No worker runs, and both stand at the same offsets, with all of their repartition records read: the caller's part.
2. The committed offsets of the application get a note, at the offsets that they have. From now on no worker of it
   starts, and these offsets are what the shadow has to stand at.
3. The internal topics of the former version are deleted.
4. They are made again for the new version, and the shadow's changelogs are copied.
5. The shadow's offsets are committed for the application in one request, which replaces all notes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from streams.cli.state import cloning
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import PROMOTION, TopicPartitionMetadata
from streams.kafka.ports import Admin, OffsetAndMetadata

GONE_S = 60.0
"""The time that the broker has to forget deleted topics, and the offsets of their partitions."""
PROMOTING = cloning.Handover(PROMOTION, "promoted", "promote again", "promote when they are stopped")


def plan_promotion(topology: Topology, shadow: StreamsConfig, config: StreamsConfig, admin: Admin) -> cloning.ClonePlan:
    """Returns the plan of a promotion for the topics that exist. Changes nothing.

    :param topology: the new version.
    :param shadow: the settings of the shadow.
    :param config: those with which the new version runs as the application.
    """
    return cloning.plan_clone(topology, shadow, config, admin, PROMOTING, replaces=True)


class Promotion(cloning.Clone):
    """Makes one promotion.

    :param inputs: the partitions that the former version reads.
    :param former: its internal topics.
    """

    def __init__(
        self,
        plan: cloning.ClonePlan,
        clients: cloning.CloneClients,
        clock: Clock,
        inputs: Collection[TopicPartition],
        former: Collection[str],
    ) -> None:
        super().__init__(plan, clients, clock)
        self._inputs, self._former = frozenset(inputs), frozenset(former)

    # ------------------------------------------------------------------ checks

    def production(self) -> cloning.Offsets:
        """Returns the committed offsets of the application, of what either version reads.

        :raises StreamsError: if another handover to it is not complete.
        """
        found = cloning.settled_offsets(self._target, self._places(), self._clock)
        for place, one in found.items():
            handover = TopicPartitionMetadata.decode(one.metadata).handover
            if handover not in (None, self._plan.note):
                raise StreamsError(
                    f"application {self._plan.clone!r} cannot be replaced: by the committed offset of {place}, the"
                    f" handover {handover!r} to it was started but is not complete. Complete the handover first"
                )
        return found

    def _places(self) -> list[TopicPartition]:
        existing = self._admin.topics()
        read = self._inputs | {one.target for _, one in self._plan.inputs()}
        return sorted(
            place for place in read if place.topic in existing and place.partition < existing[place.topic].partitions
        )

    def is_complete(self) -> bool:
        """Whether an earlier call has completed this promotion, and no worker has run since.

        :raises StreamsError: if the application runs, or another handover to it is not complete.
        """
        self._refuse_members()
        notes = self._notes()
        read = [notes[one.target] for _, one in self._plan.inputs() if one.target in notes]
        done = bool(read) and all(one.handed_over == self._plan.note for one in read)
        return done and not any(one.handover for one in notes.values())

    def _notes(self) -> dict[TopicPartition, TopicPartitionMetadata]:
        return {place: TopicPartitionMetadata.decode(one.metadata) for place, one in self.production().items()}

    # ------------------------------------------------------------------ steps

    def mark(self) -> None:
        """Notes with the application's offsets that they are to be replaced; they stay what they are."""
        if not any(one.handover for one in self._notes().values()):
            self.forget_progress()  # of an earlier promotion, since when workers have written to these topics
        self._note(self._plan.note)

    def unmark(self) -> None:
        """Takes the note back. To be called only before :meth:`clear` has deleted anything."""
        self._note(None)

    def _note(self, handover: str | None) -> None:
        changed = {}
        for place, one in self.production().items():
            noted = TopicPartitionMetadata.decode(one.metadata)
            if noted.handover != handover:
                text = replace(noted, handover=handover, handed_over=None).encode()
                changed[place] = OffsetAndMetadata(one.offset, text)
        if changed:
            self._commit(changed)

    def clear(self) -> None:
        """Deletes the internal topics of the former version, without those that an earlier call has begun to fill.

        Clients that are made before know these topics: make new ones afterwards.

        :raises RetryableError: if the broker does not delete them in time.
        """
        pairs = [*self._plan.changelogs, *self._plan.repartitions]
        former = self._former | {topic.name for topic in self._plan.new_topics}
        self._ids = self._admin.topic_ids({place.topic for one in pairs for place in one} | former)
        self._read_progress(pairs)
        unknown = {one.target.topic for one in pairs if one not in self._known}
        filled = {one.target.topic for one in pairs} - unknown
        self._delete(former - filled)

    def _delete(self, topics: Collection[str]) -> None:
        existing = self._admin.topics()
        doomed = sorted(topics & existing.keys())
        if not doomed:
            return
        places = [TopicPartition(name, n) for name in doomed for n in range(existing[name].partitions)]
        self._admin.delete_topics(doomed)
        until = self._clock.monotonic() + GONE_S
        # A worker that starts before the broker has forgotten them would find offsets of the former topics.
        while self._admin.topics().keys() & set(doomed) or self._admin.group_offsets(self._plan.clone, places):
            if self._clock.monotonic() > until:
                raise RetryableError(
                    f"topics are not deleted within {GONE_S:.0f} s: {', '.join(doomed)}. Check the broker's log for the"
                    " cause, then promote again"
                )
            self._clock.wait(cloning.PAUSE_S)

    def mark_incomplete(self) -> None:
        """Commits the note for the repartition topics that were made again; the other inputs have it."""
        note = OffsetAndMetadata(0, TopicPartitionMetadata(handover=self._plan.note).encode())
        if self._plan.repartitions:
            self._commit({one.target: note for one in self._plan.repartitions})

    def _offsets(self, committed: cloning.Offsets) -> cloning.Offsets:
        """Returns those of a clone, and those that only the former version has read, without their note."""
        found: Mapping[TopicPartition, OffsetAndMetadata] = super()._offsets(committed)
        left = {place: one for place, one in self.production().items() if place not in found}
        return {
            **found,
            **{
                place: one._replace(
                    metadata=replace(TopicPartitionMetadata.decode(one.metadata), handover=None).encode()
                )
                for place, one in left.items()
            },
        }
