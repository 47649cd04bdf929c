# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
import tomllib

import pytest

from paracord_lab import daemon


def test_toml_puts_dotted_keys_into_sections():
    settings = {"mode": "observe", "boost.cpu_kept_pct": 0, "boost.rt.enabled": False, "boost.rt.grant_us": 5}
    assert tomllib.loads(daemon.toml(settings)) == {
        "mode": "observe",
        "boost": {"cpu_kept_pct": 0, "rt": {"enabled": False, "grant_us": 5}},
    }


@pytest.mark.parametrize("mechanism", daemon.MECHANISMS)
def test_settings_of_every_mechanism_are_toml(mechanism):
    settings = daemon.MECHANISMS[mechanism]
    assert bool(tomllib.loads(daemon.toml(settings))) == bool(settings)


STATUS = {
    "vms": [
        {"name": "a", "vcpus": [{"tid": 7, "counters": {"throttles": 2, "boosts": [1, 2, 3, 4]}}]},
        {"name": "b", "vcpus": [{"tid": 9, "counters": {"throttles": 1, "boosts": [0, 0, 1, 0]}}]},
    ]
}


def test_counters_are_summed_over_vcpus_and_reasons():
    assert daemon.tids(STATUS) == [7, 9]
    assert daemon.counter(STATUS, "throttles") == 3
    assert daemon.counter(STATUS, "boosts") == 11


def test_defaults_are_read_from_what_the_daemon_shows():
    shown = '# mode = "on"\n\n[boost]\n# actuation_min_us = 200\n\n[boost.wake]\n# grant_us = 1000\n'
    assert daemon.default(shown, "boost.actuation_min_us") == 200
    assert daemon.default(shown, "boost.wake.grant_us") == 1000
