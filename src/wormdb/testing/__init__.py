"""Shipped test tools: contract suites, and stores that fail on purpose. Nothing of the package itself imports them."""

PUBLIC = {
    "fault_proxy": "a proxy before a store's server that breaks connections and answers",
    "fault_store": "a store that fails at a chosen request",
    "latency_store": "a store that takes as long as a cloud's",
    "s3_server": "a server that speaks S3, started for tests",
    "store_contract": "the suite that every store passes",
    "strategies": "documents and values for hypothesis",
    "sweep": "every fault at every request of an action",
}
