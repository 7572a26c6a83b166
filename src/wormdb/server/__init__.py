"""A database behind Redis's protocol: Kronotop's commands on buckets, for whatever speaks RESP.

Other packages import these modules only; `tests/test_tidy.py` holds it.
"""

PUBLIC = {
    "accounts": "users, with hashed passwords and rights by namespace",
    "fellow": "a server as one of several: a node with an address",
    "host": "the server: a socket, a loop, threads",
    "monitor": "health and figures of a server",
    "parts": "what connections share, and where a server listens",
    "peers": "connections to other servers",
    "routing": "where writes are committed",
    "service": "one database as all connections share it",
}
