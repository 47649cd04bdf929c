# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The promises of the kernel's own scheduler, measured under both schedulers on four CPUs
(docs/contract.md).
"""

from paracord_lab.contract import ContractScenario


class Contract4(ContractScenario):
    name = "contract-4"
    summary = "the same as contract on four CPUs"
    cpus = 4


SCENARIO = Contract4()
