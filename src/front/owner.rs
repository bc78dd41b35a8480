//! Who a registration is of, and when: what tells a live container from a killed one, and what
//! changed since its start from what is older.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::trust::scratch::owner::start_time_of;

/// A process, told from all others of this host since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Which start of the host.
    pub boot: String,
    /// Its pid, in its namespace.
    pub pid: u32,
    /// When it was started, in the kernel's ticks.
    pub start: u64,
    /// The namespace of its pid.
    pub namespace: String,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn this() -> io::Result<Self> {
        Ok(Self {
            boot: boot()?,
            pid: std::process::id(),
            start: start_time_of(std::process::id())
                .ok_or_else(|| io::Error::other("/proc/self/stat tells no start"))?,
            namespace: namespace()?,
        })
    }

    /// Whether it could only have been a process of this start of the host, in this namespace.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn is_seen_from_here(&self) -> io::Result<bool> {
        Ok(self.boot == boot()? && self.namespace == namespace()?)
    }

    /// Whether this host was started anew since.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn is_of_another_boot(&self) -> io::Result<bool> {
        Ok(self.boot != boot()?)
    }
}

fn boot() -> io::Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

fn namespace() -> io::Result<String> {
    let link = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(link.to_string_lossy().into_owned())
}

/// A point in time, on the two clocks that have to agree for file times to be compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Since 1970, as files have it.
    wall: Duration,
    /// Since the host's start.
    up: Duration,
}

/// Files are dated by a clock that ticks, and a look takes a moment.
const BEFORE: Duration = Duration::from_secs(1);
/// By how much the two clocks may have gone apart.
const APART: Duration = Duration::from_millis(500);

impl Moment {
    /// Now.
    ///
    /// # Errors
    /// There is no `/proc`, or it is before 1970.
    pub fn now() -> io::Result<Self> {
        let up = std::fs::read_to_string("/proc/uptime")?;
        let up = up.split_whitespace().next().and_then(|up| up.parse().ok());
        let up: f64 = up.ok_or_else(|| io::Error::other("/proc/uptime tells no time"))?;
        Ok(Self {
            wall: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_err(io::Error::other)?,
            up: Duration::try_from_secs_f64(up).map_err(io::Error::other)?,
        })
    }

    /// The time of a file from which on it may have changed since, where that can be told: not
    /// where somebody has set the clock.
    #[must_use]
    pub fn since(self, now: Self) -> Option<(i64, u64)> {
        let then = self.wall.checked_sub(self.up)?;
        let apart = then.abs_diff(now.wall.checked_sub(now.up)?);
        if apart > APART {
            return None;
        }
        let from = self.wall.checked_sub(BEFORE)?;
        Some((from.as_secs() as i64, from.subsec_nanos().into()))
    }
}

/// The processes of a container, by their command lines, which zombies have none of: the front
/// and runsc name its id, and so does the sandbox; the gofer names the bundle alone.
#[must_use]
pub fn processes_of(container: &str, bundle: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            is_of(&line, container.as_bytes(), bundle.as_os_str().as_bytes())
        })
        .collect()
}

fn is_of(line: &[u8], container: &[u8], bundle: &[u8]) -> bool {
    let arguments = || line.split(|byte| *byte == 0);
    let of_container = arguments().any(|argument| argument == container);
    let starts = arguments().any(|argument| matches!(argument, b"run" | b"boot"));
    let gofer = line.starts_with(b"runsc-gofer\0");
    match bundle_of(line) {
        Some(named) => named == bundle && (of_container || gofer),
        // A relative one, or the working directory.
        None => of_container && starts,
    }
}

/// The absolute path of the bundle that a command line names, where it does.
fn bundle_of(line: &[u8]) -> Option<&[u8]> {
    let mut arguments = line.split(|byte| *byte == 0);
    let named = arguments.find_map(|argument| match argument {
        b"--bundle" | b"-bundle" | b"-b" => Some(None),
        _ => argument
            .strip_prefix(b"--bundle=")
            .or_else(|| argument.strip_prefix(b"-bundle="))
            .map(Some),
    })?;
    let path = match named {
        Some(path) => path,
        None => arguments.next()?,
    };
    path.starts_with(b"/").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_told() {
        let this = Owner::this().unwrap();
        assert_eq!(this, Owner::this().unwrap());
        assert!(this.is_seen_from_here().unwrap());
        let other = Owner {
            boot: "another".into(),
            ..this
        };
        assert!(!other.is_seen_from_here().unwrap() && other.is_of_another_boot().unwrap());
    }

    #[test]
    fn a_containers_processes_are_told_by_their_command_lines() {
        let rows: [(&str, bool); 10] = [
            ("runsc-gvisor --root /s run --bundle /b c1 ", true),
            ("runsc-gvisor run c1 ", true),
            ("runsc-gvisor run -bundle=b c1 ", true),
            // Another's container may have the same name.
            ("runsc-gvisor --root /z run --bundle /z c1 ", false),
            (
                "runsc-sandbox --root=/z boot --bundle=/z --spec-fd=8 c1 ",
                false,
            ),
            (
                "runsc-sandbox --root=/s boot --bundle=/b --spec-fd=8 c1 ",
                true,
            ),
            ("runsc-gofer --root=/s gofer --bundle=/b --io-fds=5 ", true),
            (
                "runsc-gofer --root=/s gofer --bundle=/b2 --io-fds=5 ",
                false,
            ),
            (
                "runsc-sandbox --root=/s boot --bundle=/b --spec-fd=8 c12 ",
                false,
            ),
            ("runsc state c1 ", false),
        ];
        for (line, expected) in rows {
            let bytes = line.replace(' ', "\0").into_bytes();
            assert_eq!(is_of(&bytes, b"c1", b"/b"), expected, "{line}");
        }
    }

    #[test]
    fn a_clock_that_was_set_tells_nothing() {
        let at = |wall, up| Moment {
            wall: Duration::from_millis(wall),
            up: Duration::from_millis(up),
        };
        let start = at(1_000_000, 5000);
        assert_eq!(start.since(at(1_060_000, 65_000)), Some((999, 0)));
        assert_eq!(start.since(at(1_060_100, 65_000)), Some((999, 0)));
        assert_eq!(start.since(at(1_061_000, 65_000)), None);
        assert_eq!(start.since(at(1_000_000, 65_000)), None);
    }
}
