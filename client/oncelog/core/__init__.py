"""All clients stand on this: metadata, connections, coordinators."""
