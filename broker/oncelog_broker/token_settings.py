"""The settings of tokens become the judge whom listeners with OAUTHBEARER ask.

What judges is loaded for those only who have such a listener: it needs the extra ``oidc``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.clock import WallClock
from oncelog_runtime.files import Files
from oncelog_runtime.threads import Threads
from oncelog_runtime.tls_contexts import ClientTls, TlsFiles, TlsFilesError

if TYPE_CHECKING:
    from oncelog_broker.server.oidc.key_source import KeySource
    from oncelog_broker.server.oidc.token_judge import TokenJudge

THREADS = 3
"""One may be held by a fetch of keys; the others verify signatures."""


def takes_tokens(config: BrokerConfig) -> bool:
    """Return whether a listener takes tokens."""
    return any(Mechanism.OAUTHBEARER in each.sasl_mechanisms for each in config.listeners)


async def token_judge(config: BrokerConfig, files: Files, clock: WallClock) -> TokenJudge:
    """Return what judges tokens by the settings, of which :func:`takes_tokens`.

    :raises ConfigError: the extra is missing, or there are no keys where the settings say.
    """
    try:
        # PyJWT and cryptography, for those only who want them.
        from oncelog_broker.server.oidc.key_ring import KeyRing
        from oncelog_broker.server.oidc.key_source import KeyFile, KeyUrl
        from oncelog_broker.server.oidc.signing_keys import KeySetError
        from oncelog_broker.server.oidc.token_judge import TokenJudge
        from oncelog_broker.server.oidc.token_rules import TokenRules
    except ImportError as error:
        text = f"OAUTHBEARER needs PyJWT and cryptography ({error})"
        raise ConfigError("listeners", text, "Install oncelog[oidc]") from error
    issuer, audience = config.oidc_issuer, config.oidc_audience
    assert issuer is not None
    assert audience is not None
    rules = TokenRules(
        issuer, audience, config.oidc_principal_claim, frozenset(config.oidc_algorithms)
    )
    threads = Threads(THREADS, "tokens")
    path = config.oidc_jwks_file
    source: KeySource
    if path is None:
        try:
            source = KeyUrl(config.oidc_jwks_url or "", _contexts(config, clock), threads)
        except ValueError as error:  # what is wrong with the URL
            remedy = "Write the issuer's jwks_uri, https://..."
            raise ConfigError("oidc_jwks_url", str(error), remedy) from error
        return TokenJudge(rules, KeyRing(source, threads), clock, threads)
    keys = KeyRing(KeyFile(files, path), threads)
    try:
        await keys.load()
    except (OSError, KeySetError) as error:
        remedy = "Write the issuer's JWK set into it"
        raise ConfigError("oidc_jwks_file", f"{path}: {error}", remedy) from error
    return TokenJudge(rules, keys, clock, threads)


def _contexts(config: BrokerConfig, clock: WallClock) -> Callable[[], ssl.SSLContext]:
    """Return what makes the context for a fetch of keys, by the CAs as they are then.

    :raises ConfigError: the file of CAs is of no use now.
    """
    files = TlsFiles(min_version="1.2", ca_file=config.oidc_ca_file)

    def made() -> ssl.SSLContext:
        return ClientTls(files, clock).context

    try:
        made()
    except TlsFilesError as error:
        remedy = error.remedy[0].upper() + error.remedy[1:]
        raise ConfigError("oidc_ca_file", error.cause, remedy) from error
    return made
