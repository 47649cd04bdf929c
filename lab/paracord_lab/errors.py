# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Errors whose text is the one line that a user needs."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot continue. The text names the place and the remedy."""


class CommandError(LabError):
    """A command in a host or guest ended with an error."""


class CommandTimeout(LabError):
    """A command in a host or guest did not end in time, and was killed."""


class ChannelClosed(LabError):
    """The machine at the other end is gone."""
