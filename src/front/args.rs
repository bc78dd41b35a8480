//! The command line, read as runsc's Go flags are: far enough to find what is the front's own.
//!
//! Whatever is not the front's goes on to the stock runsc as it stands. Which flags take their
//! value from the next argument has to be known to find the subcommand; one that is not known is
//! taken to be a switch where a subcommand follows it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A command line, taken apart.
#[derive(Debug, Default)]
pub struct Args {
    /// Whether labels are to be kept: `--cfc`.
    pub cfc: bool,
    /// `--cfc-policy`.
    pub policy: Option<PathBuf>,
    /// `--cfc-ignore-labels`: run without a policy over what has labels.
    pub ignore_labels: bool,
    /// `--cfc-wait`: how long to wait for containers beside this one.
    pub wait: Option<Duration>,
    /// `--cfc-walk-limit`: how many entries a look may see.
    pub walk_limit: Option<u64>,
    /// The stock runsc's global flags.
    pub globals: Vec<Flag>,
    /// The subcommand and what follows it, where there is one.
    pub command: Option<Command>,
    /// What the stock runsc is given.
    pub stock: Vec<OsString>,
    /// Whether a flag of the front's own was among the arguments.
    pub own: bool,
}

/// A flag without its dashes, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Such as `network`.
    pub name: Vec<u8>,
    /// None for a switch.
    pub value: Option<OsString>,
}

/// A subcommand.
#[derive(Debug)]
pub struct Command {
    /// Such as `run`.
    pub name: Vec<u8>,
    /// Its flags, where it is `run` or `exec`.
    pub flags: Vec<Flag>,
    /// `--cfc-invocation-context-fd`.
    pub context_fd: Option<i32>,
    /// `--cfc-result-fd`.
    pub result_fd: Option<i32>,
    /// What follows the flags.
    pub operands: Vec<OsString>,
}

/// A command line that says nothing the front could act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// A flag of the front has no value, or not one of its kind.
    #[error("--{flag} needs {expected}")]
    Value {
        /// Which flag.
        flag: &'static str,
        /// What it takes.
        expected: &'static str,
    },
}

/// Global flags that take their value from the next argument where they have no `=`.
const GLOBALS_WITH_VALUE: &[&str] = &[
    "EXPERIMENTAL-xdp",
    "TESTONLY-autosave-image-path",
    "TESTONLY-test-name-env",
    "coverage-fd",
    "coverage-report",
    "dcache",
    "debug-command",
    "debug-log",
    "debug-log-fd",
    "debug-log-format",
    "fdlimit",
    "file-access",
    "file-access-mounts",
    "host-fifo",
    "host-uds",
    "log",
    "log-fd",
    "log-format",
    "metric-server",
    "network",
    "network-processors-per-channel",
    "num-network-channels",
    "nvproxy-allowed-driver-capabilities",
    "nvproxy-driver-version",
    "overlay2",
    "panic-log",
    "panic-log-fd",
    "panic-signal",
    "pcap-log",
    "platform",
    "platform_device_path",
    "pod-init-config",
    "profile-block",
    "profile-cpu",
    "profile-heap",
    "profile-mutex",
    "profiling-metrics",
    "profiling-metrics-log",
    "profiling-metrics-rate-us",
    "qdisc",
    "ref-leak-mode",
    "root",
    "save-fd",
    "strace-log-size",
    "strace-syscalls",
    "trace",
    "traceback",
    "watchdog-action",
];

/// The same of `run` and `exec`.
const COMMAND_FLAGS_WITH_VALUE: &[&str] = &[
    "additional-gids",
    "bundle",
    "cap",
    "console-socket",
    "cwd",
    "env",
    "exec-fd",
    "fs-restore-image-path",
    "internal-pid-file",
    "pass-fd",
    "pid-file",
    "process",
    "user",
    "user-log",
];

/// Subcommands, as far as they matter for telling one from a flag's value.
const COMMANDS: &[&str] = &[
    "boot",
    "checkpoint",
    "create",
    "debug",
    "delete",
    "do",
    "events",
    "exec",
    "flags",
    "gofer",
    "help",
    "kill",
    "label",
    "list",
    "pause",
    "ps",
    "restore",
    "resume",
    "run",
    "spec",
    "start",
    "state",
    "tar",
    "wait",
];

impl Args {
    /// Takes arguments apart, the program's name left out.
    ///
    /// # Errors
    /// [`ArgsError`].
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, ArgsError> {
        let mut reader = Reader {
            args: args.into_iter().collect::<Vec<_>>().into(),
            stock: Vec::new(),
        };
        let mut parsed = Self::default();
        while let Some(token) = reader.flag() {
            if let Some(name) = token.name.strip_prefix(b"cfc") {
                parsed.own = true;
                parsed.own_global(&mut reader, name, token.value)?;
                continue;
            }
            let takes_next = GLOBALS_WITH_VALUE.contains(&text(&token.name))
                || (token.value.is_none()
                    && !COMMANDS.contains(&text_of(reader.peek()))
                    && is_unknown_with_value(&token, &reader));
            parsed.globals.push(reader.keep(token, takes_next));
        }
        if let Some(name) = reader.args.pop_front() {
            reader.stock.push(name.clone());
            parsed.command = Some(command(name.into_vec(), &mut reader, parsed.cfc)?);
        }
        reader.stock.extend(reader.args);
        parsed.stock = reader.stock;
        Ok(parsed)
    }

    fn own_global(
        &mut self,
        reader: &mut Reader,
        name: &[u8],
        value: Option<OsString>,
    ) -> Result<(), ArgsError> {
        let mut needed = |flag, expected| {
            value
                .clone()
                .or_else(|| reader.args.pop_front())
                .ok_or(ArgsError::Value { flag, expected })
        };
        match name {
            b"" => self.cfc = is_on(value.as_deref(), "cfc")?,
            b"-ignore-labels" => {
                self.ignore_labels = is_on(value.as_deref(), "cfc-ignore-labels")?;
            }
            b"-policy" => self.policy = Some(needed("cfc-policy", "a path")?.into()),
            b"-wait" => {
                let seconds = number(&needed("cfc-wait", SECONDS)?, "cfc-wait", SECONDS)?;
                self.wait = Some(Duration::from_secs(seconds));
            }
            b"-walk-limit" => {
                let limit = needed("cfc-walk-limit", ENTRIES)?;
                self.walk_limit = Some(number(&limit, "cfc-walk-limit", ENTRIES)?);
            }
            _ => {
                return Err(ArgsError::Value {
                    flag: "cfc…",
                    expected: "to be one of --cfc, --cfc-policy, --cfc-ignore-labels, --cfc-wait, \
                               --cfc-walk-limit",
                });
            }
        }
        Ok(())
    }

    /// The last value of a global flag; empty for a switch.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<&OsStr> {
        last(&self.globals, name)
    }
}

impl Command {
    /// The last value of a flag; empty for a switch.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&OsStr> {
        last(&self.flags, name)
    }
}

/// Whether a switch is on, as Go reads one.
#[must_use]
pub fn is_true(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| {
        matches!(
            value.as_bytes(),
            b"" | b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True"
        )
    })
}

/// A path as it is for this process.
#[must_use]
pub fn absolute(path: &OsStr, cwd: &Path) -> PathBuf {
    cwd.join(path)
}

const SECONDS: &str = "a whole number of seconds";
const ENTRIES: &str = "a whole number of entries";

fn last<'a>(flags: &'a [Flag], name: &str) -> Option<&'a OsStr> {
    let flag = flags.iter().rev().find(|flag| text(&flag.name) == name)?;
    Some(flag.value.as_deref().unwrap_or(OsStr::new("")))
}

fn is_on(value: Option<&OsStr>, flag: &'static str) -> Result<bool, ArgsError> {
    match value.map(OsStr::as_bytes) {
        None | Some(b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True") => Ok(true),
        Some(b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False") => Ok(false),
        Some(_) => Err(ArgsError::Value {
            flag,
            expected: "true or false",
        }),
    }
}

fn number<T: std::str::FromStr>(
    value: &OsStr,
    flag: &'static str,
    expected: &'static str,
) -> Result<T, ArgsError> {
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or(ArgsError::Value { flag, expected })
}

fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

fn text_of(argument: Option<&OsString>) -> &str {
    argument.and_then(|text| text.to_str()).unwrap_or_default()
}

/// A flag that is not known, before something that is neither a flag nor a subcommand while a
/// subcommand comes later: then that is its value.
fn is_unknown_with_value(token: &Flag, reader: &Reader) -> bool {
    let known_switch = KNOWN_SWITCHES.contains(&text(&token.name));
    let next_is_flag = reader
        .peek()
        .is_none_or(|next| next.as_bytes().starts_with(b"-"));
    !known_switch
        && !next_is_flag
        && reader
            .args
            .iter()
            .skip(1)
            .any(|later| COMMANDS.contains(&text_of(Some(later))))
}

const KNOWN_SWITCHES: &[&str] = &[
    "alsologtostderr",
    "debug",
    "directfs",
    "ignore-cgroups",
    "rootless",
    "strace",
    "systemd-cgroup",
    "version",
];

fn command(name: Vec<u8>, reader: &mut Reader, cfc: bool) -> Result<Command, ArgsError> {
    let mut command = Command {
        name,
        flags: Vec::new(),
        context_fd: None,
        result_fd: None,
        operands: Vec::new(),
    };
    if !matches!(command.name.as_slice(), b"run" | b"exec") {
        command.operands = reader.args.iter().cloned().collect();
        return Ok(command);
    }
    while let Some(token) = reader.flag() {
        let own = match token.name.as_slice() {
            b"cfc-invocation-context-fd" => Some("cfc-invocation-context-fd"),
            b"cfc-result-fd" => Some("cfc-result-fd"),
            _ => None,
        };
        // Without `--cfc` they are nothing of ours: a runsc that keeps no labels refuses them.
        if let Some(flag) = own.filter(|_| cfc) {
            const EXPECTED: &str = "a descriptor's number";
            let value = token.value.or_else(|| reader.args.pop_front());
            let value = value.ok_or(ArgsError::Value {
                flag,
                expected: EXPECTED,
            })?;
            let fd = Some(number(&value, flag, EXPECTED)?);
            if flag == "cfc-result-fd" {
                command.result_fd = fd;
            } else {
                command.context_fd = fd;
            }
            continue;
        }
        let takes_next = COMMAND_FLAGS_WITH_VALUE.contains(&text(&token.name));
        command.flags.push(reader.keep(token, takes_next));
    }
    command.operands = reader.args.iter().cloned().collect();
    Ok(command)
}

struct Reader {
    args: std::collections::VecDeque<OsString>,
    /// What was read and is not the front's.
    stock: Vec<OsString>,
}

impl Reader {
    fn peek(&self) -> Option<&OsString> {
        self.args.front()
    }

    /// Takes a flag off; none where an operand follows.
    fn flag(&mut self) -> Option<Flag> {
        let bytes = self.peek()?.as_bytes();
        let dashes = bytes.iter().take(2).take_while(|b| **b == b'-').count();
        if dashes == 0 || bytes == b"-" {
            return None;
        }
        let token = self.args.pop_front()?.into_vec();
        if token == b"--" {
            // It ends the flags; Go's reader takes it off too.
            self.stock.push(OsString::from_vec(token));
            return None;
        }
        let body = &token[dashes..];
        Some(match body.iter().position(|byte| *byte == b'=') {
            Some(at) => Flag {
                name: body[..at].to_vec(),
                value: Some(OsStr::from_bytes(&body[at + 1..]).to_owned()),
            },
            None => Flag {
                name: body.to_vec(),
                value: None,
            },
        })
    }

    /// Hands a flag on to the stock runsc.
    fn keep(&mut self, mut flag: Flag, takes_next: bool) -> Flag {
        let mut token = OsString::from("--");
        token.push(OsStr::from_bytes(&flag.name));
        match &flag.value {
            Some(value) => {
                token.push("=");
                token.push(value);
                self.stock.push(token);
            }
            None => {
                self.stock.push(token);
                if takes_next {
                    flag.value = self.args.pop_front();
                    self.stock.extend(flag.value.clone());
                }
            }
        }
        flag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Args {
        Args::parse(line.split(' ').map(OsString::from)).unwrap()
    }

    fn stock(args: &Args) -> String {
        let stock: Vec<_> = args.stock.iter().map(|arg| arg.to_str().unwrap()).collect();
        stock.join(" ")
    }

    #[test]
    fn the_drivers_line_is_taken_apart_and_the_rest_goes_on() {
        let args = parse(
            "--root /s --ignore-cgroups --network=none --overlay2=root:memory --cfc --cfc-policy \
             /p --rootless --log=/l run --cfc-invocation-context-fd 3 --cfc-result-fd 4 --bundle \
             /b c-1",
        );
        assert!(args.cfc && args.own);
        assert_eq!(args.policy.as_deref(), Some(Path::new("/p")));
        assert_eq!(args.global("network"), Some(OsStr::new("none")));
        assert_eq!(args.global("root"), Some(OsStr::new("/s")));
        assert!(is_true(args.global("rootless")) && !is_true(args.global("debug")));
        let command = args.command.as_ref().unwrap();
        assert_eq!((command.context_fd, command.result_fd), (Some(3), Some(4)));
        assert_eq!(command.flag("bundle"), Some(OsStr::new("/b")));
        assert_eq!(command.operands, ["c-1"]);
        assert_eq!(
            stock(&args),
            "--root /s --ignore-cgroups --network=none --overlay2=root:memory --rootless --log=/l \
             run --bundle /b c-1"
        );
    }

    #[test]
    fn a_commands_own_arguments_are_left_alone() {
        let args = parse("-cfc -cfc-policy=/p exec --cwd / --env A=--cfc s1 sh --cfc-result-fd 4");
        let command = args.command.as_ref().unwrap();
        assert_eq!(command.result_fd, None);
        assert_eq!(command.operands, ["s1", "sh", "--cfc-result-fd", "4"]);
        assert_eq!(
            stock(&args),
            "exec --cwd / --env A=--cfc s1 sh --cfc-result-fd 4"
        );
    }

    #[test]
    fn without_cfc_the_descriptors_are_the_stock_runscs() {
        let args = parse("run --cfc-result-fd 4 --bundle /b c");
        assert!(!args.cfc && !args.own);
        assert_eq!(stock(&args), "run --cfc-result-fd 4 --bundle /b c");
        assert!(!parse("--cfc=false state c").cfc);
    }

    #[test]
    fn flags_that_are_not_known_do_not_hide_the_subcommand() {
        for line in [
            "--new-switch run --bundle /b c",
            "--new-flag value run --bundle /b c",
            "--new-flag=value run --bundle /b c",
            "--debug run --bundle /b c",
            "-- run --bundle /b c",
        ] {
            let args = parse(line);
            assert_eq!(args.command.unwrap().name, b"run", "{line}");
        }
        assert!(parse("--version").command.is_none());
    }

    #[test]
    fn what_the_front_cannot_act_on_is_refused() {
        for line in [
            "--cfc-policy",
            "--cfc=maybe run c",
            "--cfc-wait soon run c",
            "--cfc-what run c",
            "--cfc run --cfc-result-fd four c",
            "--cfc run --cfc-result-fd",
        ] {
            let args = line.split(' ').map(OsString::from);
            assert!(Args::parse(args).is_err(), "{line}");
        }
    }
}
