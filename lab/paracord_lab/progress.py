# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""One line that shows for how long some work has been running.

On a terminal, the line is rewritten four times per second. Elsewhere (CI, a pipe), the start and
the end are printed, and a line every 30 seconds in between.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

REWRITE_S = 0.25
SIGN_OF_LIFE_S = 30.0


def clock(seconds: float) -> str:
    """Elapsed time in the form that people use: `4.2 s`, `1:07 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} min"


class Progress:
    """`with Progress("building x") as progress: … progress.note("unpacking")`."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self.what = what
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._note = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="progress", daemon=True)
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def note(self, text: str) -> None:
        """Sets what the work is doing now. It is shown from the next rewrite on."""
        self._note = text

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        if not self._tty:
            self._write(f"{self.what} ...\n")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        end = "done" if kind is None else "interrupted" if kind is KeyboardInterrupt else "FAILED"
        lead = "\r\033[K" if self._tty else ""
        self._write(f"{lead}{self.what}: {end}, {clock(self.seconds)}\n")

    def _loop(self) -> None:
        wait = REWRITE_S if self._tty else SIGN_OF_LIFE_S
        while not self._done.wait(wait):
            note = f": {self._note}" if self._note else ""
            line = f"{self.what}{note} ({clock(self.seconds)})"
            self._write(f"\r\033[K{line[:150]}" if self._tty else f"{line}\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._tty = False  # the reader is gone, but the work continues
