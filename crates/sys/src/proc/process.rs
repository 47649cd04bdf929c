// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Properties of one process or thread that procfs shows.

use std::path::Path;

use super::{ProcError, read_bounded, read_text};

/// Longest status or stat file that is read. The kernel's files are about 1.5 KiB long.
pub(super) const STATUS_LIMIT_BYTES: u64 = 16 * 1024;
/// Longest command line that is read. A command line may be megabytes long.
const COMMAND_LINE_LIMIT_BYTES: u64 = 128 * 1024;

/// Field 22 of /proc/PID/stat: starttime.
const START_TIME_FIELD: usize = 22;

/// When the process started, in clock ticks since boot. Together with the process ID, the start
/// time identifies a process uniquely: another process that reuses the ID has another start time.
///
/// # Errors
/// [`ProcError`].
pub fn start_ticks(root: &Path, pid: u32) -> Result<u64, ProcError> {
    read_start_ticks(&root.join(pid.to_string()).join("stat"))
}

/// When a thread started, in clock ticks since boot (see [`start_ticks`]). Works with the ID of any
/// thread; the ID of its process is not needed.
///
/// # Errors
/// [`ProcError`].
pub fn thread_start_ticks(root: &Path, tid: u32) -> Result<u64, ProcError> {
    // /proc/TID also exists for threads, although /proc does not list them. /proc/TID/stat
    // describes the whole thread group, so this function reads the file in the task directory.
    let tid = tid.to_string();
    read_start_ticks(&root.join(&tid).join("task").join(&tid).join("stat"))
}

/// The threads of a process that exist while the directory is read.
///
/// # Errors
/// [`ProcError`].
pub fn threads(root: &Path, pid: u32) -> Result<impl Iterator<Item = u32> + use<>, ProcError> {
    let path = root.join(pid.to_string()).join("task");
    let entries = std::fs::read_dir(&path).map_err(|error| ProcError::io(&path, error))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

fn read_start_ticks(path: &Path) -> Result<u64, ProcError> {
    let text = read_text(path, STATUS_LIMIT_BYTES)?;
    // Field 2 is the name in parentheses. The name itself may contain spaces and parentheses.
    let bad = |value: &str| ProcError::content(path, 1, "no start time in field 22", value);
    let (_, rest) = text.rsplit_once(')').ok_or_else(|| bad(&text))?;
    let value = rest.split_ascii_whitespace().nth(START_TIME_FIELD - 3).unwrap_or("");
    value.parse().map_err(|_| bad(value))
}

/// Command name of the process (comm), without the newline.
///
/// # Errors
/// [`ProcError`].
pub fn comm(root: &Path, pid: u32) -> Result<String, ProcError> {
    let text = read_text(&root.join(pid.to_string()).join("comm"), STATUS_LIMIT_BYTES)?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Command line of the process, as its arguments.
///
/// # Errors
/// [`ProcError`].
pub fn command_line(root: &Path, pid: u32) -> Result<Vec<String>, ProcError> {
    let path = root.join(pid.to_string()).join("cmdline");
    let bytes = read_bounded(&path, COMMAND_LINE_LIMIT_BYTES)?;
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    Ok(bytes.split(|&b| b == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect())
}

/// Effective user ID of the process.
///
/// # Errors
/// [`ProcError`].
pub fn effective_uid(root: &Path, pid: u32) -> Result<u32, ProcError> {
    let path = root.join(pid.to_string()).join("status");
    let text = read_text(&path, STATUS_LIMIT_BYTES)?;
    for (n, line) in text.lines().enumerate() {
        if let Some(ids) = line.strip_prefix("Uid:") {
            let bad = || ProcError::content(&path, n + 1, "no effective user id", ids);
            return ids
                .split_ascii_whitespace()
                .nth(1)
                .and_then(|id| id.parse().ok())
                .ok_or_else(bad);
        }
    }
    Err(ProcError::content(&path, text.lines().count(), "no line Uid:", ""))
}

/// Whether the process has a KVM virtual machine open (a descriptor that links to
/// `anon_inode:kvm-vm`).
///
/// # Errors
/// [`ProcError`].
pub fn has_kvm_vm(root: &Path, pid: u32) -> Result<bool, ProcError> {
    let path = root.join(pid.to_string()).join("fd");
    let entries = std::fs::read_dir(&path).map_err(|e| ProcError::io(&path, e))?;
    // A descriptor that was closed since the directory was read does not count.
    Ok(entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|target| target == Path::new("anon_inode:kvm-vm")))
}

/// ID of the current boot. State that was recorded during another boot is not valid.
///
/// # Errors
/// [`ProcError`].
pub fn boot_id(root: &Path) -> Result<String, ProcError> {
    let text = read_text(&root.join("sys/kernel/random/boot_id"), STATUS_LIMIT_BYTES)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn fixture(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("paracord-proc-{name}-{}", std::process::id()));
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn start_time_survives_a_hostile_name() {
        let fields = "R 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 5 0 777 1000 99";
        let stat = format!("42 (CPU 0) (R 5 5) {fields}\n");
        let root = fixture(
            "stat",
            &[
                ("42/stat", stat.as_bytes()),
                ("42/task/42/stat", stat.as_bytes()),
                ("43/stat", b"43 (x) R 1"),
            ],
        );
        assert_eq!(start_ticks(&root, 42).unwrap(), 777);
        assert_eq!(thread_start_ticks(&root, 42).unwrap(), 777);
        let error = start_ticks(&root, 43).unwrap_err().to_string();
        assert!(error.contains("43/stat:1: no start time"), "{error}");
        assert!(start_ticks(&root, 44).unwrap_err().is_gone());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn identity_of_a_vm() {
        let root = fixture(
            "vm",
            &[
                ("7/comm", b"qemu-system-x86\n"),
                ("7/cmdline", b"qemu\0-name\0guest=web\0"),
                ("7/status", b"Name:\tqemu\nUid:\t1000\t64055\t64055\t64055\n"),
                ("8/cmdline", b""),
                ("8/status", b"Name:\tx\n"),
            ],
        );
        std::fs::create_dir_all(root.join("7/fd")).unwrap();
        std::os::unix::fs::symlink("/dev/kvm", root.join("7/fd/3")).unwrap();
        assert!(!has_kvm_vm(&root, 7).unwrap());
        std::os::unix::fs::symlink("anon_inode:kvm-vm", root.join("7/fd/4")).unwrap();
        assert!(has_kvm_vm(&root, 7).unwrap());
        assert_eq!(comm(&root, 7).unwrap(), "qemu-system-x86");
        assert_eq!(command_line(&root, 7).unwrap(), ["qemu", "-name", "guest=web"]);
        assert_eq!(effective_uid(&root, 7).unwrap(), 64055);
        assert!(command_line(&root, 8).unwrap().is_empty());
        assert!(effective_uid(&root, 8).is_err());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn own_thread_in_the_real_tree() {
        let (pid, tid) = std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            assert!(thread_start_ticks(Path::new("/proc"), tid).unwrap() > 0);
            (std::process::id(), tid)
        })
        .join()
        .unwrap();
        assert_ne!(pid, tid);
        assert!(!boot_id(Path::new("/proc")).unwrap().is_empty());
    }
}
