// SPDX-License-Identifier: GPL-2.0-only
//! The quotas of users: how many records of vCPUs each gave back, and who is not remembered any more.
//!
//! The sensor counts what a user takes (`user_taken`), and never forgets one. 4096 users are told apart; those that come
//! later share one quota. So a user with many ids (subordinate ones) could have everybody share it for ever. When
//! half of them are in use, those that hold nothing are forgotten.
//!
//! Race: the sensor looks a user's counter up, it is forgotten, the sensor counts. That takes a first VM exit of a user who
//! had no vCPU for a whole look, in the same microsecond. It costs a record more or less of one user's quota, until that
//! user has no vCPU for a look.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use libbpf_rs::{Map, MapCore, MapFlags, Object};
use paracord_policy::{PC_UID_OTHERS, PC_USERS_MAX, pc_vcpu};

use crate::{Array, Error, object::find_map};

const TAKEN: &str = "user_taken";
const RETURNED: &str = "user_returned";
/// What was being done, for errors.
const STEP: &str = "the quota of users";

/// What the daemon's side knows of users.
#[derive(Debug, Default)]
struct Known {
    /// Records that were given back; as in the map `user_returned`.
    returned: HashMap<u32, u32>,
    /// Users who held nothing at the last look, with what they had taken until then.
    idle: HashMap<u32, u32>,
}

impl Known {
    /// Those who hold nothing now, and have neither held nor taken anything since the last look. What was taken shortly
    /// before a look may be in no record yet, so one look is not enough.
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

/// Makes the entry that users find who have none of their own. To be called before a user can take it.
pub(crate) fn make_shared_entry(object: &Object) -> Result<(), Error> {
    find_map(object, TAKEN)?
        .update(&PC_UID_OTHERS.to_ne_bytes(), &0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(Error::bpf(STEP))
}

/// The users of one sensor, which has the object that each call needs.
#[derive(Debug, Default)]
pub(crate) struct Users {
    known: Mutex<Known>,
}

impl Users {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One record less is taken by this user.
    pub(crate) fn give_back(&self, object: &Object, uid: u32) -> Result<(), Error> {
        let mut known = self.known();
        let count = known.returned.entry(uid).or_default();
        *count = count.wrapping_add(1);
        find_map(object, RETURNED)?
            .update(&uid.to_ne_bytes(), &count.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf(STEP))
    }

    /// Forgets those who hold none of the records of these vCPUs, if many users are remembered.
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
        // 3 has taken one, which is in no record yet; 4 never got one.
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
        assert_eq!((looked(), looked()), ((100, 99, 99), (100, 99, 99)), "there is room for all");
        take(100..2100);
        assert_eq!(looked(), (2100, 2099, 2099), "one look is not enough");
        assert_eq!(looked(), (1, 0, 0), "all but those that share");
    }
}
