// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The region that a host and a guest share: layout and checks of untrusted bytes.
#![forbid(unsafe_code)]
