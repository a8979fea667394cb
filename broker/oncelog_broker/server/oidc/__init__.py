"""Tokens are judged here. Loaded only where a listener takes them: it needs the extra ``oidc``."""
