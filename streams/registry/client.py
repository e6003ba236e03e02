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
from contextlib import suppress
from functools import partial, reduce
from typing import Any, TypeGuard, TypeVar

from processor_api.clock import Clock, SystemClock
from processor_api.texts import cut, plain_str
from streams.log import quieten_libraries
from streams.outages import patience_of_thread
from streams.registry.schemas import (
    AVRO,
    NotInRegistry,
    Registered,
    RegistryAway,
    SchemaError,
    SchemaReference,
    SchemaText,
    TopicPart,
    extra,
    named,
)
from streams.registry.settings import DEFAULT_TIMEOUT_MS, OF_SERDES, secrets_in, shown_url
from streams.schemas.avro_evolution import complaints, is_transitive
from streams.trials import trial_in_effect, without_registry

with extra("but the client of schema registries needs it"):
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
    from confluent_kafka.schema_registry import SchemaReference as TheirReference
    from confluent_kafka.schema_registry.error import OAuthTokenError

log = logging.getLogger("streams.registry")

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 10_000
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
REFUSED_S = 5.0
"""How long a refusal is remembered."""
MOST_REFUSALS = 1000
MOCK = "mock://"
_REFUSED_LOGIN = (401, 403)
_NOT_FOUND, _INCOMPATIBLE = 404, 409
_LATER = (407, 408, 425, 429)

_CLIENTS: dict[tuple[int, type[RegistryClient], tuple[tuple[str, Any], ...]], RegistryClient] = {}
_MOCKS: dict[tuple[int, str], tuple[SchemaRegistryClient, dict[SchemaText, Registered]]] = {}
"""The registries in memory, with the first registration of each schema."""


def client_of(settings: Mapping[str, Any]) -> RegistryClient:
    """Returns the client of this process for the settings of a :class:`~streams.registry.SchemaRegistry`."""
    own = {name: value for name, value in settings.items() if name not in OF_SERDES}
    made = (
        RegistryClient if trial_in_effect() is None else TrialClient if without_registry() is None else LoneTrialClient
    )
    key = os.getpid(), made, tuple(sorted(own.items()))
    found = _CLIENTS.get(key)
    return found if found is not None else _CLIENTS.setdefault(key, made(own))


@atexit.register
def _close_clients() -> None:
    """Closes the connections of this process when it ends; those of a parent stay."""
    for (process, *_), client in list(_CLIENTS.items()):
        if process == os.getpid():
            client.close()


class RegistryClient:
    """Asks a registry, and keeps what it answered. It has settings under their dotted names."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        self.url = shown_url(str(settings["url"]))
        self._timeout_s = settings.get("timeout.ms", DEFAULT_TIMEOUT_MS) / 1000
        self._clock = clock or SystemClock()
        self._secrets = secrets_in(settings)
        try:
            self._client, self._first = _made(settings)
        except (OSError, ValueError, TypeError) as error:  # a certificate that is not there, settings that lack others
            raise SchemaError(
                f"the client of the registry {self.url} cannot be created: {self._masked(error)}"
            ) from None
        self._known: dict[int | str, Registered] = {}
        self._away_since: float | None = None
        self._refusals: OrderedDict[Hashable, tuple[float, SchemaError]] = OrderedDict()
        """The refusals, and until when that counts: a flood of records with one unknown id asks once."""

    def close(self) -> None:
        """Closes the connections; the client cannot be used then."""
        self._client.close()

    # ------------------------------------------------------------------ what serdes ask

    def by_id(self, known_as: int | str) -> Registered:
        """Returns the schema with an id, or with a GUID, which is a text; raises `SchemaError` if the registry has
        none, or does not answer in time."""
        found = self._known.get(known_as)
        if found is None:
            is_id, client = isinstance(known_as, int), self._client
            ask: Callable[[Any], Any] = client.get_schema if is_id else client.get_schema_by_guid
            schema = self._ask(named(known_as), lambda: _text_of(ask(known_as)))
            found = Registered(schema, known_as) if isinstance(known_as, int) else Registered(schema, -1, known_as)
            self._known[known_as] = found
        return found

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Registers a schema in a subject, if it has it not yet, and returns it with its id; raises `SchemaError` if it
        is refused, as one that is not compatible, or the registry does not answer in time."""
        call = partial(self._client.register_schema_full_response, subject, _theirs(schema), normalize)
        found = self._in_subject("the registration of a schema in", subject, call, schema)
        self._refusals.clear()
        return found

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Returns a schema that a subject has, with its id; raises `NotInRegistry` if the subject has it not, or does
        not exist."""
        call = partial(self._client.lookup_schema, subject, _theirs(schema), normalize)
        return self._in_subject("the schema in", subject, call, schema)

    def latest(self, subject: str) -> Registered:
        """Returns the latest version of a subject; raises `NotInRegistry` if it does not exist."""
        return self._in_subject("the latest version of", subject, partial(self._client.get_latest_version, subject))

    def version(self, subject: str, version: int) -> Registered:
        """Returns one version of a subject; raises `NotInRegistry` if the subject has it not."""
        call = partial(self._client.get_version, subject, version)
        return self._in_subject(f"version {version} of", subject, call)

    def _in_subject(
        self, what: str, subject: str, call: Callable[[], Any], schema: SchemaText | None = None
    ) -> Registered:
        """Returns what a call answers about a schema in a subject: the one that is given, or the one in the answer."""

        def ask() -> Registered:
            answer = call()
            text = _text_of(answer.schema) if schema is None else schema
            if not isinstance(answer.schema_id, int) or not 0 <= answer.schema_id < 1 << 32:
                raise ValueError("it does not contain a schema id")
            return Registered(text, answer.schema_id, answer.guid, answer.version, subject)

        found = self._ask(f"{what} subject {subject}", ask, schema)
        # Confluent's registry in memory gives a schema another id in each subject, and equal keys of two topics other
        # bytes. It gets its first id everywhere, as in registries that run.
        first = found if self._first is None else self._first.setdefault(found.schema, found)
        return found._replace(id=first.id, guid=first.guid)

    def texts_behind(self, schema: SchemaText) -> Iterator[str]:
        """Yields the texts of all schemas that one needs, each behind those that it needs itself."""
        return self._texts_behind(schema, set())

    def _texts_behind(self, schema: SchemaText, seen: set[tuple[str, int]]) -> Iterator[str]:
        for _, subject, version in schema.references:
            if (subject, version) not in seen:
                seen.add((subject, version))
                found = self.version(subject, version).schema
                yield from self._texts_behind(found, seen)
                yield found.text

    def associated(self, place: TopicPart) -> str | None:
        """Returns the subject that the registry has for a topic; ``None`` if it has none, or knows no associations."""

        def ask() -> Any:
            try:
                return self._client.get_associations_by_resource_name(place.topic, "-", "topic", [place.part])
            except SchemaRegistryError as error:
                if error.http_status_code != _NOT_FOUND:
                    raise
                return []

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
        return sorted(self._ask(f"the versions of {subject}", partial(self._client.get_versions, subject)))

    def compatibility(self, subject: str) -> str | None:
        """Returns the level that a subject is held to, such as ``BACKWARD``; ``None`` where the registry has none."""
        if self.url.startswith(MOCK):
            return "BACKWARD"
        for asked in (subject, None):
            with suppress(NotInRegistry):
                what = f"the compatibility level of {asked or 'the registry'}"
                level = self._ask(what, partial(self._client.get_config, asked)).compatibility_level
                return None if level is None else str(getattr(level, "value", level))
        return None

    def is_compatible(self, subject: str, schema: SchemaText) -> bool:
        """Returns whether the registry would let a schema into a subject, by the level that it holds it to. One in
        memory, which lets everything, is taken for one that holds Avro to ``BACKWARD``, as registries do by default."""
        if self.url.startswith(MOCK):
            latest = self.latest(subject).schema
            return latest.kind != AVRO or not complaints("BACKWARD", schema.text, latest.text)
        what = f"the compatibility of a schema with subject {subject}"
        # Confluent's registry compares with all versions only where the level says so, but Apicurio always.
        all_versions = is_transitive(self.compatibility(subject) or "")
        compare = self._client.test_compatibility_all_versions if all_versions else self._client.test_compatibility
        return bool(self._ask(what, partial(compare, subject, _theirs(schema))))

    # ------------------------------------------------------------------ asking

    def _ask(self, what: str, call: Callable[[], T], schema: SchemaText | None = None) -> T:
        """Calls until the registry answers, or the time of an outage is over; an outage is shared by all calls, so a
        thread with many unknown ids waits for it once. Threads that wait in another way have a patience of their own
        (`streams.outages`).

        :param schema: is sent with the question.
        :raises SchemaError: if the registry refuses it; from then on the same for some seconds, without a question.
        :raises RegistryAway: if it does not answer.
        """
        key = what, None if schema is None else hashlib.sha256(repr(schema).encode()).digest()
        until, refusal = self._refusals.get(key, (0.0, None))
        if refusal is not None and self._clock.monotonic() < until:
            raise type(refusal)(str(refusal))
        patience, failed = patience_of_thread(), False
        while True:
            try:
                found = call()
            except Exception as error:
                if _is_answer(error):
                    raise self._refused(what, error, key) from error
                (reason, may_pass), failed = self._reason(error), True
                if may_pass and (found_nothing := self._no_answer(what, reason)) is not None:
                    raise found_nothing from error
                away = self._away(what, reason)
                if patience is None and may_pass:
                    self._wait(away, error)
                elif patience is None or not patience.waits(away):
                    raise away from error
                continue
            if failed and patience is not None:
                patience.answered()
            if self._away_since is not None:
                self._away_since = None
                log.warning("the schema registry answers again", extra={"registry": self.url})
            return found

    def _no_answer(self, what: str, reason: str) -> SchemaError | None:
        """Returns the error of a call that is not made again, though the registry may respond later; ``None`` if it
        is."""
        return None

    def _wait(self, away: RegistryAway, error: Exception) -> None:
        """Waits before the next call, or raises the error after ``timeout.ms``."""
        since, now = self._away_since, self._clock.monotonic()  # another thread may have had an answer meanwhile
        gone_s = 0.0 if since is None else now - since
        if gone_s >= self._timeout_s:
            text = f"{away.message}; it has not responded for {self._timeout_s:g} s (timeout.ms)"
            raise RegistryAway(text) from error
        self._clock.wait(min(max(FIRST_WAIT_S, gone_s), LONGEST_WAIT_S, self._timeout_s - gone_s))

    def _refused(self, what: str, error: SchemaRegistryError, key: Hashable) -> SchemaError:
        """Returns the error of an answer about what was asked for, which would be the same again."""
        status, text = error.http_status_code, cut(self._masked(error.error_message), 500)
        kind, why = SchemaError, f"rejects it ({status}: {text})"
        if status == _NOT_FOUND:
            kind, why = NotInRegistry, f"does not have the schema ({text})"
        elif status == _INCOMPATIBLE:
            why = f"rejects it because it is not compatible with the earlier versions ({text})"
        found = kind(f"{what}: the registry {self.url} {why}")
        if not self.url.startswith(MOCK):  # which is asked at no cost
            self._refusals[key] = self._clock.monotonic() + REFUSED_S, found
            if len(self._refusals) > MOST_REFUSALS:
                self._refusals.popitem(last=False)
        return found

    def _reason(self, error: Exception) -> tuple[str, bool]:
        """Returns why the registry cannot be used, and whether it may answer some seconds later, without a change of a
        setting. It was not reached, or what came is not the answer of a registry: that is not the fault of a record, a
        login that is refused included."""
        text = cut(self._masked(getattr(error, "error_message", error)) or type(error).__name__, 500)
        if isinstance(error, SchemaRegistryError):
            status = error.http_status_code
            if status in _REFUSED_LOGIN:
                login = "basic.auth.user.info or the settings that begin with bearer.auth."
                return f"rejects the login ({status}: {text}); check {login}", False
            return f"is unavailable ({status}: {text})", status >= 500 or status in _LATER
        if isinstance(error, OAuthTokenError):
            return f"cannot be reached without a token: {text}", False
        if (tls := _tls_error(error)) is not None:
            about = "is not trusted, or does not trust this client"
            return f"{about}: {self._masked(tls)}; check the settings that begin with ssl.", False
        # All errors of the client's transport have a module of its own.
        if isinstance(error, OSError) or any(one.__name__ == "TransportError" for one in type(error).__mro__):
            return f"does not respond: {text}", True
        self._client.clear_caches()  # type: ignore[no-untyped-call]  # it may have kept a half of an answer
        return (
            f"sent a response that is not from a schema registry: {type(error).__name__}: {text}; check the url",
            False,
        )

    def _away(self, what: str, reason: str) -> RegistryAway:
        """Returns the error of an outage, which the log has once."""
        if self._away_since is None:
            self._away_since = self._clock.monotonic()
            log.warning(
                "the schema registry cannot be used: records of known schemas go on, all others wait; nothing is lost."
                " Check that it runs, and the settings that begin with schema.registry.",
                extra={"registry": self.url, "asked": what, "error": reason},
            )
        return RegistryAway(f"{what}: the registry {self.url} {reason}")

    def _masked(self, text: Any) -> str:
        """Returns a text without what is secret in the settings, which errors of libraries may quote."""
        return reduce(lambda shown, secret: shown.replace(secret, "***"), self._secrets, plain_str(text))


class TrialClient(RegistryClient):
    """The client of a trial, which registers nothing: a schema that the registry has is looked up, and any other gets
    an id that counts in this process only. Nothing that is written with such an id leaves the process, since the other
    clients of a trial cannot write either."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        super().__init__(settings, clock)
        self._by_schema: dict[SchemaText, Registered] = {}
        self._local = _LOCAL.setdefault(self.url, [])

    def by_id(self, known_as: int | str) -> Registered:
        return self._here(lambda one: known_as in (one.id, one.guid)) or super().by_id(known_as)

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Returns a schema as the registry has it in a subject, otherwise with the id that it is known to have in
        another one, otherwise with an id of this process: equal keys have equal bytes in all topics."""
        try:
            found = self._by_schema[schema] = self.lookup(subject, schema, normalize=normalize)
            return found
        except SchemaError:  # also one that cannot be looked up, as it refers to a schema of this process
            self._refusals.clear()  # the application itself may register it at any moment
        return self._register_here(subject, schema)

    def _register_here(self, subject: str, schema: SchemaText) -> Registered:
        with _local_lock:
            here = self._here(lambda one: (one.subject, one.schema) == (subject, schema))
            if here is None:
                count = len(self._local)
                new = Registered(schema, _HIGHEST_ID - count, str(uuid.uuid4()))
                same = self._by_schema.get(schema) or self._here(lambda one: one.schema == schema) or new
                here = same._replace(version=_FIRST_VERSION + count, subject=subject)
                self._local.append(here)
        return here

    def latest(self, subject: str) -> Registered:
        try:
            return super().latest(subject)
        except NotInRegistry:
            if (found := self._here(lambda one: one.subject == subject)) is not None:
                return found
            raise

    def version(self, subject: str, version: int) -> Registered:
        found = self._here(lambda one: (one.subject, one.version) == (subject, version))
        return found or super().version(subject, version)

    def _here(self, is_wanted: Callable[[Registered], bool]) -> Registered | None:
        """Returns the last schema of this process that is wanted."""
        return next(filter(is_wanted, reversed(tuple(self._local))), None)


class LoneTrialClient(TrialClient):
    """The client of a trial that continues without its registry: if that does not respond, the schemas of the process
    are all that there are."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        super().__init__(settings, clock)
        self._is_alone = False

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> Registered:
        """Returns a schema as the registry has it in a subject; without a registry, any schema of the process."""
        try:
            return super().lookup(subject, schema, normalize=normalize)
        except NotInRegistry:
            if not self._is_alone:
                raise
            return self._register_here(subject, schema)

    def associated(self, place: TopicPart) -> str | None:
        try:
            return super().associated(place)
        except NotInRegistry:  # A registry that responds has an answer to this request, so there is none.
            return None

    def _ask(self, what: str, call: Callable[[], T], schema: SchemaText | None = None) -> T:
        if self._is_alone:
            raise self._not_here(what)
        return super()._ask(what, call, schema)

    def _no_answer(self, what: str, reason: str) -> SchemaError | None:
        if not self._is_alone:
            self._is_alone = True
            if (say := without_registry()) is not None:
                say(
                    f"the schema registry {self.url} {reason}: using one in memory instead, as with mock://trial. It"
                    " has only the schemas of this trial"
                )
        return self._not_here(what)

    def _not_here(self, what: str) -> NotInRegistry:
        return NotInRegistry(
            f"{what}: the registry {self.url} does not respond, and the one in memory that this trial uses instead does"
            " not have it"
        )


_LOCAL: dict[str, list[Registered]] = {}
"""The schemas of trials of this process, in the order in which they were needed, by the URL of the registry."""
_local_lock = threading.Lock()
_HIGHEST_ID = (1 << 32) - 1
"""Registries count up from 1; ids of this process count down."""
_FIRST_VERSION = 1 << 30


def _made(settings: Mapping[str, Any]) -> tuple[SchemaRegistryClient, dict[SchemaText, Registered] | None]:
    scope = os.getpid(), settings["url"]
    if settings["url"].startswith(MOCK):
        # Of one scope there is one in a process, whichever settings the serdes have. It asks no server, so it need not
        # read the certificates of all authorities.
        mock = {"url": MOCK, "ssl.ca.location": False}
        return _MOCKS.get(scope) or _MOCKS.setdefault(scope, (SchemaRegistryClient.new_client(mock), {}))
    given = {name: value for name, value in settings.items() if name not in ("timeout.ms", "request.timeout.ms")}
    for name, source in (("bearer.auth.token", "STATIC_TOKEN"), ("bearer.auth.client.id", "OAUTHBEARER")):
        if name in given:
            given.setdefault("bearer.auth.credentials.source", source)
    if "bearer.auth.credentials.source" in given:
        given.setdefault("bearer.auth.logical.cluster", "")
    timeout_s = settings.get("request.timeout.ms", REQUEST_TIMEOUT_MS) / 1000
    quieten_libraries()
    return SchemaRegistryClient.new_client({**given, "timeout": timeout_s, "max.retries": 0}), None


def _tls_error(error: BaseException | None) -> BaseException | None:
    """Returns the error of certificates behind one of the transport; an ended connection is none."""
    while error is not None and (not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError)):
        error = error.__cause__ or error.__context__
    return error


def _is_answer(error: Exception) -> TypeGuard[SchemaRegistryError]:
    """Returns whether a registry has answered about what it was asked for: with one of its errors, which are JSON with
    a code. A page of a proxy is none."""
    code: Any = getattr(error, "error_code", None)  # whatever the JSON has there
    if not isinstance(error, SchemaRegistryError) or not isinstance(code, int) or code < 0:
        return False
    status = error.http_status_code
    return 400 <= status < 500 and status not in (*_REFUSED_LOGIN, *_LATER)


def _theirs(schema: SchemaText) -> Schema:
    references = [TheirReference(name=one.name, subject=one.subject, version=one.version) for one in schema.references]
    return Schema(schema.text, schema.kind, references)


def _text_of(schema: Any) -> SchemaText:
    """Returns what an answer has of a schema; raises `ValueError` if that is not a text: it is a part of an answer, or
    that of something else."""
    if not isinstance(schema.schema_str, str):
        raise ValueError("it does not contain a schema")
    references = (SchemaReference(str(one.name), str(one.subject), int(one.version)) for one in schema.references or ())
    return SchemaText(schema.schema_str, schema.schema_type or AVRO, tuple(references))
