// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's symbols. The search functions take the content of /proc/kallsyms as an argument, so
//! that a caller reads it only once: the kernel needs about 50 ms to generate it.

use std::fs;

/// The content of /proc/kallsyms; empty if it cannot be read.
pub(crate) fn read() -> String {
    fs::read_to_string("/proc/kallsyms").unwrap_or_default()
}

/// Whether the kernel or a module has this function.
pub(crate) fn has_function(symbols: &str, name: &str) -> bool {
    find(symbols, name).any(|(_, kind)| matches!(kind, 't' | 'T'))
}

/// Address of a variable of the kernel. `None` if there is no such variable, or if this process may
/// not see addresses (`kernel.kptr_restrict`).
pub(crate) fn address_of(symbols: &str, name: &str) -> Option<u64> {
    find(symbols, name)
        .filter(|(_, kind)| !matches!(kind, 't' | 'T'))
        .map(|(address, _)| address)
        .find(|&address| address != 0)
}

/// Address and kind of each symbol of this name. A line is "address kind name", optionally followed
/// by a tab and the module.
fn find<'a>(symbols: &'a str, name: &str) -> impl Iterator<Item = (u64, char)> + use<'a> {
    let wanted = format!(" {name}");
    let length = wanted.len();
    let places: Vec<usize> = symbols.match_indices(&wanted).map(|(at, _)| at).collect();
    places.into_iter().filter_map(move |at| {
        if !matches!(symbols[at + length..].chars().next(), None | Some('\n' | '\t')) {
            return None;
        }
        let line = symbols[..at].rsplit('\n').next()?;
        let (address, kind) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, kind.chars().next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000010 T __kvm_vcpu_kick\t[kvm]\n\
                           ffffffff81000020 d kvm_vcpu_kick\n\
                           ffffffff81000030 T kvm_vcpu_kick_other\n\
                           0000000000000000 B hidden\n\
                           ffffffff82000040 B arch_scale_freq_key";

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert!(has_function(SYMBOLS, "__kvm_vcpu_kick"));
        assert!(!has_function(SYMBOLS, "kvm_vcpu_kick"));
        assert!(!has_function(SYMBOLS, "kvm_vcpu_kick_othe"));
        assert!(!has_function("", "kvm_vcpu_kick"));
    }

    #[test]
    fn a_variable_has_an_address_unless_it_is_hidden() {
        assert_eq!(address_of(SYMBOLS, "arch_scale_freq_key"), Some(0xffff_ffff_8200_0040));
        assert_eq!(address_of(SYMBOLS, "hidden"), None);
        assert_eq!(address_of(SYMBOLS, "__kvm_vcpu_kick"), None);
    }
}
