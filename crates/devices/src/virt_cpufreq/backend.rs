// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Who carries a guest's requests to the host.

use std::sync::Arc;

use super::domain::Request;

/// Carries requests to the host.
pub trait Backend: Send + Sync {
    /// The policy of `vcpu` asks for something else than before.
    ///
    /// Called inside a guest access, in the thread of a vCPU of the policy: mostly `vcpu`'s own, another
    /// one's where vCPUs share a policy (then each of them is told) or where the guest's user space sets
    /// frequencies. A guest can cause calls as fast as it can exit, so this must not wait, allocate or
    /// panic, and must bound on its own what it does at that rate.
    fn request(&self, vcpu: u32, request: Request);
}

/// Requests are only stored: `VirtCpufreq::requested` tells.
impl Backend for () {
    fn request(&self, _: u32, _: Request) {}
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn request(&self, vcpu: u32, request: Request) {
        self.as_ref().request(vcpu, request);
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn request(&self, vcpu: u32, request: Request) {
        self.as_ref().request(vcpu, request);
    }
}
