"""A client says who it is by SASL: with a password, or with a token.

Rules
-----
* Passwords and tokens from files, and tokens from functions, are asked for anew for each
  authentication: when the broker has proved who it is, and before a session ends.
* No secret is in a ``repr``, in an error or in a log line.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from oncelog_protocol.errors import OncelogError
from oncelog_protocol.sasl.client_authentication import ClientAuthentication, MechanismClient
from oncelog_protocol.sasl.credential import KeptKeys, Mechanism
from oncelog_protocol.sasl.oauth_bearer import OAuthBearerClient
from oncelog_protocol.sasl.plain import PlainClient
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.scram_messages import NONCE_BYTES
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.secret_files import SecretFileError, read_secret

TokenMaker = Callable[[], str] | Callable[[], Awaitable[str]]
"""A function that returns a token which still holds, or a coroutine function that does so."""


class NotAuthenticatedError(ConnectionError):
    """The client cannot say who it is."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        """It says what is wrong."""
        self.remedy = remedy
        """It says what to do about it."""


@dataclass(frozen=True, slots=True)
class PasswordUser:
    """It is a user with a password, or with a file that has it."""

    name: str
    password: str | None = field(repr=False)
    password_file: str | None

    async def secret(self) -> str:
        """Return the password.

        :raises NotAuthenticatedError: its file does not have one.
        """
        if self.password is not None:
            return self.password
        assert self.password_file is not None
        return _read(self.password_file)


@dataclass(frozen=True, slots=True)
class TokenUser:
    """It is a user with a token, or with what has one: a file, or a function."""

    token: str | TokenMaker | None = field(repr=False)
    token_file: str | None

    async def secret(self) -> str:
        """Return a token.

        :raises NotAuthenticatedError: there is none to be had.
        """
        if self.token_file is not None:
            return _read(self.token_file)
        if not callable(self.token):
            return self.token or ""
        try:
            found: object = self.token()
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            text = f"the function of the token has failed with {type(error).__name__}"
            raise NotAuthenticatedError(text, "see why it fails") from error
        if not isinstance(found, str) or not found:
            raise NotAuthenticatedError("the function returned no token", "let it return text")
        return found


class Identification:
    """It begins authentications, by the first of its mechanisms that the broker takes."""

    def __init__(
        self,
        mechanisms: Sequence[Mechanism],
        user: PasswordUser | TokenUser,
        *,
        encrypted: bool,
        entropy: Entropy,
    ) -> None:
        self._mechanisms = mechanisms
        self._user = user
        self._encrypted = encrypted
        self._entropy = entropy
        self._kept = {each: KeptKeys() for each in mechanisms}

    async def begin(self) -> ClientAuthentication:
        """Return an authentication that has not begun.

        :raises NotAuthenticatedError: there is no password or token to be had.
        """
        secret = await self._user.secret()
        try:
            machines = [self._machine(each, secret) for each in self._mechanisms]
        except OncelogError as error:
            raise NotAuthenticatedError(str(error), f"see {self._origin()}") from error
        return ClientAuthentication(machines, encrypted=self._encrypted)

    def chance(self) -> float:
        """Return a number in [0, 1), by which not all clients authenticate again at once."""
        return self._entropy.random()

    def _origin(self) -> str:
        if isinstance(self._user, PasswordUser):
            return "password_file"
        return "what makes the token" if self._user.token_file is None else "token_file"

    def _machine(self, mechanism: Mechanism, secret: str) -> MechanismClient:
        user = self._user
        if isinstance(user, TokenUser):
            return OAuthBearerClient(secret)
        if mechanism is Mechanism.PLAIN:
            return PlainClient(user.name, secret)
        nonce = self._entropy.token(NONCE_BYTES)
        return ScramClient(mechanism, user.name, secret, nonce, self._kept[mechanism])


def _read(path: str) -> str:
    try:
        return read_secret(path)
    except SecretFileError as error:
        raise NotAuthenticatedError(error.cause, error.remedy) from error
