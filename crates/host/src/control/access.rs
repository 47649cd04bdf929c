// SPDX-License-Identifier: GPL-2.0-only
//! Access to the control socket: for root, the daemon's own user, and members of one group.
//!
//! The mode of the socket (0660 with that group, 0600 without a group) keeps other users from
//! connecting. The credentials of the peer are checked as well, so that a changed mode does not
//! give access.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::scheduler::clamps::ClampTarget;

/// Users and the group that may use the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The daemon's own user. Root always has access.
    pub user: u32,
    /// The group whose members have access.
    pub group: Option<u32>,
}

impl Access {
    /// Access for root, for the user of this process, and for the group called `group`, if it
    /// exists in `/etc/group` under `root`.
    pub fn new(group: &str, root: &Path) -> Access {
        let file = std::fs::read_to_string(root.join("etc/group")).unwrap_or_default();
        Access { user: geteuid().as_raw(), group: group_id(&file, group) }
    }

    /// Whether user `uid` of the socket may set the clamps of `target`. Members of the group may
    /// clamp only VMs, because a thread may belong to any user.
    pub fn may_clamp(&self, uid: u32, target: &ClampTarget) -> bool {
        uid == 0 || uid == self.user || matches!(target, ClampTarget::Vm(_))
    }

    /// Returns whether the peer may use the socket, and in either case the user ID of the peer.
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

/// Id of a group in the text of /etc/group (`name:password:id:members`).
fn group_id(file: &str, name: &str) -> Option<u32> {
    file.lines().filter(|_| !name.is_empty()).find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_ids_come_from_the_third_field() {
        let file = "root:x:0:\nparacord:x:991:ann,bob\nbroken\nparacord2:x:5:\n:x:7:\n";
        assert_eq!(group_id(file, "paracord"), Some(991));
        assert_eq!(group_id(file, "broken"), None);
        assert_eq!(group_id(file, "nobody"), None);
        assert_eq!(group_id(file, ""), None);
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
        let access = Access { user: geteuid().as_raw(), group: None };
        assert!(access.check(&a).unwrap().0);
    }
}
