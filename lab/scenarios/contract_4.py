# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What the kernel's own scheduler promises, under both, on four CPUs (docs/contract.md)."""

from paracord_lab.contract import ContractScenario


class Contract4(ContractScenario):
    name = "contract-4"
    summary = "the same as contract on four CPUs"
    cpus = 4


SCENARIO = Contract4()
