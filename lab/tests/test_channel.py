# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The command channel against the real agent, over a socket instead of a virtio port."""

import os
import platform
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from paracord_lab import agent as agent_program
from paracord_lab.channel import HEADER, PAYLOAD_MAX_BYTES, Channel, Decoder, FrameType, encode, shorten
from paracord_lab.errors import ChannelClosed, CommandError, CommandTimeout, LabError


def test_frames_survive_any_cutting():
    frames = [
        (1, FrameType.EXEC, b"true"),
        (2, FrameType.STDIN, b""),
        (3, FrameType.STDOUT, bytes(range(256)) * 9),
    ]
    stream = b"".join(encode(*frame) for frame in frames)
    for size in (1, 2, 7, 12, 13, 100, len(stream)):
        decoder = Decoder()
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert [frame for piece in pieces for frame in decoder.feed(piece)] == frames


@pytest.mark.parametrize("header", [(4, 1, 99), (PAYLOAD_MAX_BYTES + 1, 1, FrameType.STDOUT)])
def test_broken_stream_is_noticed(header):
    with pytest.raises(LabError, match="broken"):
        Decoder().feed(HEADER.pack(*header))


def test_too_long_payload_is_refused():
    with pytest.raises(LabError, match="use /share"):
        encode(1, FrameType.EXEC, bytes(PAYLOAD_MAX_BYTES + 1))


def test_shorten_makes_one_line():
    assert shorten("a\n  b") == "a b"
    assert len(shorten("x" * 500, 100)) == 100


@pytest.fixture(scope="session")
def agent():
    """As machines have it. `make test-unit` makes it, which takes root."""
    return agent_program.ensure(platform.machine())


@pytest.fixture
def channel(agent):
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([agent, f"fd:{theirs.fileno()}"], pass_fds=[theirs.fileno()])
    theirs.close()
    channel = Channel("host", ours.sendall)

    def read():
        while data := ours.recv(1 << 16):
            channel.feed(data)
        channel.close("ended")

    reader = threading.Thread(target=read)
    reader.start()
    channel.hello(10)
    channel.agent = process
    yield channel
    ours.shutdown(socket.SHUT_RDWR)
    reader.join()
    ours.close()
    assert process.wait(10) in (0, -9)


def go_on(channel, job):
    """Lets a stopped agent say all that it had to say."""
    channel.agent.send_signal(signal.SIGCONT)
    while job.running:
        time.sleep(0.01)


def test_output_error_and_exit_code(channel):
    result = channel.run("echo out; echo err >&2; exit 3", check=False)
    assert (result.rc, result.out, result.err) == (3, "out\n", "err\n")
    with pytest.raises(CommandError, match=r"host: `exit 4` failed \(exit code 4\)"):
        channel.run("exit 4")
    with pytest.raises(CommandError, match="no such thing"):
        channel.run("echo no such thing >&2; false")


def test_large_output_arrives_whole(channel):
    result = channel.run("seq 200000")
    assert result.out == "".join(f"{n}\n" for n in range(1, 200001))


def test_several_commands_at_once(channel):
    start = time.monotonic()
    jobs = [channel.spawn(f"sleep 0.3; echo {n}") for n in range(20)]
    assert [job.result(10).out for job in jobs] == [f"{n}\n" for n in range(20)]
    assert time.monotonic() - start < 5


def test_input_reaches_the_command(channel):
    job = channel.spawn("wc -c")
    job.write(bytes(3_000_000))
    job.close_input()
    assert job.result(20).out.strip() == "3000000"


def test_time_limit_kills_the_whole_group(channel):
    with pytest.raises(CommandTimeout, match="did not end in"):
        channel.run("sleep 54321 & wait", timeout=0.3)
    assert "54321" not in channel.run("ps -eo args | grep '[s]leep 54321'", check=False).out


def test_a_machine_that_ends_no_command_is_given_up(channel, monkeypatch):
    monkeypatch.setattr("paracord_lab.channel.KILL_GRACE_S", 0.5)
    job = channel.spawn("sleep 100")
    hangs = threading.Timer(1, channel.agent.send_signal, (signal.SIGSTOP,))
    hangs.start()
    with pytest.raises(ChannelClosed, match="host: hangs, ends and runs no command"):
        job.result(timeout=2)
    hangs.join()
    go_on(channel, job)


def test_a_machine_that_hangs_is_given_up_at_a_quarter_of_the_time(channel, monkeypatch):
    monkeypatch.setattr("paracord_lab.channel.KILL_GRACE_S", 0.5)
    waiting = channel.spawn("sleep 100")
    channel.agent.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    job = channel.spawn("true")
    with pytest.raises(ChannelClosed, match="host: hangs, no sign of life"):
        job.result(timeout=4)
    for other in (lambda: waiting.result(60), lambda: channel.run("true")):
        with pytest.raises(ChannelClosed, match="hangs"):
            other()
    assert 1 < time.monotonic() - start < 4
    go_on(channel, job)


def test_a_slow_command_is_waited_for_while_the_machine_answers(channel):
    assert channel.run("sleep 0.5; echo done", timeout=0.8).out == "done\n"


def test_signal_and_pid(channel):
    job = channel.spawn("exec sleep 100", "sleeper")
    # the pid is the shell's, and the program's once the shell has become it
    channel.run(f"until grep -qx sleep /proc/{job.pid}/comm; do sleep 0.02; done", timeout=10)
    job.kill("INT")
    assert job.wait(5) == -2
    job.kill()  # it has ended: no error


def test_a_signal_right_after_the_start_arrives(channel):
    """The command has no process group of its own before it has run."""
    for _ in range(50):
        job = channel.spawn("exec sleep 60")
        job.kill("KILL")
        assert job.wait(10) == -signal.SIGKILL


def test_background_child_does_not_keep_a_command_alive(channel):
    start = time.monotonic()
    channel.run("setsid sleep 5 & echo started")
    assert time.monotonic() - start < 4


def test_dead_agent_is_reported_to_everybody_who_waits(channel):
    job = channel.spawn("sleep 100; true")
    pid = job.pid
    assert pid > 1
    channel.agent.kill()
    with pytest.raises(ChannelClosed, match="host: ended"):
        job.wait(10)
    with pytest.raises(ChannelClosed):
        channel.run("true")
    os.killpg(pid, signal.SIGKILL)  # nobody else is left to end it


def test_agent_sleeps_while_nobody_talks(channel):
    job = channel.spawn("sleep 2")
    assert job.pid
    time.sleep(0.2)

    def switches():
        status = Path(f"/proc/{channel.agent.pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    before = switches()
    time.sleep(0.6)
    assert switches() == before
    job.wait(5)


def test_channel_inside_a_job(channel, agent):
    """As a guest's channel runs through a job of its host."""
    ends = []
    relay = None
    inner = Channel("guest vm1", lambda data: relay.write(data))

    def ended(why):
        ends.append(why)
        inner.close(why)

    relay = channel.spawn(f"exec {agent} -", on_output=inner.feed, on_exit=ended)
    inner.hello(10)
    jobs = [inner.spawn(f"seq {n}") for n in (3, 30000)]
    assert [len(job.result(10).out.split()) for job in jobs] == [3, 30000]
    assert channel.run("echo beside").out == "beside\n"
    relay.kill("KILL")
    relay.wait(5)
    assert len(ends) == 1
    with pytest.raises(ChannelClosed, match="guest vm1"):
        inner.run("true")
