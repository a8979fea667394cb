"""The ``oncelog`` command: what a person types, over the SDK and over processes it starts."""
