# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What the kernel's own scheduler promises, under both, on two CPUs (docs/contract.md)."""

from paracord_lab.contract import ContractScenario


class Contract(ContractScenario):
    name = "contract"
    summary = "quotas, idle groups, forks, weights: what the kernel's scheduler promises, under both"


SCENARIO = Contract()
