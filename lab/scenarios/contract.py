# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The promises of the kernel's own scheduler, measured under both schedulers on two CPUs
(docs/contract.md).
"""

from paracord_lab.contract import ContractScenario


class Contract(ContractScenario):
    name = "contract"
    summary = "quotas, idle groups, forks, weights: promises of the kernel's scheduler, under both schedulers"


SCENARIO = Contract()
