// SPDX-License-Identifier: GPL-2.0-only
//! Assigns the sensor's records of VMs.
//!
//! Any user who may open /dev/kvm can start many VMs with one vCPU each. The number of VM records
//! per user is therefore limited, as is the number of vCPU records per user.

use std::collections::{BTreeMap, BTreeSet};

use paracord_policy::{PC_VCPUS_MAX, PC_VMS_MAX};

/// Why a VM has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The user of the VM already has as many records as a user may have.
    OfUser,
    /// No record is left.
    Full,
}

/// Maximum number of VM records that a user other than root may take. The user may take a quarter
/// of all VM records. If `vcpus_per_user` is more than a quarter of all vCPU records, the user may
/// take the same fraction of all VM records instead. On a host where one user, such as libvirt's,
/// runs all VMs, the administrator raises `vcpus_per_user`.
pub fn per_user(vcpus_per_user: u32) -> u32 {
    (vcpus_per_user / (PC_VCPUS_MAX / PC_VMS_MAX)).max(PC_VMS_MAX / 4)
}

/// Finds a free record for a VM of user `uid`. `taken` contains the index and the user of each
/// record in use.
///
/// # Errors
/// [`Refused`].
pub fn free_slot(
    taken: impl Iterator<Item = (u32, u32)>,
    uid: u32,
    per_user: u32,
) -> Result<u32, Refused> {
    let (mut used, mut own) = (BTreeSet::new(), 0);
    for (index, user) in taken {
        used.insert(index);
        own += u32::from(user == uid);
    }
    if uid != 0 && own >= per_user {
        return Err(Refused::OfUser);
    }
    (0..PC_VMS_MAX).find(|index| !used.contains(index)).ok_or(Refused::Full)
}

/// VMs without a record, by process. They are not considered again until a record is given back,
/// one of their vCPUs ends, or the settings are read again.
#[derive(Debug, Default)]
pub struct RefusedVms(BTreeMap<u32, Refused>);

impl RefusedVms {
    /// Whether this VM was refused.
    pub fn contains(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Notes that this VM was refused.
    pub fn insert(&mut self, pid: u32, why: Refused) {
        self.0.insert(pid, why);
    }

    /// Forgets a VM after one of its vCPUs has ended, because the VM may have ended as well.
    pub fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// Lets all refused VMs try again.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of refused VMs.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Describes the refused VMs in one line. `None` if there are none.
    pub fn line(&self, per_user: u32) -> Option<String> {
        let all = [
            (Refused::OfUser, format!("their user has {per_user} already (vcpus_per_user / 4)")),
            (Refused::Full, format!("{PC_VMS_MAX} run already")),
        ];
        let count = |why| self.0.values().filter(|one| **one == why).count();
        let parts = all.iter().map(|(why, text)| (count(*why), text)).filter(|(n, _)| *n > 0);
        let parts: Vec<String> = parts.map(|(n, text)| format!("{n}, as {text}")).collect();
        (!parts.is_empty()).then(|| format!("VMs left to stock scheduling: {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_does_not_shut_others_out() {
        assert_eq!((per_user(1), per_user(1024), per_user(4096)), (256, 256, 1024));
        let mut taken: Vec<(u32, u32)> = Vec::new();
        let mut start = |uid: u32| {
            let found = free_slot(taken.iter().copied(), uid, 256);
            taken.extend(found.iter().map(|index| (*index, uid)));
            found
        };
        assert_eq!((0..300).filter(|_| start(1000).is_ok()).count(), 256);
        assert_eq!(start(1000), Err(Refused::OfUser));
        assert_eq!(start(1001), Ok(256));
        // The limit per user does not apply to root, but the limit on all records does.
        assert_eq!((0..2000).filter(|_| start(0).is_ok()).count(), 1024 - 257);
        assert_eq!((start(0), start(1002)), (Err(Refused::Full), Err(Refused::Full)));
    }

    #[test]
    fn who_is_refused_is_told_as_long_as_it_is_so() {
        let mut refused = RefusedVms::default();
        assert_eq!(refused.line(256), None);
        refused.insert(7, Refused::OfUser);
        refused.insert(8, Refused::OfUser);
        refused.insert(9, Refused::Full);
        let want = "VMs left to stock scheduling: 2, as their user has 256 already (vcpus_per_user / 4); 1, as 1024 run already";
        assert_eq!((refused.line(256).as_deref(), refused.count()), (Some(want), 3));
        refused.forget(7);
        assert!(!refused.contains(7) && refused.contains(8));
        refused.clear();
        assert_eq!((refused.line(256), refused.count()), (None, 0));
    }
}
