# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""What the scenario contract makes of the figures of both schedulers."""

import pytest

from paracord_lab import contract
from paracord_lab.verdicts import FAIL, PASS

STOCK = {
    "quota_error_5_flat_ratio": 0.02,
    "quota_error_30_bound_ratio": 0.01,
    "quota_ejections_share_of_a_cpu_of_0_001_ratio": 0.001,
    "idle_group_share_ratio": 0.003,
    "fork_chain_share_1ms_ratio": 0.5,
    "fork_chain_share_1ms_weights_1000_100_ratio": 0.92,
    "group_ratio_error_ratio": 0.01,
    "fairness_vs_stock_seed_1_ratio": 0.2,
}
# Metric -> a value that is beyond its limit, and the verdict that says so.
BEYOND = {
    "quota_error_30_bound_ratio": (0.07, "quota_error"),
    "quota_ejections_share_of_a_cpu_of_0_001_ratio": (0.02, "quota_ejections_share"),
    "idle_group_share_ratio": (0.02, "idle_group_share"),
    "fork_chain_share_1ms_ratio": (0.4, "fork_chain_share"),
    "fork_chain_share_1ms_weights_1000_100_ratio": (0.8, "fork_chain_heavy_share"),
    "group_ratio_error_ratio": (0.07, "group_ratio_error"),
    "fairness_vs_stock_seed_1_ratio": (0.24, "fairness_vs_stock"),
}


def failed(ext):
    verdicts = [check.judge([{"stock": STOCK, "ext": ext}]) for check in contract.ContractScenario.checks]
    assert {verdict.status for verdict in verdicts} <= {PASS, FAIL}
    return [verdict.name for verdict in verdicts if verdict.status == FAIL]


def test_what_is_as_the_kernels_passes():
    assert failed(STOCK) == []


@pytest.mark.parametrize("metric", BEYOND)
def test_each_verdict_fails_by_its_own_figure(metric):
    value, verdict = BEYOND[metric]
    assert failed(STOCK | {metric: value}) == [verdict]


def test_a_figure_is_a_metric():
    assert contract.metric_of("quota_error_2_cpus (5 %, flat)", 2) == "quota_error_5_flat_ratio"
    assert contract.metric_of("idle_group_share_4_cpus", 4) == "idle_group_share_ratio"
