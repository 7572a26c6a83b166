"""Several threads may encode the first document of a process at once."""

from __future__ import annotations

import subprocess
import sys

# msgspec works out a type at its first use, by calling a function of this name; threads that come meanwhile crash.
FIRST_USE = """
import sys
from wormdb.format import json
called = []
sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name))
json.decode_document(json.encode({"a": [1, "b", None]}), name="test")
sys.setprofile(None)
print("get_class_annotations" in called, "encode" in called)
"""


def test_types_are_worked_out_before_the_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
