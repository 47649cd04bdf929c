// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A database of users that fails. The test sets a resource limit for its whole process, so it is
//! alone in that process.

use paracord_sys::accounts::{group_id, user_ids};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_database_that_fails_does_not_say_that_a_name_is_unknown() {
    let before = getrlimit(Resource::Nofile);
    // No source can open a file or connect a socket.
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    let (group, user) = (group_id("root"), user_ids("root"));
    setrlimit(Resource::Nofile, before).unwrap();
    for error in [group.unwrap_err().to_string(), user.unwrap_err().to_string()] {
        assert!(error.contains("does not answer about \"root\""), "{error}");
    }
    assert_eq!(group_id("root").unwrap(), Some(0));
}
