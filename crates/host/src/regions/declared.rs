// SPDX-License-Identifier: GPL-2.0-only
//! Regions that the configuration declares. They lie on tmpfs, so they are gone after a reboot. The
//! daemon creates missing regions when it starts and whenever it reads its configuration again.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use paracord_sys::accounts::{AccountError, user_ids};
use tracing::{info, warn};

use crate::config::{Config, RegionKeys, RegionSection};
use crate::counters::EventSet;
use crate::machine::domains::HostCpus;
use crate::regions::region_file::{self, Offer, RegionFileError};

/// How long the daemon waits for the regions when it starts. The wait is limited, because the name
/// service may never answer the lookup of an owner.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a region is not created.
#[derive(Debug, thiserror::Error)]
pub enum DeclaredError {
    /// The owner contains a colon, but is not a pair of IDs.
    #[error("owner {0}: give a user, or UID:GID as two numbers")]
    Pair(String),
    /// This host has no such user.
    #[error("owner {0}: this host knows no such user; give UID:GID instead")]
    Unknown(String),
    /// The user cannot be looked up.
    #[error("owner: {0}; give UID:GID instead")]
    Account(#[from] AccountError),
    /// No event can be counted.
    #[error("counters: {name}: {reason}")]
    Counters {
        /// Name of the first event that cannot be counted.
        name: String,
        /// Why it cannot be counted.
        reason: String,
    },
    /// The file cannot be created.
    #[error("{0}")]
    File(#[from] RegionFileError),
}

/// Returns the user ID and the group ID of `owner`, which is a name, a UID, or UID:GID.
///
/// # Errors
/// [`DeclaredError::Pair`], [`DeclaredError::Unknown`], [`DeclaredError::Account`].
pub fn owner_ids(owner: &str) -> Result<(u32, u32), DeclaredError> {
    if let Some((uid, gid)) = owner.split_once(':') {
        let ids = uid.parse().ok().zip(gid.parse().ok());
        return ids.ok_or_else(|| DeclaredError::Pair(owner.to_owned()));
    }
    let known = user_ids(owner)?.ok_or_else(|| DeclaredError::Unknown(owner.to_owned()))?;
    Ok((known.uid, known.gid))
}

/// Returns what a region with these keys offers on this host. If the host cannot tell the guest
/// everything that the keys ask for, also returns a line that says what is missing.
///
/// # Errors
/// Any [`DeclaredError`] except [`DeclaredError::File`].
pub fn offer(
    keys: &RegionKeys,
    allowed: EventSet,
) -> Result<(Offer, Option<String>), DeclaredError> {
    let host = keys.frequencies.then(|| HostCpus::read(Path::new("/")));
    let events = if keys.counters {
        let offer = crate::counters::Offer::probe(allowed);
        if let Some(first) = offer.why_empty() {
            let (name, reason) = (first.name.to_string(), first.reason.to_string());
            return Err(DeclaredError::Counters { name, reason });
        }
        offer.events().copied().collect()
    } else {
        Vec::new()
    };
    let owner = if keys.owner.is_empty() { None } else { Some(owner_ids(&keys.owner)?) };
    let offer = Offer {
        slots: keys.vcpus,
        kick: keys.kick,
        preempt_count: keys.preempt_count,
        capacity: host.is_some(),
        domains: host.as_ref().map(|host| host.table().to_vec()).unwrap_or_default(),
        events,
        stale_boost_kick_us: keys.kick_us,
        owner,
    };
    Ok((offer, host.and_then(|host| host.lacking())))
}

/// Whether the owner is looked up in the system's user database.
fn is_looked_up(owner: &str) -> bool {
    !owner.is_empty() && !owner.contains(':')
}

/// Creates the regions that `config` declares and that do not exist yet. If `waits` is true, the
/// call returns when all regions are created, or after `PATIENCE`. Errors are only logged, because
/// VMs are also boosted without regions.
pub fn make(config: &Config, waits: bool) {
    if config.regions.is_empty() {
        return;
    }
    let (directory, mut sections, events) =
        (config.region_dir.clone(), config.regions.clone(), config.counters.events);
    // The lookup of an owner can wait for a server. So first create the regions that need no
    // lookup.
    sections.sort_by_key(|section| is_looked_up(&section.keys.owner));
    let (done, ended) = channel();
    let started = Builder::new().name("paracord-made".into()).spawn(move || {
        for section in &sections {
            make_one(&directory, section, events);
        }
        let _ = done.send(());
    });
    if let Err(error) = started {
        warn!("no region is made: {error}");
    } else if waits && ended.recv_timeout(PATIENCE).is_err() {
        warn!("regions: their owners are not known within {PATIENCE:?}: going on without them");
    }
}

fn make_one(directory: &Path, section: &RegionSection, events: EventSet) {
    let name = section.name.as_str();
    let made = offer(&section.keys, events).and_then(|(offer, lacks)| {
        region_file::create(directory, name, &offer)?;
        Ok(lacks)
    });
    match made {
        Ok(lacks) => {
            info!(region = name, "region made");
            if let Some(line) = lacks {
                info!(region = name, "{line}");
            }
        }
        Err(DeclaredError::File(RegionFileError::Exists(_))) => {
            if let Some(other) = difference(directory, section) {
                warn!(
                    region = name,
                    "{other}: end its VM, then `paracord region remove {name}` and `paracord reload`"
                );
            }
        }
        Err(error) => warn!(region = name, "not made: {error}"),
    }
}

/// Describes how an existing region differs from its declaration. Returns `None` if no difference
/// is found.
fn difference(directory: &Path, section: &RegionSection) -> Option<String> {
    let listed = region_file::list(directory).ok()?;
    let there = listed.into_iter().find(|region| region.name == section.name)?;
    let (found, wanted) = (there.slots?, section.keys.vcpus);
    let word = if found == 1 { "vCPU" } else { "vCPUs" };
    if found != wanted {
        return Some(format!("has {found} {word} and not {wanted}"));
    }
    let lacks = || there.domains.is_empty() && HostCpus::read(Path::new("/")).table_id() != 0;
    let lacks = section.keys.frequencies && lacks();
    lacks.then(|| "was made when this host showed no CPU frequencies".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_name_uid_or_pair() {
        let ids = |owner: &str| owner_ids(owner).map_err(|error| error.to_string());
        assert_eq!(ids("root"), Ok((0, 0)));
        assert_eq!(ids("0"), Ok((0, 0)));
        assert_eq!(ids("7:8"), Ok((7, 8)));
        assert!(ids("paracord-no-such-user").unwrap_err().contains("UID:GID instead"));
        assert!(ids("7:x").unwrap_err().contains("two numbers"));
    }

    #[test]
    fn regions_are_made_once_and_again_after_they_are_gone() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let keys = RegionKeys { vcpus: 2, frequencies: false, ..RegionKeys::default() };
        let web = RegionSection { name: "web".into(), keys };
        let bad = RegionKeys { owner: "paracord-no-such-user".into(), ..web.keys.clone() };
        let bad = RegionSection { name: "bad".into(), keys: bad };
        let config = Config {
            region_dir: directory.path().into(),
            regions: vec![bad, web.clone()],
            ..Config::default()
        };
        for _ in 0..2 {
            make(&config, true);
            make(&config, true);
            let listed = region_file::list(directory.path()).unwrap();
            assert_eq!(listed.len(), 1, "a wrong section does not keep others from being made");
            assert_eq!((listed[0].name.as_str(), listed[0].slots), ("web", Some(2)));
            assert_eq!(difference(directory.path(), &web), None);
            std::fs::remove_file(directory.path().join("web")).unwrap();
        }
        make(&config, true);
        let keys = RegionKeys { vcpus: 3, ..web.keys.clone() };
        let other = RegionSection { keys, ..web };
        let says = difference(directory.path(), &other).unwrap();
        assert_eq!(says, "has 2 vCPUs and not 3");
    }
}
