# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The command channel, which runs several commands at the same time over one byte stream.

The other end is lab/agent/agent.c, which describes the frames. A `Channel` owns no thread and no
file. The owner of the transport calls `feed()` with the bytes that arrive, and provides a `send`
function. Therefore the guest's channel can run inside a job of the host's channel. Nothing polls:
while no command runs, the machine at the other end is not disturbed.
"""

from __future__ import annotations

import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from .errors import ChannelClosed, CommandError, CommandTimeout, LabError

PROTOCOL_VERSION = 2
HEADER = struct.Struct("<III")  # payload bytes, job, type
# The agent refuses longer payloads (agent.c, PAYLOAD_MAX_BYTES).
PAYLOAD_MAX_BYTES = 1 << 20
# How long a killed command may take to end. If it takes longer, the machine counts as hung.
KILL_GRACE_S = 15.0
# Callers name timeouts that suit a machine of ordinary speed. Shared machines are several times slower at
# some hours. Only a command that hangs costs the longer wait.
PATIENCE = 3.0


class FrameType(IntEnum):
    HELLO = 1
    EXEC = 2
    STDIN = 3
    SIGNAL = 4
    STARTED = 5
    STDOUT = 6
    STDERR = 7
    EXIT = 8
    EXEC_URGENT = 9


def encode(job: int, kind: FrameType, payload: bytes = b"") -> bytes:
    if len(payload) > PAYLOAD_MAX_BYTES:
        raise LabError(f"a command or its input is larger than {PAYLOAD_MAX_BYTES} bytes: use /share")
    return HEADER.pack(len(payload), job, kind) + payload


class Decoder:
    """Splits a byte stream into frames. The stream may arrive in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, FrameType, bytes]]:
        """Returns complete frames as (job, type, payload). Raises LabError if the stream is invalid."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER.size:
            length, job, kind = HEADER.unpack_from(self._buffer)
            if length > PAYLOAD_MAX_BYTES or kind not in FrameType._value2member_map_:
                raise LabError(f"the command channel is broken (frame type {kind}, {length} bytes)")
            if len(self._buffer) < HEADER.size + length:
                break
            frames.append((job, FrameType(kind), bytes(self._buffer[HEADER.size : HEADER.size + length])))
            del self._buffer[: HEADER.size + length]
        return frames


@dataclass(frozen=True)
class Result:
    """rc: the exit code, or minus the number of the signal that ended the command."""

    rc: int
    out: str
    err: str
    seconds: float


class Job:
    """A command that runs in a machine. `pid` is the process ID of its shell there."""

    def __init__(
        self,
        channel: Channel,
        number: int,
        name: str,
        command: str,
        on_output: Callable[[bytes], None] | None,
        on_exit: Callable[[str], None] | None,
    ) -> None:
        self.name = name
        self.command = command
        self._channel = channel
        self._number = number
        self._on_output = on_output
        self._on_exit = on_exit
        self._out = bytearray()
        self._err = bytearray()
        self._pid = 0
        self._rc: int | None = None
        self._start = time.monotonic()
        self._end = 0.0

    @property
    def pid(self) -> int:
        """The process ID. Waits until the command was started."""
        self._channel.wait_for(
            lambda: self._pid or self._rc is not None, KILL_GRACE_S, f"start of {self.name}"
        )
        return self._pid

    @property
    def running(self) -> bool:
        return self._rc is None

    def out(self) -> str:
        """The standard output so far."""
        return self._out.decode(errors="replace")

    def err(self) -> str:
        return self._err.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Writes to the command's standard input."""
        for start in range(0, len(data), PAYLOAD_MAX_BYTES):
            self._channel.post(self._number, FrameType.STDIN, data[start : start + PAYLOAD_MAX_BYTES])

    def close_input(self) -> None:
        self._channel.post(self._number, FrameType.STDIN)

    def kill(self, sig: str = "TERM") -> None:
        """Sends a signal to the command's process group. Does nothing if the command has ended."""
        if self.running:
            number = signal.Signals[f"SIG{sig}"]
            self._channel.post(self._number, FrameType.SIGNAL, struct.pack("<I", number))

    def wait(self, timeout: float = 60) -> int:
        """Waits until the command has ended, and returns its exit code; see result()."""
        return self.result(timeout).rc

    def result(self, timeout: float = 60, check: bool = False) -> Result:
        """
        Waits until the command has ended, and returns the result. After `timeout` seconds, times
        the channel's patience, the command is killed and CommandTimeout is raised. ChannelClosed is
        raised if the machine shows no sign of life after a quarter of that time, or if, after all
        of it, the machine neither ends the command nor runs others.
        """
        timeout *= self._channel.patience
        try:
            with suppress(CommandTimeout):
                self._channel.wait_for(lambda: not self.running, timeout / 4, self.name)
            if self.running:
                self._channel.need_sign_of_life()
                self._channel.wait_for(lambda: not self.running, timeout * 3 / 4, self.name)
        except CommandTimeout:
            self._channel.need_end(self)
            raise CommandTimeout(
                f"{self._channel.name}: `{shorten(self.command)}` did not end in {timeout:g} s"
                f"{self._last_words()}"
            ) from None
        assert self._rc is not None
        if check and self._rc != 0:
            how = f"exit code {self._rc}" if self._rc > 0 else f"signal {-self._rc}"
            raise CommandError(
                f"{self._channel.name}: `{shorten(self.command)}` failed ({how}){self._last_words()}"
            )
        return Result(self._rc, self.out(), self.err(), self._end - self._start)

    def _last_words(self) -> str:
        lines = (self.err().strip() or self.out().strip()).splitlines()
        return f": {shorten(lines[-1], 200)}" if lines else ""

    def handle(self, kind: FrameType, payload: bytes) -> None:
        """Called by the channel, under its lock."""
        if kind == FrameType.STARTED:
            (self._pid,) = struct.unpack("<I", payload)
        elif kind == FrameType.STDOUT:
            if self._on_output:
                self._on_output(payload)
            else:
                self._out += payload
        elif kind == FrameType.STDERR:
            self._err += payload
        elif kind == FrameType.EXIT:
            (self._rc,) = struct.unpack("<i", payload)
            self._end = time.monotonic()
            self.ended("the connection ended" + self._last_words())

    def ended(self, why: str) -> None:
        """Called once by the channel, when the command has ended or the machine can no longer be reached."""
        if self._on_exit:
            self._on_exit(why)


class Channel:
    """The lab's end of a channel.

    name: of the machine, for messages. send: a function that writes all of the given bytes to the
    transport, from any thread. patience: factor for the timeouts of commands.
    """

    def __init__(self, name: str, send: Callable[[bytes], None], patience: float = 1) -> None:
        self.name = name
        self.patience = patience
        self._send = send
        self._decoder = Decoder()
        self._jobs: dict[int, Job] = {}
        self._next_number = 1
        self._changed = threading.Condition(threading.RLock())
        self._greeted = False
        self._closed_reason: str | None = None

    def hello(self, timeout: float) -> None:
        """Waits until the agent answers. Raises CommandTimeout or ChannelClosed."""
        self._greeted = False
        self.post(0, FrameType.HELLO, struct.pack("<I", PROTOCOL_VERSION))
        self.wait_for(lambda: self._greeted, timeout, "boot")

    def need_sign_of_life(self) -> None:
        """
        Raises ChannelClosed if the agent itself does not answer. The channel is then closed, so all
        other users of this machine learn this at once.
        """
        try:
            self.hello(KILL_GRACE_S)
        except CommandTimeout:
            self._give_up("no sign of life")

    def need_end(self, job: Job) -> None:
        """
        Kills a command. Raises ChannelClosed if the command does not end even then, or if no other
        command can run.
        """
        try:
            job.kill("KILL")
            self.wait_for(lambda: not job.running, KILL_GRACE_S, f"{job.name} (killed)")
            other = self.spawn("true", urgent=True)
            self.wait_for(lambda: not other.running, KILL_GRACE_S, other.name)
        except CommandTimeout:
            self._give_up("ends and runs no command")

    def _give_up(self, why: str) -> NoReturn:
        self.close(f"hangs, {why} in {KILL_GRACE_S:g} s")
        raise ChannelClosed(f"{self.name}: {self._closed_reason}") from None

    def spawn(
        self,
        command: str,
        name: str | None = None,
        on_output: Callable[[bytes], None] | None = None,
        on_exit: Callable[[str], None] | None = None,
        urgent: bool = False,
    ) -> Job:
        """Starts a shell command.

        on_output gets the standard output of the command instead of the job. on_exit is called when
        the command has ended. Both are called in the transport's thread and must not wait for
        anything. urgent: run at real-time priority, before ordinary work and before loops with the
        lowest such priority.
        """
        with self._changed:
            number = self._next_number
            self._next_number += 1
            job = Job(self, number, name or shorten(command, 40), command, on_output, on_exit)
            self._jobs[number] = job
        self.post(number, FrameType.EXEC_URGENT if urgent else FrameType.EXEC, command.encode())
        return job

    def run(self, command: str, timeout: float = 60, check: bool = True, urgent: bool = False) -> Result:
        return self.spawn(command, urgent=urgent).result(timeout, check)

    def post(self, number: int, kind: FrameType, payload: bytes = b"") -> None:
        if self._closed_reason is not None:
            raise ChannelClosed(f"{self.name}: {self._closed_reason}")
        try:
            self._send(encode(number, kind, payload))
        except OSError as error:
            self.close(f"the machine is gone ({error.strerror})")
            raise ChannelClosed(f"{self.name}: {self._closed_reason}") from None

    def feed(self, data: bytes) -> None:
        """Handles bytes from the transport."""
        with self._changed:
            try:
                frames = self._decoder.feed(data)
            except LabError as error:
                self.close(str(error))
                return
            for number, kind, payload in frames:
                if kind == FrameType.HELLO:
                    self._greeted = True
                elif number in self._jobs:
                    job = self._jobs[number]
                    job.handle(kind, payload)
                    if not job.running:
                        del self._jobs[number]
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """The transport has ended. All waiting callers get ChannelClosed with the first reason."""
        with self._changed:
            if self._closed_reason is None:
                self._closed_reason = reason
                for job in self._jobs.values():
                    job.ended(reason)
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed_reason is not None

    def wait_for(self, condition: Callable[[], object], timeout: float, what: str) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: condition() or self.closed, timeout)
            if condition():
                return
            if self._closed_reason is not None:
                raise ChannelClosed(f"{self.name}: {self._closed_reason}")
            if not met:
                raise CommandTimeout(f"{self.name}: {what}: no answer in {timeout:g} s")


def shorten(text: str, length: int = 120) -> str:
    """Returns one line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
