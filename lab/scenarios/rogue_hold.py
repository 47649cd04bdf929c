# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""A guest's root sets every hint of every slot and never clears them, while it spins."""

from paracord_lab.rogue import RogueScenario


class RogueHold(RogueScenario):
    name = "rogue-hold"
    mode = "hold"
    summary = "a guest's root sets every hint of every slot, never clears them, and spins"
    without = ("budget", "device")


SCENARIO = RogueHold()
