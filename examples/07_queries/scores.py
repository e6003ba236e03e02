"""Adds up the points of players, and answers questions about them from the store while it does.

It needs no database and no topic for the answers: a thread of its own reads them from the store of the running
application.
"""

from datetime import timedelta
from heapq import nlargest

from streams import (
    InvalidStateStoreError,
    KafkaStreams,
    KeyQuery,
    Materialized,
    Position,
    PositionBound,
    QueryableStoreTypes,
    Serdes,
    StateQueryRequest,
    StoreQueryParameters,
    StreamsBuilder,
    script_config,
)

settings = {
    "application.id": "scores",
    "default.key.serde": Serdes.STRING,
    "default.value.serde": Serdes.LONG,
}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    points = builder.stream("points").group_by_key()
    points.reduce(lambda total, more: total + more, materialized=Materialized(name="totals"))
    return builder


def best(app: KafkaStreams, count: int) -> list[tuple[str, int]]:
    """Returns the players with the most points, of those whose partitions are in this process."""
    totals = app.store(StoreQueryParameters.from_name_and_type("totals", QueryableStoreTypes.key_value_store()))
    with totals.all() as players:
        return nlargest(count, players, key=lambda player: player[1])


def total_after(app: KafkaStreams, player: str, partition: int, offset: int) -> int | None:
    """Returns a player's points, with those of the record at ``offset``; ``None`` while it is not counted yet.

    The writer of that record knows its offset, and so reads a total that counts it.
    """
    bound = PositionBound.at(Position({"points": {partition: offset}}))
    request = StateQueryRequest.in_store("totals").with_query(KeyQuery(player))
    found = app.query(request.with_partitions([partition]).with_position_bound(bound)).partition_results[partition]
    return found.result if found.is_success else None


if __name__ == "__main__":
    with KafkaStreams(topology, script_config(settings)) as app:
        while not app.wait(timedelta(seconds=5)):
            if app.state.is_running_or_rebalancing():
                try:
                    print(best(app, 3))
                except InvalidStateStoreError as error:
                    print(error.message)
