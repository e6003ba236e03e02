"""Settings of Kafka's Java clients that librdkafka has under another name or not at all, as data.

A setting that is in none of these tables has the same name and meaning in both. docs/configuration.md shows them, and a
test compares.
"""

from __future__ import annotations

RENAMED: dict[str, str] = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""Java's name to librdkafka's. Bytes become kilobytes for `buffer.memory`; -1 (the system's buffers) becomes 0."""

HANDLED: dict[str, str] = {
    "auto.offset.reset": "where to read a partition without a committed offset, or whose offset is outside of its log:"
    " `earliest`, `latest`, `none`, `by_duration:P1D`; a source may have its own",
    "group.instance.id": "static membership; each thread adds its number",
    "max.poll.records": "most records that a stream thread takes from one poll",
}
"""Read by the runtime, not by librdkafka."""

_SERDES = "keys and values are read and written by serdes: set `default.key.serde` and `default.value.serde`"
_OPENSSL = "librdkafka uses OpenSSL, which does not have this choice"
_CA = "put the certificates of the authorities into a PEM file and set `ssl.ca.location`"
_KEYSTORE = "set `ssl.keystore.location` (PKCS#12), or `ssl.certificate.location` and `ssl.key.location` (PEM)"
_LOGIN = (
    "this library cannot load Java login classes: set `sasl.mechanism` with `sasl.username` and `sasl.password`, or"
)
_LOGIN += " `sasl.oauthbearer.method=oidc`"
_BROKER_SIDE = "only brokers validate tokens"
_OIDC = "librdkafka renews tokens automatically"
_JMX = "this library has no Java metrics: read `KafkaStreams.metrics()`, or set `statistics.interval.ms`"
_MURMUR = "records must go to the partitions Kafka Streams would choose: give a partitioner to `Produced`"
_SHARE = "tasks own their partitions; this library does not use share groups"
_LEVEL = "set `compression.level`, which librdkafka applies to any `compression.type`"

REFUSED: dict[str, str] = {
    "bootstrap.controllers": "the client talks to brokers: set `bootstrap.servers`",
    "bootstrap.resolve.timeout.ms": "librdkafka resolves names each time that it connects, and keeps trying",
    "buffer.memory.allocation.strategy": "librdkafka allocates what records need, as `incremental` does",
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "config.providers": "resolve secrets before making the configuration, for instance from environment variables",
    "default.api.timeout.ms": "each call to the cluster has its own deadline here",
    "exclude.internal.topics": "topics are subscribed by name",
    "interceptor.classes": "this library cannot load Java interceptors: use `plugin.library.paths`, or a processor",
    "key.deserializer": _SERDES,
    "key.serializer": _SERDES,
    "max.block.ms": "a full producer queue is retried until `task.timeout.ms`",
    "metadata.cluster.check.enable": "librdkafka does not send brokers the cluster and node that it expects (KIP-1242)",
    "metadata.max.idle.ms": "librdkafka keeps the metadata of all topics in use",
    "metric.reporters": _JMX,
    "metrics.num.samples": _JMX,
    "metrics.recording.level": _JMX,
    "metrics.sample.window.ms": _JMX,
    "partitioner.adaptive.partitioning.enable": _MURMUR,
    "partitioner.availability.timeout.ms": _MURMUR,
    "partitioner.class": _MURMUR,
    "partitioner.ignore.keys": _MURMUR,
    "partitioner.rack.aware": _MURMUR,
    "sasl.client.callback.handler.class": _LOGIN,
    "sasl.jaas.config": "set `sasl.username` and `sasl.password` instead, or `sasl.kerberos.principal` and"
    " `sasl.kerberos.keytab`",
    "sasl.kerberos.ticket.renew.jitter": "set `sasl.kerberos.kinit.cmd`",
    "sasl.kerberos.ticket.renew.window.factor": "set `sasl.kerberos.kinit.cmd`",
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.login.class": _LOGIN,
    "sasl.login.connect.timeout.ms": _OIDC,
    "sasl.login.read.timeout.ms": _OIDC,
    "sasl.login.refresh.buffer.seconds": _OIDC,
    "sasl.login.refresh.min.period.seconds": _OIDC,
    "sasl.login.refresh.window.factor": _OIDC,
    "sasl.login.refresh.window.jitter": _OIDC,
    "sasl.login.retry.backoff.max.ms": _OIDC,
    "sasl.login.retry.backoff.ms": _OIDC,
    "sasl.oauthbearer.allow.unverified.audience": _BROKER_SIDE,
    "sasl.oauthbearer.allow.unverified.issuer": _BROKER_SIDE,
    "sasl.oauthbearer.assertion.template.file": "set `sasl.oauthbearer.assertion.jwt.template.file`",
    "sasl.oauthbearer.clock.skew.seconds": _BROKER_SIDE,
    "sasl.oauthbearer.expected.audience": _BROKER_SIDE,
    "sasl.oauthbearer.expected.issuer": _BROKER_SIDE,
    "sasl.oauthbearer.header.urlencode": _OIDC,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.url": _BROKER_SIDE,
    "sasl.oauthbearer.jwt.retriever.class": _LOGIN,
    "sasl.oauthbearer.jwt.validator.class": _LOGIN,
    "sasl.oauthbearer.scope.claim.name": _BROKER_SIDE,
    "security.providers": _OPENSSL,
    "share.acquire.mode": _SHARE,
    "socket.connection.setup.timeout.max.ms": "librdkafka has `socket.connection.setup.timeout.ms` only",
    "ssl.enabled.protocols": _OPENSSL,
    "ssl.engine.factory.class": _OPENSSL,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.keystore.certificate.chain": "set `ssl.certificate.pem`",
    "ssl.keystore.key": "set `ssl.key.pem`",
    "ssl.keystore.type": _KEYSTORE,
    "ssl.protocol": _OPENSSL,
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.truststore.certificates": "set `ssl.ca.pem`",
    "ssl.truststore.location": _CA,
    "ssl.truststore.password": _CA,
    "ssl.truststore.type": _CA,
    "transaction.two.phase.commit.enable": "each commit is a transaction of its own, which the runtime ends",
    "value.deserializer": _SERDES,
    "value.serializer": _SERDES,
}
"""Java's settings without a counterpart, and what to do instead."""

_GROUP = "the group is the application's: set `application.id`"
_PROTOCOL = "ownership of tasks depends on it; `group.protocol` is set for the application"

OURS: dict[str, str] = {
    "auto.commit.interval.ms": "offsets are committed with the state every `commit.interval.ms`",
    "bootstrap.servers": "an application reads and writes one cluster: set `bootstrap.servers` without a prefix",
    "client.id": "clients are named after the application's `client.id`, set without a prefix",
    "group.id": _GROUP,
    "group.protocol": _PROTOCOL,
    "group.protocol.type": _PROTOCOL,
    "group.remote.assignor": _PROTOCOL,
    "offset.store.method": "offsets are committed to the broker",
    "offset.store.path": "offsets are committed to the broker",
    "offset.store.sync.interval.ms": "offsets are committed to the broker",
    "partition.assignment.strategy": _PROTOCOL,
    "partitioner": _MURMUR,
    "queuing.strategy": "records must be sent in order",
    "share.acknowledgement.mode": _SHARE,
    "transactional.id": "this library derives it from the application id, the process and the thread",
}
"""Settings that both clients have and that belong to the runtime: refused under every prefix."""
