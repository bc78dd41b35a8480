//! runsc's state directory, looked at without asking runsc.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The files that runsc has of a container. An attached run that ended cleanly left none.
pub(crate) fn files(state_dir: &Path, id: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(state_dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains(id))
        .map(|entry| entry.path())
        .collect()
}

/// The pids that a container's state file names: its gofer's and its sandbox's.
pub(crate) fn pids(state_dir: &Path, id: &str) -> BTreeSet<u32> {
    files(state_dir, id)
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "state")
        })
        .filter_map(|path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok())
        .flat_map(|state| [state["goferPid"].as_u64(), state["sandbox"]["pid"].as_u64()])
        .flatten()
        .filter_map(|pid| u32::try_from(pid).ok())
        .filter(|pid| *pid > 1)
        .collect()
}

/// The processes below one, as the kernel has them now.
pub(crate) fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pending = vec![pid];
    while let Some(pid) = pending.pop() {
        let fresh = children(pid)
            .into_iter()
            .filter(|child| found.insert(*child));
        pending.extend(fresh.collect::<Vec<_>>());
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_the_container_and_the_pids_in_its_state_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            use std::io::Write;
            fs::File::create(dir.path().join(name))
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        put(
            "c-a-1_sandbox:c-a-1.state",
            r#"{"goferPid":41,"sandbox":{"pid":42,"cid":"x"}}"#,
        );
        put("c-a-1_sandbox:c-a-1.lock", "");
        put("runsc-c-a-1.sock", "");
        put(
            "c-a-2_sandbox:c-a-2.state",
            r#"{"goferPid":0,"sandbox":null}"#,
        );
        put("c-a-3_sandbox:c-a-3.state", "{broken");
        assert_eq!(files(dir.path(), "c-a-1").len(), 3);
        assert_eq!(pids(dir.path(), "c-a-1"), BTreeSet::from([41, 42]));
        assert_eq!(pids(dir.path(), "c-a-2"), BTreeSet::new());
        assert_eq!(pids(dir.path(), "c-a-3"), BTreeSet::new());
        assert_eq!(files(&dir.path().join("none"), "c"), Vec::<PathBuf>::new());
    }
}
