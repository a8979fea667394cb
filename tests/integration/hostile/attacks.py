"""All attacks over the network are listed here, in the order of their rows."""

from __future__ import annotations

from integration.hostile import tls_attacks

ATTACKS = (*tls_attacks.ATTACKS,)
