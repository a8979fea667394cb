"""All attacks over the network are listed here, in the order of their rows."""

from __future__ import annotations

from integration.hostile import quota_attacks, right_attacks, sasl_attacks, tls_attacks

ATTACKS = (
    *(*tls_attacks.ATTACKS, *sasl_attacks.ATTACKS),
    *(*right_attacks.ATTACKS, *quota_attacks.ATTACKS),
)
