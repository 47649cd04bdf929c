# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Waits until a machine reaches a state."""

import time
from collections.abc import Callable


def await_equal(look: Callable[[], object], wanted: object, seconds: float = 20) -> None:
    """Waits until `look` returns the wanted value. Fails with the value that it returned last."""
    end = time.monotonic() + seconds
    while (seen := look()) != wanted and time.monotonic() < end:
        time.sleep(0.3)
    assert seen == wanted, f"after {seconds:g} s it is {seen!r}, not {wanted!r}"
