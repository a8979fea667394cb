"""The ``oncelog`` command is what a person types; it uses the SDK and processes that it starts."""
