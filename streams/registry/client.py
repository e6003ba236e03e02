"""The client of a schema registry: Confluent's, with deadlines, and errors that say what was asked for.

There is one for each set of settings in a process; it is made again in a forked child, which must not use the
connections of its parent. What it has found is kept for as long as the process runs, so a registry that is away stops
nothing that is known already.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import ssl
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from processor_api.clock import Clock, SystemClock
from processor_api.texts import cut, plain_str
from streams.outages import patience_of_thread
from streams.registry.avro_evolution import complaints, is_transitive
from streams.registry.schemas import AVRO, Registered, RegistryAway, SchemaError, SchemaReference, SchemaText, TopicPart
from streams.registry.settings import DEFAULT_TIMEOUT_MS, OF_SERDES, secrets_in, shown_url
from streams.trials import trial_in_effect

try:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
    from confluent_kafka.schema_registry import SchemaReference as TheirReference
    from confluent_kafka.schema_registry.error import OAuthTokenError
except ImportError as error:
    raise ImportError(
        f"{error.name or error} is not installed, which the client of schema registries needs; install"
        " streams-for-kafka[registry]",
        name=error.name,
    ) from error

log = logging.getLogger("streams.registry")

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 10_000
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
REFUSED_S = 5.0
"""How long a refusal is remembered."""
MOST_REFUSALS = 1000
MOCK = "mock://"
_REFUSED_LOGIN = (401, 403)
_NOT_FOUND = 404
_LATER = (407, 408, 425, 429)
_INCOMPATIBLE = 409
_NO_SUPPORT = 404

_CLIENTS: dict[tuple[int, type[RegistryClient], tuple[tuple[str, Any], ...]], RegistryClient] = {}
_MOCKS: dict[tuple[int, str], SchemaRegistryClient] = {}


def client_of(settings: Mapping[str, Any]) -> RegistryClient:
    """Returns the client of this process for the settings of a :class:`~streams.registry.SchemaRegistry`."""
    own = {name: value for name, value in settings.items() if name not in OF_SERDES}
    made = RegistryClient if trial_in_effect() is None else TrialClient
    key = os.getpid(), made, tuple(sorted(own.items()))
    found = _CLIENTS.get(key)
    return found if found is not None else _CLIENTS.setdefault(key, made(own))


@atexit.register
def _close_clients() -> None:
    """Closes the connections of this process when it ends; those of a parent stay."""
    for (process, *_), client in list(_CLIENTS.items()):
        if process == os.getpid():
            client.close()


class NotInRegistry(SchemaError):
    """Raised where a registry answers that it has no such schema, subject or version."""


class _Refusals:
    """Remembers for some seconds what the registry has refused, so that a flood of records with one unknown id does
    not ask for each of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[Hashable, tuple[float, type[SchemaError], str]] = OrderedDict()

    def check(self, key: Hashable) -> None:
        """Raises the error that was the answer to the same question a moment ago.

        :raises SchemaError: if there was one.
        """
        found = self._known.get(key)
        if found is None:
            return
        until, kind, text = found
        if self._clock.monotonic() < until:
            raise kind(text)
        self._known.pop(key, None)

    def add(self, key: Hashable, error: SchemaError) -> None:
        """Remembers an answer; the oldest one is forgotten."""
        self._known[key] = self._clock.monotonic() + REFUSED_S, type(error), str(error)
        while len(self._known) > MOST_REFUSALS:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forgets all: something was registered."""
        self._known.clear()


class RegistryClient:
    """Asks a registry, and keeps what it answered.

    :param settings: those of the client, under their dotted names.
    :param clock: measures deadlines.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        self.url = shown_url(str(settings["url"]))
        self._timeout_s = settings.get("timeout.ms", DEFAULT_TIMEOUT_MS) / 1000
        self._clock = clock or SystemClock()
        self._client = _made(settings)
        self._by_id: dict[int, Registered] = {}
        self._by_guid: dict[str, Registered] = {}
        self._away_since: float | None = None
        self._refusals = _Refusals(self._clock)
        self._secrets = secrets_in(settings)

    def close(self) -> None:
        """Closes the connections; the client cannot be used then."""
        self._client.close()

    # ------------------------------------------------------------------ what serdes ask

    def by_id(self, schema_id: int) -> Registered:
        """Returns the schema with an id.

        :raises SchemaError: if the registry has none, or does not answer in time.
        """
        found = self._by_id.get(schema_id)
        if found is None:
            what = f"schema id {schema_id}"
            schema = self._ask(what, lambda: _complete(self._client.get_schema(schema_id)))
            found = self._by_id[schema_id] = Registered(_text_of(schema), schema_id)
        return found

    def by_guid(self, guid: str) -> Registered:
        """Returns the schema with a GUID; otherwise as :meth:`by_id`."""
        found = self._by_guid.get(guid)
        if found is None:
            schema = self._ask(f"schema GUID {guid}", lambda: _complete(self._client.get_schema_by_guid(guid)))
            found = self._by_guid[guid] = Registered(_text_of(schema), -1, guid)
        return found

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Registers a schema in a subject, if it has it not yet, and returns it with its id.

        :raises SchemaError: if it is refused, as one that is not compatible, or the registry does not answer in time.
        """
        theirs, what = _theirs(schema), f"the registration of a schema in subject {subject}"
        found = self._ask(
            what,
            lambda: _identified(self._client.register_schema_full_response(subject, theirs, normalize)),
            _digest(schema),
        )
        self._refusals.clear()
        return _registered(schema, found, subject)

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Returns a schema that a subject has, with its id.

        :raises NotInRegistry: if the subject has it not, or does not exist.
        """
        theirs, what = _theirs(schema), f"the schema in subject {subject}"
        found = self._ask(
            what, lambda: _identified(self._client.lookup_schema(subject, theirs, normalize)), _digest(schema)
        )
        return _registered(schema, found, subject)

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject.

        :raises NotInRegistry: if it does not exist.
        """
        what = f"the latest version of subject {subject}"
        found = self._ask(what, lambda: _complete(self._client.get_latest_version(subject)))
        return _registered(_text_of(found.schema), found, subject)

    def references_of(self, schema: SchemaText) -> Iterator[tuple[SchemaReference, SchemaText]]:
        """Yields the schemas that one refers to, and those that they refer to, each behind all that it needs."""
        seen: set[tuple[str, int]] = set()

        def walk(references: tuple[SchemaReference, ...]) -> Iterator[tuple[SchemaReference, SchemaText]]:
            for one in references:
                if (one.subject, one.version) in seen:
                    continue
                seen.add((one.subject, one.version))
                text = self.version(one.subject, one.version).schema
                yield from walk(text.references)
                yield one, text

        yield from walk(schema.references)

    def version(self, subject: str, version: int) -> Registered:
        """Returns one version of a subject.

        :raises NotInRegistry: if the subject has it not.
        """
        what = f"version {version} of subject {subject}"
        found = self._ask(what, lambda: _complete(self._client.get_version(subject, version)))
        return _registered(_text_of(found.schema), found, subject)

    def associated(self, place: TopicPart) -> str | None:
        """Returns the subject that the registry has for a topic; ``None`` if it has none, or knows no associations."""

        def ask() -> Any:
            try:
                return self._client.get_associations_by_resource_name(place.topic, "-", "topic", [place.part])
            except SchemaRegistryError as error:
                if error.http_status_code == _NO_SUPPORT:
                    return []
                raise

        found = self._ask(f"the subject associated with {place}", ask)
        if len(found) > 1:
            names = ", ".join(sorted(plain_str(one.subject) for one in found))
            raise SchemaError(f"{place} have several associated subjects in the registry: {names}")
        return found[0].subject if found else None

    # ------------------------------------------------------------------ what the command asks

    def subjects(self) -> list[str]:
        """Returns the names of all subjects."""
        return list(self._ask("the subjects", self._client.get_subjects))

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject."""
        return sorted(self._ask(f"the versions of {subject}", lambda: self._client.get_versions(subject)))

    def compatibility(self, subject: str) -> str | None:
        """Returns the level that a subject is held to, such as ``BACKWARD``; ``None`` where the registry has none."""
        if self.url.startswith(MOCK):
            return "BACKWARD"
        for asked in (subject, None):
            try:
                level = self._ask(
                    f"the compatibility level of {asked or 'the registry'}",
                    lambda asked=asked: self._client.get_config(asked).compatibility_level,  # type: ignore[misc]
                )
            except NotInRegistry:
                continue
            text = getattr(level, "value", level)
            return None if text is None else str(text)
        return None

    def is_compatible(self, subject: str, schema: SchemaText) -> bool:
        """Returns whether the registry would let a schema into a subject, by the level that it holds it to: against
        the latest version, or all of them. One in memory, which lets everything, is taken for one that holds Avro to
        ``BACKWARD``, as registries do by default."""
        if self.url.startswith(MOCK):
            latest = self.latest(subject).schema
            return latest.kind != AVRO or not complaints("BACKWARD", schema.text, latest.text)
        theirs = _theirs(schema)
        what = f"the compatibility of a schema with subject {subject}"
        # Confluent's registry compares with all versions only where the level says so, but Apicurio always.
        all_versions = is_transitive(self.compatibility(subject) or "")
        compare = self._client.test_compatibility_all_versions if all_versions else self._client.test_compatibility
        return bool(self._ask(what, lambda: compare(subject, theirs)))

    # ------------------------------------------------------------------ asking

    def _ask(self, what: str, call: Callable[[], T], more: str = "") -> T:
        """Calls until the registry answers, or the time of an outage is over; an outage is shared by all calls, so a
        thread with many unknown ids waits for it once. Threads that wait in another way have a patience of their own
        (`streams.outages`).

        :param more: what the name of the question lacks to be one of its own.
        :raises SchemaError: if the registry refuses it; from then on the same for some seconds, without a question.
        :raises RegistryAway: if it does not answer; both name what was asked for.
        """
        key = what, more
        self._refusals.check(key)
        patience, wait_s, failed = patience_of_thread(), FIRST_WAIT_S, False
        while True:
            try:
                found = call()
            except Exception as error:
                failed = True
                away = self._away(what, error, key)
                if patience is None and not _may_pass(error):
                    raise away from error  # a person waits, and has to do something
                if patience is None:
                    wait_s = self._wait(away, error, wait_s)
                elif not patience.waits(away):
                    raise away from error
                continue
            if failed and patience is not None:
                patience.answered()
            if self._away_since is not None:
                self._away_since = None
                log.warning("the schema registry answers again", extra={"registry": self.url})
            return found

    def _away(self, what: str, error: Exception, key: Hashable) -> RegistryAway:
        """Returns the error of an outage: the registry was not reached, or what came is not the answer of a registry.

        An answer would be the same again, and is about what was asked for: its status and its body are those that
        registries have for a schema that is missing, not compatible or wrong. All else may be over later and is not the
        fault of a record, a login that is refused included.

        :raises SchemaError: if it is an answer, naming what was asked for, and what to do.
        """
        if _is_answer(error):
            assert isinstance(error, SchemaRegistryError)
            status, text = error.http_status_code, cut(self._masked(error.error_message), 500)
            kind, why = SchemaError, f"refuses it ({status}: {text})"
            if status == _NOT_FOUND:
                kind, why = NotInRegistry, f"has no such schema ({text})"
            elif status == _INCOMPATIBLE:
                why = f"refuses it, since it is not compatible with those before ({text})"
            refusal = kind(f"{what}: the registry {self.url} {why}")
            if not self.url.startswith(MOCK):  # which is asked at no cost
                self._refusals.add(key, refusal)
            raise refusal from error
        if not isinstance(error, SchemaRegistryError) and not _is_of_transport(error):
            kept: Any = self._client
            kept.clear_caches()  # it may have kept a half of an answer
        away = RegistryAway(f"{what}: the registry {self.url} {self._reason(error)}")
        if self._away_since is None:
            self._away_since = self._clock.monotonic()
            log.warning(
                "the schema registry cannot be used: records of known schemas go on, all others wait; nothing is lost."
                " Check that it runs, and the settings that begin with schema.registry.",
                extra={"registry": self.url, "asked": what, "error": self._reason(error)},
            )
        return away

    def _reason(self, error: Exception) -> str:
        """Returns why a registry cannot be used, and what to do, as the rest of a sentence."""
        text = cut(self._masked(error) or type(error).__name__, 500)
        if isinstance(error, SchemaRegistryError):
            status = error.http_status_code
            text = cut(self._masked(error.error_message), 500)
            if status in _REFUSED_LOGIN:
                return (
                    f"refuses the login ({status}: {text}); check basic.auth.user.info or the settings that begin with"
                    " bearer.auth."
                )
            return f"cannot be asked now ({status}: {text})"
        if isinstance(error, OAuthTokenError):
            return f"cannot be asked: there is no token for it: {text}"
        if (tls := _tls_error(error)) is not None:
            return (
                f"is not trusted, or does not trust this client: {self._masked(tls)}; check the settings that begin"
                " with ssl."
            )
        if _is_of_transport(error):
            return f"does not answer: {text}"
        return f"sent what is not the answer of a registry: {type(error).__name__}: {text}; check the url"

    def _masked(self, text: Any) -> str:
        """Returns a text without what is secret in the settings, which errors of libraries may quote."""
        shown = plain_str(text)
        for secret in self._secrets:
            shown = shown.replace(secret, "***")
        return shown

    def _wait(self, away: RegistryAway, error: Exception, wait_s: float) -> float:
        """Waits before the next call; returns how long to wait then.

        :raises RegistryAway: after ``timeout.ms``.
        """
        assert self._away_since is not None
        left = self._away_since + self._timeout_s - self._clock.monotonic()
        if left <= 0:
            text = f"{away.message}; it has not answered for {self._timeout_s:g} s (timeout.ms)"
            raise RegistryAway(text) from error
        self._clock.wait(min(wait_s, left))
        return min(2 * wait_s, LONGEST_WAIT_S)


class TrialClient(RegistryClient):
    """The client of a trial, which registers nothing: a schema that the registry has is looked up, and any other gets
    an id that counts in this process only. Nothing that is written with such an id leaves the process, since the other
    clients of a trial cannot write either."""

    def by_id(self, schema_id: int) -> Registered:
        """Returns the schema with an id, also one of this process."""
        found = _local.get(schema_id)
        return super().by_id(schema_id) if found is None else found

    def by_guid(self, guid: str) -> Registered:
        """Returns the schema with a GUID, also one of this process."""
        found = next((one for one in list(_local.values()) if one.guid == guid), None)
        return super().by_guid(guid) if found is None else found

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Returns a schema as the registry has it in a subject, otherwise with an id of this process."""
        try:
            return self.lookup(subject, schema, normalize=normalize)
        except SchemaError:  # also one that cannot be looked up, as it refers to a schema of this process
            self._refusals.clear()  # the application itself may register it at any moment
            return _registered_here(subject, schema)

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject; if there is none, the last one of this process."""
        try:
            return super().latest(subject)
        except NotInRegistry:
            found = [one for one in list(_local.values()) if one.subject == subject]
            if not found:
                raise
            return found[-1]

    def version(self, subject: str, version: int) -> Registered:
        """Returns one version of a subject, also one of this process."""
        here = (one for one in list(_local.values()) if (one.subject, one.version) == (subject, version))
        found = next(here, None)
        return super().version(subject, version) if found is None else found


_local: dict[int, Registered] = {}
"""The schemas of trials of this process by their ids, in the order in which they were needed."""
_local_lock = threading.Lock()
_HIGHEST_ID = (1 << 32) - 1
"""Registries count up from 1; ids of this process count down."""
_FIRST_VERSION = 1 << 30


def _registered_here(subject: str, schema: SchemaText) -> Registered:
    with _local_lock:
        for one in _local.values():
            if (one.subject, one.schema) == (subject, schema):
                return one
        count = len(_local)
        made = Registered(schema, _HIGHEST_ID - count, str(uuid.uuid4()), _FIRST_VERSION + count, subject)
        _local[made.id] = made
        return made


def _made(settings: Mapping[str, Any]) -> SchemaRegistryClient:
    url = settings["url"]
    given = {name: value for name, value in settings.items() if name not in ("timeout.ms", "request.timeout.ms")}
    if url.startswith(MOCK):
        # Of one scope there is one in a process, whichever settings the serdes have. It asks no server, so it need not
        # read the certificates of all authorities.
        mock = {"url": MOCK, "ssl.ca.location": False}
        found = _MOCKS.get((os.getpid(), url))
        return found or _MOCKS.setdefault((os.getpid(), url), SchemaRegistryClient.new_client(mock))
    if "bearer.auth.token" in given:
        given.setdefault("bearer.auth.credentials.source", "STATIC_TOKEN")
    elif "bearer.auth.client.id" in given:
        given.setdefault("bearer.auth.credentials.source", "OAUTHBEARER")
    if "bearer.auth.credentials.source" in given:
        given.setdefault("bearer.auth.logical.cluster", "")
    given["timeout"] = settings.get("request.timeout.ms", REQUEST_TIMEOUT_MS) / 1000
    try:
        return SchemaRegistryClient.new_client({**given, "max.retries": 0})
    except (OSError, ValueError, TypeError) as error:  # a certificate that is not there, settings that lack others
        text = str(error)
        for secret in secrets_in(settings):
            text = text.replace(secret, "***")
        raise SchemaError(f"the client of the registry {shown_url(url)} cannot be made: {text}") from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _tls_error(error: Exception) -> BaseException | None:
    """Returns the error of certificates behind one of the transport; an ended connection is none."""
    tls = [one for one in _causes(error) if isinstance(one, ssl.SSLError) and not isinstance(one, ssl.SSLEOFError)]
    return tls[0] if tls else None


def _is_of_transport(error: Exception) -> bool:
    """Returns whether the registry was not reached; all errors of the client's transport have a module of its own."""
    return isinstance(error, (OSError, SchemaRegistryError)) or any(
        one.__name__ == "TransportError" for one in type(error).__mro__
    )


def _is_answer(error: Exception) -> bool:
    """Returns whether a registry has answered about what it was asked for: with one of its errors, which are JSON with
    a code. A page of a proxy is none."""
    if not isinstance(error, SchemaRegistryError):
        return False
    code: Any = error.error_code  # whatever the JSON has there
    if not isinstance(code, int) or code < 0:
        return False
    status = error.http_status_code
    return 400 <= status < 500 and status not in (*_REFUSED_LOGIN, *_LATER)


def _may_pass(error: Exception) -> bool:
    """Returns whether a registry that cannot be used may answer some seconds later, without a change of a setting."""
    if isinstance(error, SchemaRegistryError):
        return error.http_status_code >= 500 or error.http_status_code in _LATER
    return _is_of_transport(error) and _tls_error(error) is None


def _complete(found: Any) -> Any:
    """Returns what has come of a schema.

    :raises ValueError: if it has no text: a part of an answer, or that of something else.
    """
    schema = getattr(found, "schema", found)
    if not isinstance(getattr(schema, "schema_str", None), str):
        raise ValueError("there is no schema in it")
    return found if schema is found else _identified(found)


def _identified(found: Any) -> Any:
    """Returns what has come of a schema in a subject.

    :raises ValueError: if it has no id.
    """
    if not isinstance(found.schema_id, int) or not 0 <= found.schema_id < 1 << 32:
        raise ValueError("there is no id of a schema in it")
    return found


def _digest(schema: SchemaText) -> str:
    """Returns a short text that stands for a schema."""
    return hashlib.sha256(repr(schema).encode("utf-8", "backslashreplace")).hexdigest()


def _theirs(schema: SchemaText) -> Schema:
    references = [TheirReference(name=one.name, subject=one.subject, version=one.version) for one in schema.references]
    return Schema(schema.text, schema.kind, references)


def _text_of(schema: Any) -> SchemaText:
    references = tuple(
        SchemaReference(str(one.name), str(one.subject), int(one.version)) for one in schema.references or ()
    )
    return SchemaText(schema.schema_str, schema.schema_type or "AVRO", references)


def _registered(schema: SchemaText, answer: Any, subject: str) -> Registered:
    return Registered(schema, answer.schema_id, answer.guid, answer.version, subject)
