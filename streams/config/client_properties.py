"""The settings of librdkafka, with the clients that take each and the values it may have.

A test compares this list with the installed library. Callbacks are left out: they are the adapter's.
"""

from __future__ import annotations

from typing import NamedTuple


class ClientProperty(NamedTuple):
    """One setting of librdkafka."""

    scope: str
    """``C`` for consumers, ``P`` for producers, ``*`` for every client."""
    kind: str
    """``text``, ``bool``, ``int``, ``number`` or ``choice``."""
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()


ALIASES = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""librdkafka's second names, to the one used here: Java's where both have it. One setting must not be given twice."""

_TABLE = """
acks P -1..1000
allow.auto.create.topics * bool
api.version.fallback.ms * 0..604800000
api.version.request * bool
api.version.request.timeout.ms * 1..300000
auto.commit.enable C bool
auto.commit.interval.ms C 0..86400000
auto.offset.reset C smallest|earliest|beginning|largest|latest|end|error
batch.num.messages P 1..1000000
batch.size P 1..2147483647
bootstrap.servers * text
broker.address.family * any|v4|v6
broker.address.ttl * 0..86400000
broker.version.fallback * text
check.crcs C bool
client.dns.lookup * use_all_dns_ips|resolve_canonical_bootstrap_servers_only
client.id * text
client.rack * text
compression.codec P none|gzip|snappy|lz4|zstd
compression.level P -1..12
compression.type P none|gzip|snappy|lz4|zstd
connections.max.idle.ms * 0..2147483647
consume.callback.max.messages C 0..1000000
coordinator.query.interval.ms C 1..3600000
debug * text
delivery.report.only.error P bool
delivery.timeout.ms P 0..2147483647
enable.auto.commit C bool
enable.auto.offset.store C bool
enable.gapless.guarantee P bool
enable.idempotence P bool
enable.metrics.push * bool
enable.partition.eof C bool
enable.random.seed * bool
enable.sasl.oauthbearer.unsecure.jwt * bool
enable.ssl.certificate.verification * bool
fetch.error.backoff.ms C 0..300000
fetch.max.bytes C 0..2147483135
fetch.message.max.bytes C 1..1000000000
fetch.min.bytes C 0..2147483647
fetch.queue.backoff.ms C 0..300000
fetch.wait.max.ms C 0..300000
group.id C text
group.instance.id C text
group.protocol C classic|consumer
group.protocol.type C text
group.remote.assignor C text
heartbeat.interval.ms C 1..3600000
https.ca.location * text
https.ca.pem * text
internal.termination.signal * 0..128
isolation.level C read_uncommitted|read_committed
linger.ms P number:0..900000
log.connection.close * bool
log.queue * bool
log.thread.name * bool
log_level * 0..7
max.in.flight * 1..1000000
max.in.flight.requests.per.connection * 1..1000000
max.partition.fetch.bytes C 1..1000000000
max.poll.interval.ms C 1..86400000
max.poll.records C 1..2147483647
message.copy.max.bytes * 0..1000000000
message.max.bytes * 1000..1000000000
message.send.max.retries P 0..2147483647
message.timeout.ms P 0..2147483647
metadata.broker.list * text
metadata.max.age.ms * 1..86400000
metadata.recovery.rebootstrap.trigger.ms * 0..2147483647
metadata.recovery.strategy * none|rebootstrap
offset.store.method C none|file|broker
offset.store.path C text
offset.store.sync.interval.ms C -1..86400000
partition.assignment.strategy C text
partitioner P text
plugin.library.paths * text
produce.offset.report P bool
queue.buffering.backpressure.threshold P 1..1000000
queue.buffering.max.kbytes P 1..2147483647
queue.buffering.max.messages P 0..2147483647
queue.buffering.max.ms P number:0..900000
queued.max.messages.kbytes C 1..2097151
queued.min.messages C 1..10000000
queuing.strategy P fifo|lifo
receive.message.max.bytes * 1000..2147483647
reconnect.backoff.jitter.ms * 0..3600000
reconnect.backoff.max.ms * 0..3600000
reconnect.backoff.ms * 0..3600000
request.required.acks P -1..1000
request.timeout.ms P 1..900000
retries P 0..2147483647
retry.backoff.max.ms * 1..300000
retry.backoff.ms * 1..300000
sasl.kerberos.keytab * text
sasl.kerberos.kinit.cmd * text
sasl.kerberos.min.time.before.relogin * 0..86400000
sasl.kerberos.principal * text
sasl.kerberos.service.name * text
sasl.mechanism * text
sasl.mechanisms * text
sasl.oauthbearer.assertion.algorithm * RS256|ES256
sasl.oauthbearer.assertion.claim.aud * text
sasl.oauthbearer.assertion.claim.exp.seconds * 1..2147483647
sasl.oauthbearer.assertion.claim.iss * text
sasl.oauthbearer.assertion.claim.jti.include * bool
sasl.oauthbearer.assertion.claim.nbf.seconds * 0..2147483647
sasl.oauthbearer.assertion.claim.sub * text
sasl.oauthbearer.assertion.file * text
sasl.oauthbearer.assertion.jwt.template.file * text
sasl.oauthbearer.assertion.private.key.file * text
sasl.oauthbearer.assertion.private.key.passphrase * text
sasl.oauthbearer.assertion.private.key.pem * text
sasl.oauthbearer.client.credentials.client.id * text
sasl.oauthbearer.client.credentials.client.secret * text
sasl.oauthbearer.client.id * text
sasl.oauthbearer.client.secret * text
sasl.oauthbearer.config * text
sasl.oauthbearer.extensions * text
sasl.oauthbearer.grant.type * client_credentials|urn:ietf:params:oauth:grant-type:jwt-bearer
sasl.oauthbearer.metadata.authentication.type * none|azure_imds|aws_iam
sasl.oauthbearer.method * default|oidc
sasl.oauthbearer.scope * text
sasl.oauthbearer.sub.claim.name * text
sasl.oauthbearer.token.endpoint.url * text
sasl.password * text
sasl.username * text
security.protocol * plaintext|ssl|sasl_plaintext|sasl_ssl
session.timeout.ms C 1..3600000
share.acknowledgement.mode C text
socket.blocking.max.ms * 1..60000
socket.connection.setup.timeout.ms * 1000..2147483647
socket.keepalive.enable * bool
socket.max.fails * 0..1000000
socket.nagle.disable * bool
socket.receive.buffer.bytes * 0..100000000
socket.send.buffer.bytes * 0..100000000
socket.timeout.ms * 10..300000
ssl.ca.certificate.stores * text
ssl.ca.location * text
ssl.ca.pem * text
ssl.certificate.location * text
ssl.certificate.pem * text
ssl.cipher.suites * text
ssl.crl.location * text
ssl.curves.list * text
ssl.endpoint.identification.algorithm * none|https
ssl.engine.id * text
ssl.engine.location * text
ssl.key.location * text
ssl.key.password * text
ssl.key.pem * text
ssl.keystore.location * text
ssl.keystore.password * text
ssl.providers * text
ssl.sigalgs.list * text
statistics.interval.ms * 0..86400000
sticky.partitioning.linger.ms P 0..900000
topic.blacklist * text
topic.metadata.propagation.max.ms * 0..3600000
topic.metadata.refresh.fast.cnt * 0..1000
topic.metadata.refresh.fast.interval.ms * 1..60000
topic.metadata.refresh.interval.ms * -1..3600000
topic.metadata.refresh.sparse * bool
transaction.timeout.ms P 1000..2147483647
transactional.id P text
"""


def _property(scope: str, values: str) -> ClientProperty:
    if values in ("text", "bool"):
        return ClientProperty(scope, values)
    kind, _, limits = values.rpartition(":")
    low, dots, high = limits.partition("..")
    if dots:
        return ClientProperty(scope, kind or "int", int(low), int(high))
    return ClientProperty(scope, "choice", choices=tuple(values.split("|")))


PROPERTIES: dict[str, ClientProperty] = {
    name: _property(scope, values) for name, scope, values in map(str.split, _TABLE.strip().splitlines())
}
