// SPDX-License-Identifier: GPL-2.0-only
//! Access to the control socket: for root, the daemon's own user, and members of one group.
//!
//! The mode of the socket (0660 with that group, 0600 without a group) keeps other users from
//! connecting. The server also checks the credentials of the peer, so a changed mode does not give
//! access.

use std::os::fd::AsFd;

use paracord_sys::accounts::{AccountError, group_id};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::scheduler::clamp_order::ClampTarget;

/// Users and the group that may use the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The daemon's own user. Root always has access.
    pub user: u32,
    /// The group whose members have access.
    pub group: Option<u32>,
}

impl Access {
    /// Access for root and for the user of this process.
    pub fn own() -> Access {
        Access { user: geteuid().as_raw(), group: None }
    }

    /// Access for root, for the user of this process, and for the group called `group`, if that
    /// group exists. With an empty name, no group has access.
    ///
    /// # Errors
    /// If it cannot be determined whether the group exists.
    pub fn new(group: &str) -> Result<Access, AccountError> {
        let group = if group.is_empty() { None } else { group_id(group)? };
        Ok(Access { group, ..Access::own() })
    }

    /// Whether a client with user ID `uid` may set the clamps of `target`. Members of the group may
    /// clamp only VMs, because a thread may belong to any user.
    pub fn may_clamp(&self, uid: u32, target: &ClampTarget) -> bool {
        uid == 0 || uid == self.user || matches!(target, ClampTarget::Vm(_))
    }

    /// Returns whether the peer may use the socket, and the user ID of the peer.
    ///
    /// # Errors
    /// If the kernel does not report the credentials of the peer. The caller must refuse such a
    /// peer.
    pub fn check(&self, peer: impl AsFd) -> std::io::Result<(bool, u32)> {
        let credentials = socket_peercred(peer.as_fd())?;
        let (uid, gid) = (credentials.uid.as_raw(), credentials.gid.as_raw());
        let allowed = uid == 0
            || uid == self.user
            || match self.group {
                Some(group) => {
                    gid == group || paracord_sys::peer::peer_groups(peer)?.contains(&group)
                }
                None => false,
            };
        Ok((allowed, uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_that_exists_has_access() {
        assert_eq!(Access::new("root").unwrap(), Access { group: Some(0), ..Access::own() });
        for none in ["", "paracord-no-such-group"] {
            assert_eq!(Access::new(none).unwrap(), Access::own(), "{none:?}");
        }
    }

    #[test]
    fn members_of_the_group_clamp_vms_only() {
        let access = Access { user: 7, group: Some(991) };
        assert!(access.may_clamp(1000, &ClampTarget::Vm("web".into())));
        assert!(!access.may_clamp(1000, &ClampTarget::Task(1)));
        assert!(!access.may_clamp(1000, &ClampTarget::Cgroup("a".into())));
        assert!(access.may_clamp(0, &ClampTarget::Process(1)));
        assert!(access.may_clamp(7, &ClampTarget::Task(1)));
    }

    #[test]
    fn own_user_is_allowed() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Access::own().check(&a).unwrap().0);
    }
}
