# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest's root sets and clears its hints as fast as it can, with a VM exit each time."""

from paracord_lab.rogue import RogueScenario


class RogueToggle(RogueScenario):
    name = "rogue-toggle"
    mode = "toggle"
    summary = "a guest's root sets and clears its hints as fast as it can, with a VM exit each time"
    without = ("budget", "rate-limit", "device")


SCENARIO = RogueToggle()
