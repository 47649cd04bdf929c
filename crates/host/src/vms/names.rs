// SPDX-License-Identifier: GPL-2.0-only
//! Finds a VM by the name, uuid or pid that an operator gives.

use crate::command_error::CommandError;

/// The names of a VM. The VM's user chooses the name and the uuid.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// Pid of the VMM.
    pub pid: u32,
    /// Name.
    pub name: &'a str,
    /// Uuid, if the VM has one.
    pub uuid: Option<&'a str>,
}

/// Finds the VM that is called `who`. A number is taken as a pid if a VM has this pid, because no
/// user can choose a pid.
///
/// # Errors
/// [`CommandError::NoSuchVm`]; [`CommandError::Invalid`] if several VMs have that name or uuid.
pub fn find<'v, V>(
    who: &str,
    vms: impl Iterator<Item = &'v V> + Clone,
    called: impl Fn(&'v V) -> Called<'v>,
) -> Result<&'v V, CommandError> {
    let pid = who.parse().ok();
    if let Some(vm) = vms.clone().find(|vm| Some(called(vm).pid) == pid) {
        return Ok(vm);
    }
    let is = |vm: &&'v V| called(vm).name == who || called(vm).uuid == Some(who);
    match vms.filter(is).collect::<Vec<_>>().as_slice() {
        [] => Err(CommandError::NoSuchVm(who.to_owned())),
        [vm] => Ok(vm),
        several => {
            let pids: Vec<_> = several.iter().map(|vm| called(vm).pid.to_string()).collect();
            Err(CommandError::Invalid(format!(
                "{} VMs are called {who:?}; say which one by its pid: {}",
                pids.len(),
                pids.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(who: &str) -> Result<u32, String> {
        let vms = [(7, "web", None), (9, "web", Some("a-b")), (11, "7", None), (13, "db", None)];
        find(who, vms.iter(), |&(pid, name, uuid)| Called { pid, name, uuid })
            .map(|&(pid, ..)| pid)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_vm_is_found_by_name_uuid_and_pid() {
        assert_eq!((look("db"), look("a-b"), look("11")), (Ok(13), Ok(9), Ok(11)));
        assert!(look("none").unwrap_err().contains("no VM named"));
    }

    #[test]
    fn a_name_that_several_have_is_refused_and_their_pids_are_said() {
        assert_eq!(
            look("web"),
            Err("2 VMs are called \"web\"; say which one by its pid: 7, 9".to_owned())
        );
    }

    #[test]
    fn nobody_takes_anothers_pid_by_a_name() {
        assert_eq!(look("7"), Ok(7));
    }
}
