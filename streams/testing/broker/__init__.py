"""Kafka in memory: for tests, the fault simulation, the demo and examples without a broker.

`EmbeddedBroker` is the cluster, `EmbeddedClients` its clients behind `streams.kafka.ports`; both adapters of the port
pass `client_contracts.clients`. What is simpler than Kafka:

* One broker without replicas: the high watermark is the end of the log, nothing is lost, no leader ever changes.
* What a real broker does in the background, compaction and retention, is done when asked for (`EmbeddedBroker.clean`),
  by segments as there.
* Group members are not held up until all have joined: each goes through a rebalance when it polls. There are no
  heartbeat threads: a member's session runs from its last call, so ``session.timeout.ms`` plays the part of
  ``max.poll.interval.ms`` too.
* Delivery is immediate. A producer that lingers sends when it is polled, not by itself.
* Timestamps have no limit unless a topic sets one; since Kafka 4.0 a broker's own is an hour ahead.
* Nothing is compressed: ``max.message.bytes`` counts the bytes of a batch as they are.

It never stands in for the integration tests, which run against Apache Kafka.
"""

from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.clients import EmbeddedClients

__all__ = ["EmbeddedBroker", "EmbeddedClients"]
