// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! System calls and procfs readers that the daemon needs.
