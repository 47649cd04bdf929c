// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The interface through which the requests of a guest reach the host.

use std::sync::Arc;

use super::domain::Request;

/// Passes requests to the host.
pub trait Backend: Send + Sync {
    /// The cpufreq policy of `vcpu` requests a new frequency.
    ///
    /// The device calls this inside a guest's access, in the thread of a vCPU of the policy. This
    /// is usually `vcpu`'s own thread. It is the thread of another vCPU if vCPUs share a policy
    /// (the method is then called for each of them), or if user space in the guest sets
    /// frequencies. A guest can cause calls as fast as it can exit. The method must therefore not
    /// wait, allocate or panic, and it must itself limit the work that it does at that rate.
    fn request(&self, vcpu: u32, request: Request);
}

/// A back end that does nothing. The device itself stores requests, and `VirtCpufreq::requested`
/// returns them.
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
