# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest's root writes random bytes over the whole region, header included."""

from paracord_lab.rogue import RogueScenario


class RogueGarbage(RogueScenario):
    name = "rogue-garbage"
    mode = "garbage"
    summary = "a guest's root writes random bytes over the whole region, header included"
    without = ("budget", "device")


SCENARIO = RogueGarbage()
