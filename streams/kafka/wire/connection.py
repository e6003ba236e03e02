"""Connections to brokers: each sends requests and reads their answers, one at a time, each with a deadline; those that
work are kept for later requests, of any thread."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Self, TypeVar

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process
from streams.kafka.wire import error_codes, messages
from streams.kafka.wire.api import CORRELATION_BYTES, Api, correlation_id_of
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.codec import MalformedMessage
from streams.kafka.wire.sasl import Login

RESTED_S = 5.0
"""How long a connection that has rested is waited for, at most. A broker that takes longer is asked again."""


class Deadline:
    """A time limit for a call with several steps, in a clock's monotonic time."""

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._clock = clock
        self._end_s = clock.monotonic() + timeout_s

    def left_s(self) -> float:
        """The seconds until the deadline; 0 when it is over."""
        return max(0.0, self._end_s - self._clock.monotonic())

    def share(self, steps: int) -> Deadline:
        """Returns an earlier deadline, for the first of this many steps that divide the rest of the time."""
        return Deadline(self.left_s() / steps, self._clock)

    def of_rested(self) -> Deadline:
        """Returns an earlier deadline, for a request over a connection that has rested and so may be half open: a new
        one is made in the rest of the time."""
        return Deadline(min(self.left_s() / 2, RESTED_S), self._clock)

    def wait(self, seconds: float) -> bool:
        """Waits, and returns whether any time is left; returns at once if none would be."""
        if self.left_s() <= seconds:
            return False
        self._clock.wait(seconds)
        return True


class UnsupportedRequest(StreamsError):
    """A broker has no version of a request that is known here."""


Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")

_KEEPALIVE = tuple(
    (getattr(socket, name), value)
    for name, value in {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
)
"""After 30 s of rest the system asks whether the broker's machine is there, and gives it up after 30 s of silence."""
_SOFTWARE = messages.ApiVersionsRequest("streams-for-kafka", "1")
_SIZE = struct.Struct(">i")
_MOST_CORRELATION_ID = (1 << 31) - 1


def connect(address: Address, settings: ClientSettings, deadline: Deadline) -> Connection:
    """Returns a connection that knows the broker's versions and is logged in. Finding the host's address is outside the
    deadline, since the system gives no way to limit it.

    :raises RetryableError: if the broker cannot be reached or does not answer in time.
    :raises StreamsError: if its certificate or our login is refused, or it is not a broker that this library supports.
    """
    with ExitStack() as unless_ready:
        line = unless_ready.enter_context(_line(address, settings.tls, deadline))
        connection = Connection(line, address, settings.client_id)
        connection.learn_versions(deadline)
        if settings.login is not None:
            connection.log_in(settings.login, deadline)
        unless_ready.pop_all()
    return connection


def _line(address: Address, tls: ssl.SSLContext | None, deadline: Deadline) -> socket.socket:
    try:
        line = socket.create_connection(address, _seconds(deadline))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            line.setsockopt(socket.IPPROTO_TCP, option, value)
        if tls is None:
            return line
        with line:  # the socket is detached when it is wrapped, and closed if that fails
            line.settimeout(_seconds(deadline))
            return tls.wrap_socket(line, server_hostname=address.host)
    except OSError as error:
        raise _connection_error(address, error) from error
    except UnicodeError as error:
        raise StreamsError(f"{address.host!r} is not the name of a host") from error


class Connection:
    """Sends requests over a connected socket. To be used by one thread; after an error it is closed and cannot be used
    again."""

    def __init__(self, line: socket.socket, address: Address, client_id: str) -> None:
        self.address = address
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The lowest and the highest version that the broker has of each request, by key."""
        self.features: Mapping[str, int] = {}
        """The highest level that the broker has of each feature, whether it is in use or not (KIP-584)."""
        self._line = line
        self._client_id = client_id
        self._ids = itertools.count()
        self._recurring: dict[int, tuple[bytes, Any]] = {}
        """The last answer to each request that recurs, by its key: the bytes behind the correlation id, and what they
        say."""
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Closes the copy of the socket in a forked child; the connection stays open."""
        self._line.close()
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it was neither closed nor lost."""
        return self._line.fileno() >= 0

    def close(self) -> None:
        """Closes the connection; may be called again."""
        self._line.close()

    def learn_versions(self, deadline: Deadline) -> None:
        """Asks for the versions that the broker has; before it, no other request is possible.

        :raises StreamsError: if the broker is older than this request, or no broker.
        """
        self.versions = {messages.API_VERSIONS.key: (messages.API_VERSIONS.lowest, messages.API_VERSIONS.highest)}
        try:
            answer = self.call(messages.API_VERSIONS, _SOFTWARE, deadline)
        except MalformedMessage as error:
            raise StreamsError(
                f"{self.address} does not respond like a broker of Kafka {messages.API_VERSIONS.needs} or later"
            ) from error
        if answer.error_code != error_codes.NONE:
            reason = error_codes.described(answer.error_code)
            raise StreamsError(f"{self.address} does not report its versions: {reason}")
        self.versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        self.features = {one.name: one.max_version for one in answer.supported_features}

    def log_in(self, login: Login, deadline: Deadline) -> None:
        """Logs in by the mechanism of the settings.

        :raises StreamsError: if the broker refuses the login, or is not who it should be."""
        with self._closed_on_error():
            handshake = self.call(messages.SASL_HANDSHAKE, messages.SaslHandshakeRequest(login.mechanism), deadline)
            if handshake.error_code == error_codes.ILLEGAL_SASL_STATE:
                raise StreamsError(f"{self.address} does not accept a login: set security.protocol to plaintext or ssl")
            if handshake.error_code != error_codes.NONE:
                known = ", ".join(handshake.mechanisms) or "none"
                raise StreamsError(
                    f"{self.address} does not accept a login by {login.mechanism}; its sasl.mechanism is {known}"
                )

            def exchange(data: bytes) -> bytes:
                answer = self.call(messages.SASL_AUTHENTICATE, messages.SaslAuthenticateRequest(data), deadline)
                if answer.error_code != error_codes.NONE:
                    reason = error_codes.described(answer.error_code, answer.error_message)
                    raise StreamsError(f"{self.address} rejected the login by {login.mechanism}: {reason}")
                return answer.auth_bytes

            login.log_in(exchange)

    def call(self, api: Api[Q, R], request: Q, deadline: Deadline) -> R:
        """Sends a request, in the highest version that both have, and waits for its answer.

        :raises RetryableError: if the connection breaks or the time is over.
        :raises StreamsError: if the broker has no version of the request, or answers something else.
        """
        if not self.is_open:
            raise RetryableError(f"the connection to {self.address} is closed")
        with self._closed_on_error():
            version = self._version(api)
            sent_id = next(self._ids) & _MOST_CORRELATION_ID
            sent = api.encode(request, version, sent_id, self._client_id)
            answer = self._exchange(sent, api.name, api.most_answer_bytes, deadline)
            try:
                answered_id = correlation_id_of(answer)
                if answered_id != sent_id:
                    raise RetryableError(
                        f"{self.address} sent the response to request {answered_id} instead of {sent_id}"
                    )
                return self._read(api, answer, version, deadline)
            except TimeoutError as error:
                raise _connection_error(self.address, error) from error
            except MalformedMessage as error:
                raise MalformedMessage(
                    f"the response of {self.address} to {api.name} cannot be read: {error}"
                ) from error

    def _read(self, api: Api[Q, R], answer: bytes, version: int, deadline: Deadline) -> R:
        if not api.recurs:
            return api.decode(answer, version, lambda: _seconds(deadline))
        body, known = answer[CORRELATION_BYTES:], self._recurring.get(api.key)
        if known is None or known[0] != body:
            known = self._recurring[api.key] = body, api.decode(answer, version, lambda: _seconds(deadline))
        found: R = known[1]
        return found

    def _version(self, api: Api[Q, R]) -> int:
        low, high = self.versions.get(api.key, (0, -1))
        version = min(api.highest, high)
        if version < max(api.lowest, low):
            raise UnsupportedRequest(
                f"{self.address} does not have a version of {api.name} from {api.lowest} to {api.highest}: it must be"
                f" Kafka {api.needs} or later"
            )
        return version

    def _exchange(self, request: bytes, name: str, most_bytes: int, deadline: Deadline) -> bytes:
        try:
            self._line.settimeout(_seconds(deadline))
            self._line.sendall(request)
            size = _SIZE.unpack(self._exactly(_SIZE.size, deadline))[0]
            if not 0 <= size <= most_bytes:  # four bytes of another protocol nearly always give a size like this
                raise StreamsError(
                    f"{self.address} announces a response of {size} bytes to {name}, but {most_bytes} are the limit:"
                    " check that it is a Kafka listener, and that security.protocol is that of the listener"
                )
            return self._exactly(size, deadline)
        except OSError as error:
            raise _connection_error(self.address, error) from error

    def _exactly(self, count: int, deadline: Deadline) -> bytes:
        found = bytearray()
        while len(found) < count:
            self._line.settimeout(_seconds(deadline))
            part = self._line.recv(count - len(found))
            if not part:
                raise ConnectionResetError
            found += part
        return bytes(found)

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _seconds(deadline: Deadline) -> float:
    """Returns the time that is left, for the timeout of a socket, to which 0 means something else."""
    seconds = deadline.left_s()
    if not seconds:
        raise TimeoutError
    return seconds


def _connection_error(address: Address, error: OSError) -> StreamsError:
    """Returns the error to raise, which is a `RetryableError` if trying again may help."""
    match error:
        case ssl.SSLCertVerificationError():
            return StreamsError(f"the certificate of {address} is not trusted: {error.verify_message}")
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ConnectionResetError() | BrokenPipeError():
            return RetryableError(
                f"{address} closed the connection: it is shutting down, security.protocol is not that of its listener,"
                " or it requires a client certificate"
            )
        case ssl.SSLError() if "CERTIFICATE" in str(error.reason) or "UNKNOWN_CA" in str(error.reason):
            return StreamsError(
                f"{address} rejected the certificate of this client, or requires one: {error.reason}; check"
                " ssl.certificate.location and ssl.key.location"
            )
        case ssl.SSLError():
            return StreamsError(
                f"TLS with {address} failed: {error.reason}; check that security.protocol is that of its listener"
            )
        case TimeoutError():
            return RetryableError(f"{address} did not respond in time")
        case socket.gaierror():
            return RetryableError(f"the host of {address} is not known: {error.strerror}")
        case _:
            return RetryableError(f"{address} cannot be reached: {error.strerror or error}")


class Connections:
    """Makes connections, each used by one thread at a time, and keeps those that work. May be used by any thread.

    A connection that has rested may be half open: what is sent over it vanishes. So after an error of one, others that
    rest at the same address are closed.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: dict[Address, list[Connection]] = {}
        self._servers = settings.servers

    def _rested(self, address: Address) -> Connection | None:
        with self._lock:
            kept = self._idle.get(address)
            return kept.pop() if kept else None

    @contextmanager
    def _used(self, connection: Connection) -> Iterator[Connection]:
        address = connection.address
        try:
            yield connection
        except BaseException:
            with self._lock:
                closed = [connection, *self._idle.pop(address, ())]
            for one in closed:
                one.close()
            raise
        with self._lock:
            self._idle.setdefault(address, []).append(connection)

    def ask(self, address: Address, deadline: Deadline, ask: Callable[[Connection, Deadline], T]) -> T:
        """Returns the answer of a broker, over a new connection if one that has rested brings none in time.

        :param ask: is called again then, so it does no harm to call it twice.
        :raises StreamsError: as :func:`streams.kafka.wire.connection.connect`, and what ``ask`` raises.
        """
        if (rested := self._rested(address)) is not None:
            lost = False
            try:
                with self._used(rested):
                    try:
                        return ask(rested, deadline.of_rested())
                    except RetryableError:
                        lost = not rested.is_open
                        raise
            except RetryableError:
                if not lost:  # the answer came, and was one that may pass
                    raise
        with self._used(connect(address, self._settings, deadline)) as connection:
            return ask(connection, deadline)

    def any(self, deadline: Deadline, ask: Callable[[Connection, Deadline], T]) -> T:
        """Returns the answer of the first bootstrap server that can be asked; each gets its part of the time. The one
        that answered last is asked first.

        :raises StreamsError: if none can. The error of a refused login or certificate is preferred to that of a server
            that did not answer, since it is what the user has to repair.
        """
        refused: StreamsError | None = None
        unreachable: RetryableError | None = None
        servers = self._servers
        for tried, address in enumerate(servers):
            part = deadline.share(len(servers) - tried)
            try:
                answer = self.ask(address, part, ask)
            except RetryableError as error:
                unreachable = error
            except StreamsError as error:
                refused = refused or error
            else:
                if tried:
                    self._servers = (*servers[tried:], *servers[:tried])
                return answer
        raise refused or unreachable or StreamsError("no bootstrap servers are set")

    def close(self) -> None:
        """Closes the connections that are not in use; may be called again."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()
