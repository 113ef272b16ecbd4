"""boto3 clients of one bucket: credentials by boto3's provider chain, or a role, and read again when they have been replaced.

Settings: ``S3_SETTINGS``, declared in :mod:`kafka_remote_fetchers._settings`.

boto3 reads a credentials file once. Where the store refuses what it read, a new session reads again, now and then; a caller
that only signs hears of no refusal, and reads again each minute.
"""

from __future__ import annotations

import functools
import logging
import re
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import attrs
import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, CredentialResolver, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError, PartialCredentialsError, ProfileNotFound
from botocore.loaders import create_loader

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import ConfigurationError, RemoteStorageAccessError
from kafka_remote_fetchers._s3_errors import refuse_redirects, s3_guarded
from kafka_remote_fetchers._settings import bool_setting, fetcher_settings, text_setting

__all__ = ["CONNECT_SECONDS", "S3_SETTINGS", "S3Client", "S3Clients", "S3Settings"]

_KEYS = frozenset(
    {"region", "endpoint.url", "path.style", "profile", "role.arn", "role.session.name", "external.id"},
)
S3_SETTINGS = fetcher_settings("allow.http", "ssl.ca.location", *(f"s3.{key}" for key in _KEYS))
CONNECT_SECONDS = 5
_ENDPOINT = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?", re.ASCII)
_RENEWAL_SECONDS = 10.0
_SPARE = 60.0
_SHORTEST_LIFE = 15.0
_LEAST_LIFE = 1.0
_SIGNING_SECONDS = 60.0
_POOL = 128
"""Connections that are kept: as many as reads of small objects may run side by side."""
_DESCRIPTIONS = create_loader()
"""Of AWS's services: megabytes of JSON that botocore would read again for each session."""


@attrs.frozen
class S3Settings:
    """``S3_SETTINGS`` as one value."""

    region: str | None
    endpoint_url: str | None
    path_style: bool
    profile: str | None
    role_arn: str | None
    role_session_name: str | None
    external_id: str | None
    allow_http: bool
    ca_file: str | None

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> S3Settings:
        """Raises ConfigurationError for an ``s3.`` option that there is not, and for a value that cannot be."""
        unknown = sorted(name for name in options if name.startswith("s3.") and name.removeprefix("s3.") not in _KEYS)
        if unknown:
            raise ConfigurationError(
                f"unknown setting: {unknown[0]}; known settings: {', '.join(f's3.{key}' for key in sorted(_KEYS))}"
            )
        endpoint = text_setting(options, "s3.endpoint.url")
        if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
            raise ConfigurationError("s3.endpoint.url must be http(s)://host[:port]")
        return cls(
            region=text_setting(options, "s3.region"),
            endpoint_url=endpoint,
            path_style=bool_setting(options, "s3.path.style"),
            profile=text_setting(options, "s3.profile"),
            role_arn=text_setting(options, "s3.role.arn"),
            role_session_name=text_setting(options, "s3.role.session.name"),
            external_id=text_setting(options, "s3.external.id"),
            allow_http=bool_setting(options, "allow.http"),
            ca_file=_ca_file(options),
        )

    def config(self) -> Config:
        """How a client talks: signature version 4, few and short attempts, no checksums that older stores do not know."""
        # "auto" would sign URLs for the one host of all regions, which newer regions answer with a redirect.
        own_host = "auto" if self.endpoint_url else "virtual"
        return Config(
            signature_version="s3v4",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=10,
            retries={"mode": "standard", "total_max_attempts": 3},
            max_pool_connections=_POOL,
            s3={"addressing_style": "path" if self.path_style else own_host},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )


def _ca_file(options: Mapping[str, object]) -> str | None:
    """The file of CAs, which boto3 would not miss. Raises ConfigurationError where it cannot be read."""
    path = text_setting(options, "ssl.ca.location")
    try:
        ssl.create_default_context(cafile=path)
    except OSError:
        raise ConfigurationError("remote.storage.fetcher.ssl.ca.location cannot be read as PEM") from None
    return path


@attrs.frozen
class S3Client:
    """A boto3 client, the credentials that it signs with (None: there are none), and its endpoint's host and port."""

    boto: Any
    credentials: Any
    host: str

    def may_wait(self) -> bool:
        """Whether its next signature may have to ask for new credentials first, over the network."""
        needed = getattr(self.credentials, "refresh_needed", None)
        return needed is not None and bool(needed())

    def life(self, ttl_seconds: float) -> float:
        """How long a URL may live that is signed now: one of credentials that end dies with them, whatever stands in it.

        ``ttl_seconds``, halved until the credentials last a minute longer, or only as long for less than 15 s. Credentials that
        are renewed, or taken for the first time, are so before that: signing uses those. Raises what boto3 raises.
        """
        lasts_less_than = getattr(self.credentials, "refresh_needed", None)
        if lasts_less_than is None:
            return ttl_seconds
        self.credentials.get_frozen_credentials()
        while ttl_seconds > 0 and lasts_less_than(ttl_seconds + (_SPARE if ttl_seconds > _SHORTEST_LIFE else 0)):
            ttl_seconds = ttl_seconds / 2 if ttl_seconds > _LEAST_LIFE else 0.0
        return ttl_seconds


class S3Clients:
    """The current client, and a new one when its credentials are refused. Thread safe.

    Raises ConfigurationError for a profile that does not exist, or an endpoint of plain http that is not allowed.
    """

    def __init__(self, settings: S3Settings, clock: Clock) -> None:
        _keep_signatures_out_of_logs()
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._current = _made(settings)
        self._renewed_at = float("-inf")
        self._read_at = clock.monotonic()

    @property
    def current(self) -> S3Client:
        return self._current

    def renew(self, refused: S3Client) -> S3Client | None:
        """A client with credentials read again, after the store rejected those of ``refused``; None if that was done a moment
        ago.

        Raises RemoteStorageError kinds.
        """
        with self._lock:
            if self._current is not refused:
                return self._current
            now = self._clock.monotonic()
            if now - self._renewed_at < _RENEWAL_SECONDS:
                return None
            self._renewed_at = now
            try:
                self._current = s3_guarded(refused.host, _made, self._settings)
            except ConfigurationError as error:  # a file that is just being written; the next renewal reads it
                raise RemoteStorageAccessError(f"no usable credentials for {refused.host}: {error}") from None
            return self._current

    def to_sign_with(self) -> S3Client:
        """The current client, for a caller that sees no rejections: keys that boto3 does not renew are read again each
        minute.
        """
        with self._lock:
            now = self._clock.monotonic()
            renews_itself = hasattr(self._current.credentials, "refresh_needed")
            if not renews_itself and now - self._read_at >= _SIGNING_SECONDS:
                self._read_at = now
                with suppress(ConfigurationError):  # a file that is just being written; the next minute reads it
                    self._current = _made(self._settings)
            return self._current


def _made(settings: S3Settings) -> S3Client:
    try:
        session = _session(settings)
        if settings.role_arn is not None:
            session = _with_role(session, settings)
        credentials = session.get_credentials()
        client = session.client(
            "s3", endpoint_url=settings.endpoint_url, config=settings.config(), verify=settings.ca_file or True
        )
    except ProfileNotFound:
        raise ConfigurationError("s3.profile: unknown profile") from None
    except PartialCredentialsError:
        raise ConfigurationError("access key or secret key is missing") from None
    except ConfigurationError:
        raise
    except (BotoCoreError, OSError, RuntimeError, ValueError) as error:  # a credential process may print anything
        raise ConfigurationError(f"boto3 rejected the s3 settings ({type(error).__name__})") from None
    client.meta.events.register_first("needs-retry.s3", refuse_redirects)
    endpoint = urlsplit(client.meta.endpoint_url)
    if endpoint.scheme != "https" and not settings.allow_http:
        raise ConfigurationError("the S3 endpoint is plain http; set remote.storage.fetcher.allow.http=true to permit it")
    return S3Client(client, credentials, endpoint.netloc)


def _session(settings: S3Settings) -> Any:
    """A session that has read the configuration and credentials of this moment, and shares what never changes."""
    inner = botocore.session.Session(profile=settings.profile)
    inner.register_component("data_loader", _DESCRIPTIONS)
    return boto3.session.Session(botocore_session=inner, region_name=settings.region)


def _with_role(session: Any, settings: S3Settings) -> Any:
    """A session whose credentials are those of the role, taken when they are needed and again before they end."""
    source = session.get_credentials()
    if source is None:
        raise ConfigurationError("s3.role.arn: no credentials to assume the role with")
    extra = {"RoleSessionName": settings.role_session_name}
    if settings.external_id is not None:
        extra["ExternalId"] = settings.external_id
    impatient = Config(connect_timeout=5, read_timeout=5, retries={"total_max_attempts": 2})
    ask = functools.partial(session.client, config=impatient)
    taker = AssumeRoleCredentialFetcher(ask, source, settings.role_arn, extra_args=extra)
    taken = botocore.session.Session(profile=settings.profile)
    taken.register_component("data_loader", _DESCRIPTIONS)
    taken.register_component("credential_provider", CredentialResolver([_RoleProvider(taker)]))
    return boto3.session.Session(botocore_session=taken, region_name=session.region_name)


class _RoleProvider:
    """The one provider of a session that has taken a role."""

    METHOD = "assume-role"
    CANONICAL_NAME = None

    def __init__(self, taker: AssumeRoleCredentialFetcher) -> None:
        self._taker = taker

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(self._taker.fetch_credentials, self.METHOD)


def _keep_signatures_out_of_logs() -> None:
    """At DEBUG botocore logs what it signs and with what. It does so only if botocore's own logger is set to it."""
    for name in ("botocore", "boto3"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
