"""Kafka in memory: for the test driver, the fault simulation, the demo and examples without a broker.

`EmbeddedBroker` is the cluster, `EmbeddedClients` its clients behind `streams.kafka.ports`; both adapters of the port
pass `streams.testing.contracts.clients`. What is simpler than Kafka:

* One broker without replicas: the high watermark is the end of the log, nothing is lost, no leader ever changes.
* Whatever a real broker does in the background (compaction, retention) is done when asked for.
* Group members are not held up until all have joined: each goes through a rebalance when it polls. There are no
  heartbeat threads: a member's session runs from its last call, so ``session.timeout.ms`` plays the part of
  ``max.poll.interval.ms`` too.
* Delivery is immediate. A producer that lingers sends when it is polled, not by itself.
* Timestamps have no limit unless a topic sets one.

It never stands in for the integration tests, which run against Apache Kafka.
"""

from streams.kafka.embedded.broker import EmbeddedBroker
from streams.kafka.embedded.clients import EmbeddedClients

__all__ = ["EmbeddedBroker", "EmbeddedClients"]
