# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Scenarios: one file each; see paracord_lab/scenario.py."""
