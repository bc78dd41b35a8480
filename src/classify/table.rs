//! What runsc's messages mean: the one place where text is matched.
//!
//! runsc has no codes: the text of its log is the only source. Every pattern is anchored at both
//! ends of the message, since what stands between them (a program's name, a path) is chosen by
//! whoever wrote the command. What the table does not know is unknown, never a guess.
//!
//! Measured with release 20240729, which is the oldest that is supported. A newer release that
//! words a failure differently makes it unknown, and gets rows of its own.

use crate::driver::StartFailure;
use StartFailure::{
    BadBundle, BadCwd, BadMount, BadRootfs, NetworkUnavailable, NoSuchCommand, NotExecutable,
};

/// A message that starts and ends like this.
struct Row {
    start: &'static str,
    end: &'static str,
    means: StartFailure,
}

const fn row(start: &'static str, end: &'static str, means: StartFailure) -> Row {
    Row { start, end, means }
}

const LOAD: &str = "running container: starting container: starting root container: starting \
                    sandbox: creating process: failed to load ";
const FIND: &str = "running container: starting container: starting root container: starting \
                    sandbox: error finding executable ";
const SUBMOUNT: &str = "running container: starting container: starting root container: starting \
                        sandbox: failed to setupFS: mounting submounts: mount submount ";
const NETWORK: &str = "running container: starting container: setting up network: ";

/// The first row that a message fits decides; the gofer's messages come before the client's,
/// which say no more than that the sandbox did not come up.
const TABLE: [Row; 14] = [
    row(FIND, ": no such file or directory", NoSuchCommand),
    row(FIND, ": permission denied", NotExecutable),
    row(LOAD, ": no such file or directory", NoSuchCommand),
    row(LOAD, ": permission denied", NotExecutable),
    row(LOAD, ": exec format error", NotExecutable),
    row(LOAD, ": not a directory", NotExecutable),
    row(LOAD, ": too many symbolic links encountered", NotExecutable),
    row(LOAD, ": file name too long", NotExecutable),
    row(
        "Error setting up root FS: mounting root on root (",
        "",
        BadRootfs,
    ),
    row(
        "Error setting up root FS: creating working directory ",
        "",
        BadCwd,
    ),
    row("error setting up FS: mounting {Destination:", "", BadMount),
    row(SUBMOUNT, "", BadMount),
    row(NETWORK, "", NetworkUnavailable),
    row("reading spec: ", "", BadBundle),
];

/// What follows the name of the command in a message of `exec`.
const EXEC: [Row; 9] = [
    row(
        "error finding executable ",
        ": no such file or directory",
        NoSuchCommand,
    ),
    row(
        "error finding executable ",
        ": permission denied",
        NotExecutable,
    ),
    row(
        "failed to load ",
        ": no such file or directory",
        NoSuchCommand,
    ),
    row("failed to load ", ": permission denied", NotExecutable),
    row("failed to load ", ": exec format error", NotExecutable),
    row("failed to load ", ": not a directory", NotExecutable),
    row(
        "failed to load ",
        ": too many symbolic links encountered",
        NotExecutable,
    ),
    row("failed to load ", ": file name too long", NotExecutable),
    row("failed to find initial working directory ", "", BadCwd),
];

/// What the messages of a failed start mean together.
#[must_use]
pub fn failure(messages: &[String]) -> StartFailure {
    messages
        .iter()
        .find_map(|message| meaning(message))
        .unwrap_or(StartFailure::Unknown)
}

/// What the control socket's refusal to start a process means.
#[must_use]
pub fn refusal(message: &str) -> StartFailure {
    first(&EXEC, message).unwrap_or(StartFailure::Unknown)
}

fn meaning(message: &str) -> Option<StartFailure> {
    match after_command(message) {
        Some(rest) => first(&EXEC, rest),
        None => first(&TABLE, message),
    }
}

fn first(table: &[Row], message: &str) -> Option<StartFailure> {
    let fits = |row: &&Row| {
        message
            .strip_prefix(row.start)
            .is_some_and(|rest| rest.ends_with(row.end))
    };
    table.iter().find(fits).map(|row| row.means)
}

/// What follows the command's name in a message of `exec`. The name is quoted as Go does it, so a
/// quote in it is escaped and cannot end it.
fn after_command(message: &str) -> Option<&str> {
    let quoted = message
        .strip_prefix("executing processes for container: executing command ")?
        .strip_prefix('"')?;
    let mut escaped = false;
    let end = quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    quoted[end + 1..].strip_prefix(" in sandbox: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_messages_of_20240729() {
        let start = "running container: starting container: starting root container: starting \
                     sandbox: ";
        let cases = [
            (
                format!("{start}error finding executable \"nosuch\" in PATH [/bin]: no such file or directory"),
                NoSuchCommand,
            ),
            (format!("{start}creating process: failed to load /bin/x: no such file or directory"), NoSuchCommand),
            (format!("{start}creating process: failed to load /etc: permission denied"), NotExecutable),
            (format!("{start}creating process: failed to load /g: exec format error"), NotExecutable),
            (format!("{start}creating process: failed to load /a/b: not a directory"), NotExecutable),
            (
                format!("{start}creating process: failed to load /l: too many symbolic links encountered"),
                NotExecutable,
            ),
            (
                "Error setting up root FS: mounting root on root (\"/proc/fs/root\") err: no such file or directory".into(),
                BadRootfs,
            ),
            (
                "Error setting up root FS: creating working directory \"/etc/passwd\": mkdir /proc/fs/root/etc/passwd: not a directory".into(),
                BadCwd,
            ),
            (
                "error setting up FS: mounting {Destination:/workspace Type:bind Source:/nonexist Options:[rbind rw] UIDMappings:[] GIDMappings:[]}: stat(\"/nonexist\") failed: stat /nonexist: no such file or directory".into(),
                BadMount,
            ),
            (
                format!("{start}failed to setupFS: mounting submounts: mount submount \"/tmp\": failed to mount \"/tmp\" (type: tmpfs): invalid argument, opts: &{{}}"),
                BadMount,
            ),
            (
                "running container: starting container: setting up network: creating interfaces from net namespace \"/proc/1/ns/net\": cannot run with network enabled in root network namespace".into(),
                NetworkUnavailable,
            ),
            (
                "reading spec: error opening spec file \"/b/config.json\": open /b/config.json: no such file or directory".into(),
                BadBundle,
            ),
        ];
        for (message, means) in cases {
            assert_eq!(failure(std::slice::from_ref(&message)), means, "{message}");
        }
    }

    #[test]
    fn measured_messages_of_exec_and_names_that_would_forge_them() {
        let message = |name: &str, rest: &str| {
            format!(
                "executing processes for container: executing command {name} in sandbox: {rest}"
            )
        };
        let cwd = "failed to find initial working directory \"/x\": no such file or directory";
        let cases = [
            (
                "\"x\"",
                "failed to load x: permission denied",
                NotExecutable,
            ),
            (
                "\"x\"",
                "failed to load x: no such file or directory",
                NoSuchCommand,
            ),
            (
                "\"x\"",
                "error finding executable \"x\" in PATH [/bin]: no such file or directory",
                NoSuchCommand,
            ),
            ("\"x\"", cwd, BadCwd),
            (
                r#""x\" in sandbox: failed to load ""#,
                "failed to load x: exec format error",
                NotExecutable,
            ),
            (
                "x",
                "failed to load x: permission denied",
                StartFailure::Unknown,
            ),
            (
                "\"x",
                "failed to load x: permission denied",
                StartFailure::Unknown,
            ),
            (
                "\"x\"",
                "something else: permission denied",
                StartFailure::Unknown,
            ),
        ];
        for (name, rest, means) in cases {
            assert_eq!(failure(&[message(name, rest)]), means, "{name} {rest}");
        }
    }

    #[test]
    fn the_first_message_that_is_known_decides() {
        let client = "running container: creating container: cannot create sandbox: cannot read \
                      client sync file: waiting for sandbox to start: EOF";
        let gofer = "error setting up FS: mounting {Destination:/w Type:bind}: failed";
        assert_eq!(failure(&[gofer.into(), client.into()]), BadMount);
        assert_eq!(failure(&[client.into()]), StartFailure::Unknown);
        assert_eq!(failure(&[]), StartFailure::Unknown);
    }

    #[test]
    fn a_programs_name_cannot_choose_its_own_row() {
        let named = format!("{LOAD}/x: exec format error: input/output error");
        assert_eq!(failure(&[named]), StartFailure::Unknown);
        let quoted = format!("something else: {LOAD}/x: permission denied");
        assert_eq!(failure(&[quoted]), StartFailure::Unknown);
        let both = format!("{LOAD}/a: permission denied/b: no such file or directory");
        assert_eq!(failure(&[both]), NoSuchCommand);
    }
}
