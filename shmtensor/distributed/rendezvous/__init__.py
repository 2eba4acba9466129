"""How ranks find each other: stores, hosts, the shared secret."""
