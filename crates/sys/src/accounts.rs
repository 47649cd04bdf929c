// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Users and groups, as the host's name service switch (NSS) knows them.
//!
//! The answers come from the sources that `/etc/nsswitch.conf` names: files and, for example, sssd
//! or LDAP. A lookup can therefore take as long as a network request, and must not be made on a
//! path that has to be fast.

use std::io;

use nix::errno::Errno;
use nix::unistd::{Group, Uid, User};

/// The database could not be asked, so it is not known whether the name exists.
#[derive(Debug, thiserror::Error)]
#[error("the host's {database} database does not answer about {name:?}: {source}")]
pub struct AccountError {
    database: &'static str,
    name: String,
    source: io::Error,
}

/// IDs of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// The user's ID.
    pub uid: u32,
    /// ID of the user's primary group.
    pub gid: u32,
}

/// ID of the group called `name`. `None` if there is no such group.
///
/// # Errors
/// [`AccountError`].
pub fn group_id(name: &str) -> Result<Option<u32>, AccountError> {
    Ok(found("group", name, Group::from_name(name))?.map(|group| group.gid.as_raw()))
}

/// IDs of the user whose name is `user` or, if there is none, of the user whose ID is `user`.
/// `None` if there is no such user.
///
/// # Errors
/// [`AccountError`].
pub fn user_ids(user: &str) -> Result<Option<UserIds>, AccountError> {
    let mut known = found("user", user, User::from_name(user))?;
    if let (None, Ok(uid)) = (&known, user.parse()) {
        known = found("user", user, User::from_uid(Uid::from_raw(uid)))?;
    }
    Ok(known.map(|known| UserIds { uid: known.uid.as_raw(), gid: known.gid.as_raw() }))
}

fn found<T>(
    database: &'static str,
    name: &str,
    answer: nix::Result<Option<T>>,
) -> Result<Option<T>, AccountError> {
    match answer {
        Ok(found) => Ok(found),
        // The C library also returns these errors if a source has no data, for example if
        // /etc/group is missing.
        Err(Errno::ENOENT | Errno::ESRCH) => Ok(None),
        Err(error) => Err(AccountError { database, name: name.to_owned(), source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: &str = "paracord-no-such-name";

    #[test]
    fn users_by_name_and_by_id() {
        let root = Some(UserIds { uid: 0, gid: 0 });
        assert_eq!(user_ids("root").unwrap(), root);
        assert_eq!(user_ids("0").unwrap(), root);
        for nobody in [NOBODY, "", "4000000000", "ro\0ot", "0:0"] {
            assert_eq!(user_ids(nobody).unwrap(), None, "{nobody:?}");
        }
    }

    #[test]
    fn groups_by_name() {
        assert_eq!(group_id("root").unwrap(), Some(0));
        for nobody in [NOBODY, "", "0"] {
            assert_eq!(group_id(nobody).unwrap(), None, "{nobody:?}");
        }
    }

    #[test]
    fn a_database_that_has_no_data_is_told_from_one_that_does_not_answer() {
        for errno in [Errno::ENOENT, Errno::ESRCH] {
            assert!(found::<()>("group", "qemu", Err(errno)).unwrap().is_none());
        }
        let error = found::<()>("group", "qemu", Err(Errno::ECONNREFUSED)).unwrap_err();
        let line = error.to_string();
        assert!(line.starts_with("the host's group database does not answer about \"qemu\": "));
        assert!(line.contains("refused"), "{line}");
    }
}
