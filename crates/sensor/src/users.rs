// SPDX-License-Identifier: GPL-2.0-only
//! The users' quotas: how many vCPU records each user has given back, and which users are
//! forgotten.
//!
//! The sensor counts the records that a user takes (`user_taken`), and never forgets a user by
//! itself. It distinguishes 4096 users; all further users share one quota. A user with many
//! (subordinate) user IDs could thus make all other users share one quota forever. Therefore, once
//! half of the 4096 entries are in use, the daemon forgets users that hold no records.
//!
//! There is a race: the sensor looks up a user's counter, the user is forgotten, and the sensor
//! then increments the counter. The race occurs only if the user had no vCPU during a whole
//! interval between two checks, and if the user's next vCPU has its first VM exit in the very
//! microsecond in which the user is forgotten. The quota of that user is then wrong by one record,
//! until the user has no vCPU during another interval.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use libbpf_rs::{Map, MapCore, MapFlags, Object};
use paracord_policy::{PC_UID_OTHERS, PC_USERS_MAX, pc_vcpu};

use crate::{Array, Error, object::find_map};

const TAKEN: &str = "user_taken";
const RETURNED: &str = "user_returned";
/// The step that failed, for errors.
const STEP: &str = "the quota of users";

/// What the daemon knows about users.
#[derive(Debug, Default)]
struct Known {
    /// Number of records that each user has given back, as in the map `user_returned`.
    returned: HashMap<u32, u32>,
    /// Users that held nothing at the last check, with the number of records that they had taken
    /// until then.
    idle: HashMap<u32, u32>,
}

impl Known {
    /// Users that hold nothing now, and that have neither held nor taken a record since the last
    /// check. One check is not enough: a record that was taken shortly before a check may not show
    /// its user yet.
    fn forgettable(&mut self, taken: &[(u32, u32)], charged: &HashSet<u32>) -> Vec<(u32, u32)> {
        let holds_nothing =
            |(uid, _): &&(u32, u32)| *uid != PC_UID_OTHERS && !charged.contains(uid);
        let idle: Vec<(u32, u32)> = taken.iter().filter(holds_nothing).copied().collect();
        let still = |(uid, taken): &&(u32, u32)| self.idle.get(uid) == Some(taken);
        let gone = idle.iter().filter(still).copied().collect();
        self.idle = idle.into_iter().collect();
        gone
    }
}

fn number(bytes: Option<Vec<u8>>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes?.try_into().ok()?))
}

fn taken_by(map: &Map<'_>, uid: u32) -> Option<u32> {
    number(map.lookup(&uid.to_ne_bytes(), MapFlags::ANY).ok()?)
}

/// Makes the entry for users without an entry of their own. Call this function before any user can
/// fill the map.
pub(crate) fn make_shared_entry(object: &Object) -> Result<(), Error> {
    find_map(object, TAKEN)?
        .update(&PC_UID_OTHERS.to_ne_bytes(), &0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::bpf(STEP))
}

/// The users of one sensor. Each call needs the sensor's object.
#[derive(Debug, Default)]
pub(crate) struct Users {
    known: Mutex<Known>,
}

impl Users {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one record of this user as given back.
    pub(crate) fn give_back(&self, object: &Object, uid: u32) -> Result<(), Error> {
        let mut known = self.known();
        let count = known.returned.entry(uid).or_default();
        *count = count.wrapping_add(1);
        find_map(object, RETURNED)?
            .update(&uid.to_ne_bytes(), &count.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf(STEP))
    }

    /// Forgets users that hold none of the records of these vCPUs, if many users are remembered.
    pub(crate) fn forget(&self, object: &Object, vcpus: &Array<pc_vcpu>) -> Result<(), Error> {
        let map = find_map(object, TAKEN)?;
        let uids: Vec<u32> = map.keys().filter_map(|key| number(Some(key))).collect();
        let mut known = self.known();
        if uids.len() <= PC_USERS_MAX as usize / 2 {
            known.idle.clear();
            return Ok(());
        }
        let charged = vcpus.iter().filter_map(|vcpu| vcpu.charged_user()).collect();
        let taken: Vec<(u32, u32)> =
            uids.into_iter().filter_map(|uid| Some((uid, taken_by(&map, uid)?))).collect();
        let returned = find_map(object, RETURNED)?;
        for (uid, before) in known.forgettable(&taken, &charged) {
            if taken_by(&map, uid) != Some(before) {
                continue;
            }
            let key = uid.to_ne_bytes();
            map.delete(&key).map_err(Error::bpf(STEP))?;
            if known.returned.remove(&uid).is_some() {
                returned.delete(&key).map_err(Error::bpf(STEP))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Sensor};

    #[test]
    fn who_holds_nothing_at_two_looks_and_took_nothing_between_them_is_forgotten() {
        let mut known = Known::default();
        let charged = HashSet::from([1]);
        let first = [(1, 9), (2, 5), (3, 5), (4, 0), (PC_UID_OTHERS, 0)];
        assert_eq!(known.forgettable(&first, &charged), []);
        // User 3 has taken a record that does not show its user yet. User 4 has never got a record.
        let second = [(1, 9), (2, 5), (3, 6), (4, 0), (PC_UID_OTHERS, 0)];
        assert_eq!(known.forgettable(&second, &charged), [(2, 5), (4, 0)]);
        assert_eq!(known.forgettable(&[(3, 6)], &HashSet::from([3])), []);
        assert_eq!(known.forgettable(&[(3, 6)], &HashSet::new()), []);
        assert_eq!(known.forgettable(&[(3, 6)], &HashSet::new()), [(3, 6)]);
    }

    #[test]
    #[ignore = "needs root and a kernel with BTF"]
    fn the_kernels_maps_are_emptied_when_many_users_are_remembered() {
        let options = Options { without_kvm: true, ..Options::default() };
        let sensor = Sensor::load(&options).unwrap();
        let taken = sensor.map("user_taken").unwrap();
        let returned = sensor.map("user_returned").unwrap();
        let take = |uids: std::ops::Range<u32>| {
            for uid in uids {
                taken.update(&uid.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).unwrap();
                sensor.give_back(uid).unwrap();
            }
        };
        let looked = || {
            sensor.forget_users().unwrap();
            (taken.keys().count(), returned.keys().count(), sensor.users.known().returned.len())
        };
        take(1..100);
        assert_eq!(
            (looked(), looked()),
            ((100, 99, 99), (100, 99, 99)),
            "there is room for all users"
        );
        take(100..2100);
        assert_eq!(looked(), (2100, 2099, 2099), "one check is not enough");
        assert_eq!(looked(), (1, 0, 0), "only the shared entry is left");
    }
}
