# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import pytest

from paracord_lab import host_share
from paracord_lab.errors import LabError


class Job:
    """A command in the background, as a machine starts it."""

    def __init__(self, running):
        self.running = running
        self.killed = False

    def err(self):
        return "no such region\n"

    def kill(self, signal):
        self.killed = True

    def wait(self, timeout):
        assert self.killed


class Machine:
    def __init__(self, job):
        self.job = job

    def spawn(self, command, name):
        return self.job


def test_a_load_is_ended_with_its_context():
    job = Job(running=True)
    with host_share.running(Machine(job), "pc_hog", "hog"):
        assert not job.killed
    assert job.killed


def test_a_load_that_ends_early_is_an_error():
    with (
        pytest.raises(LabError, match="hog ended while it should run: no such region"),
        host_share.running(Machine(Job(running=False)), "pc_hog", "hog"),
    ):
        pass
