"""Any order of writes, deletes, restores, forwarding, collecting and waiting, against a model of a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.blobs.blob_rig import DAY, HOUR, World, gc, objects, soft_of
from wormdb.errors import NotFoundError
from wormdb.format.blob import blob_keys_of

if TYPE_CHECKING:
    from wormdb.format.blob import BlobReference

IDS = st.sampled_from("abc")
CONTENTS = st.sampled_from([b"one", b"two", b"three"])


class Machine(RuleBasedStateMachine):
    """One bucket, two writers who know different things, and a collector of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.writers = [soft_of(self.world, seed=1), soft_of(self.world, seed=2)]
        self.alive: dict[str, bytes | None] = {}
        self.trash: dict[str, bytes | None] = {}
        self.held: list[tuple[bytes, BlobReference]] = []
        """References that somebody got and may use much later."""

    @rule(who=st.integers(0, 1), content=CONTENTS)
    def upload(self, who: int, content: bytes) -> None:
        self.held.append((content, self.writers[who].put_blob(content)))

    @precondition(lambda self: self.held)
    @rule(who=st.integers(0, 1), name=IDS, data=st.data())
    def save(self, who: int, name: str, data: st.DataObject) -> None:
        content, reference = data.draw(st.sampled_from(self.held))
        try:
            self.writers[who].save({"id": name, "photo": [reference]})
        except NotFoundError:
            # Refused, and so it must be nobody's; written again it is taken.
            assert reference.key not in self.owned()
            reference = self.writers[who].put_blob(content)
            self.writers[who].save({"id": name, "photo": [reference]})
            self.held.append((content, reference))
        self.alive[name] = content
        self.trash.pop(name, None)

    @rule(who=st.integers(0, 1), name=IDS)
    def forget_photo(self, who: int, name: str) -> None:
        self.writers[who].save({"id": name})
        self.alive[name] = None
        self.trash.pop(name, None)

    @rule(who=st.integers(0, 1), name=IDS)
    def delete(self, who: int, name: str) -> None:
        if self.writers[who].delete(name):
            self.trash[name] = self.alive.pop(name)

    @precondition(lambda self: self.trash)
    @rule(who=st.integers(0, 1), data=st.data(), is_purged=st.booleans())
    def restore(self, who: int, data: st.DataObject, is_purged: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.trash)))
        if is_purged:
            self.writers[who].purge(name)
            del self.trash[name]
        else:
            self.writers[who].restore(name)
            self.alive[name] = self.trash.pop(name)

    @rule(who=st.integers(0, 1))
    def forward(self, who: int) -> None:
        self.writers[who].forward()

    @rule(seconds=st.sampled_from([2, HOUR, DAY, 8 * DAY]))
    def wait(self, seconds: int) -> None:
        self.world.manual.advance(seconds)

    @rule()
    def collect(self) -> None:
        gc(self.world, folder="soft/")

    def owned(self) -> set[object]:
        """What documents refer to, as a third process reads them."""
        reader = soft_of(self.world, seed=3)
        alive = {key for document in reader.scan() for key in blob_keys_of(document)}
        return alive | {key for trashed in reader.list_trashed() for key in blob_keys_of(trashed.document)}

    @invariant()
    def every_document_has_its_blob(self) -> None:
        reader = soft_of(self.world, seed=3)
        found: dict[str, Any] = {document.id: document.get("photo") for document in reader.scan()}
        assert found.keys() == self.alive.keys()
        for name, content in self.alive.items():
            if content is not None:
                assert reader.open_blob(found[name][0]).read() == content
        for trashed in reader.list_trashed():
            content = self.trash[trashed.id]
            if content is not None:
                assert reader.open_blob(trashed.document["photo"][0]).read() == content

    def teardown(self) -> None:
        """After enough time and runs nothing is left but what is owned."""
        self.every_document_has_its_blob()
        if self.held:
            for _ in range(3):
                self.world.manual.advance(2 * DAY)
                self.writers[0].forward()
                gc(self.world, folder="soft/")
            names = {str(key).removeprefix("sha256:") for key in self.owned()}
            assert objects(self.world, "soft/") == names
            assert len(names) <= len({*self.alive.values(), *self.trash.values()} - {None}) + 2


TestBlobs = Machine.TestCase
TestBlobs.settings = settings(max_examples=5, stateful_step_count=20, deadline=None)


class Longer(Machine):
    """The same, for minutes."""


TestForMinutes = pytest.mark.timeout(1800)(pytest.mark.long(Longer.TestCase))
TestForMinutes.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
