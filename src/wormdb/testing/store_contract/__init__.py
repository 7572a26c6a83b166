"""The suite that every store passes: subclass `StoreContract`, give it a store, and run pytest."""

from wormdb.testing.store_contract.suite import ReadWriteContract, StoreContract

__all__ = ["ReadWriteContract", "StoreContract"]
