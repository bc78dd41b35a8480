//! pasta around runsc, as the seed has it.
//!
//! Outermost first: `unshare` (root's, since newer pastas mount a `/proc`), pasta, `setpriv` (which
//! ties what follows to pasta's life), a shell, and runsc. pasta hands on the standard streams and
//! no other descriptor that could be relied on, so the shell opens the others by name in the call's
//! private directory: the command's standard error, which pasta's own words are kept out of so, the
//! context and the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{LOG, fixed};
use crate::config::network::{Pasta, Wrapping};
use crate::plan::CommandLine;

/// What runs the script.
pub(crate) const SHELL: &str = "/bin/sh";

/// `$1` is `mount`, `$2` the directory of [`Meeting`], and the rest runsc's command line.
///
/// A write to a driver that is gone ends it: pasta may have ended before the death signal was set.
/// Not every pasta mounts a `/proc` of its PID namespace; runsc looks its children up there. One
/// byte on the command's standard error says that the namespace is there, and the driver answers
/// once its rules are loaded. The last line is what runsc came to: pasta's own status is 0 where it
/// was asked to end.
const SCRIPT: &str = r#"echo >&2 || exit
mount=$1 meeting=$2
shift 2
"$mount" -t proc proc /proc || exit
exec 2>"$meeting/stderr"
echo >&2
read -r _ <"$meeting/go" || exit
if [ -e "$meeting/context" ]; then
    "$@" 3<"$meeting/context" 4>"$meeting/result"
else
    "$@"
fi
echo $? >"$meeting/status"
"#;

/// Where the driver and the shell meet: a directory of the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting(PathBuf);

impl Meeting {
    /// In a bundle.
    pub(crate) fn new(bundle_dir: &Path) -> Self {
        Self(bundle_dir.join("wrap"))
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// runsc's `--root`, of this call's alone: the pids in it are those of a PID namespace.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.0.join("state")
    }

    /// A pipe by name: the command's standard error, with one byte of the shell's before it.
    #[must_use]
    pub fn stderr(&self) -> PathBuf {
        self.0.join("stderr")
    }

    /// A pipe by name, on which the shell waits for a line.
    #[must_use]
    pub fn go(&self) -> PathBuf {
        self.0.join("go")
    }

    /// The file of the context, where there is one.
    #[must_use]
    pub fn context(&self) -> PathBuf {
        self.0.join("context")
    }

    /// The file of the result.
    #[must_use]
    pub fn result(&self) -> PathBuf {
        self.0.join("result")
    }

    /// The file of runsc's exit status, as the shell has it: a number and a newline.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.0.join("status")
    }
}

/// Puts pasta around runsc.
pub(crate) fn around(
    pasta: &Pasta,
    wrapping: &Wrapping,
    bundle_dir: &Path,
    meeting: &Meeting,
    runsc: CommandLine,
) -> CommandLine {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(unshare) = &wrapping.unshare {
        words.push(unshare.into());
        words.extend(["--mount", "--propagation", "private", "--"].map(OsString::from));
    }
    words.push((&pasta.pasta).into());
    words.extend(fixed(&bundle_dir.join(LOG)));
    words.push("--".into());
    words.push((&wrapping.setpriv).into());
    words.extend(["--pdeathsig", "KILL", SHELL, "-c", SCRIPT, "sh"].map(OsString::from));
    words.extend([
        (&wrapping.mount).into(),
        meeting.dir().into(),
        runsc.program.into(),
    ]);
    words.extend(runsc.args);
    let program = words.remove(0);
    CommandLine {
        program: program.into(),
        args: words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Egress;

    fn wrapped(unshare: Option<&str>) -> Vec<String> {
        let pasta = Pasta {
            pasta: "/usr/bin/pasta".into(),
            nft: None,
            egress: Egress::All,
            sessions: false,
            wrapping: None,
        };
        let wrapping = Wrapping {
            setpriv: "/usr/bin/setpriv".into(),
            mount: "/usr/bin/mount".into(),
            unshare: unshare.map(PathBuf::from),
        };
        let runsc = CommandLine {
            program: "/opt/runsc".into(),
            args: vec!["run".into(), "c-1".into()],
        };
        let bundle = Path::new("/t/c-1");
        let line = around(&pasta, &wrapping, bundle, &Meeting::new(bundle), runsc);
        let words = std::iter::once(line.program.into_os_string()).chain(line.args);
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn pasta_is_around_a_shell_around_runsc() {
        let inner = [
            "/usr/bin/pasta --config-net --quiet -4 -a 10.0.2.15 -n 24 -g 10.0.2.2 -t none -u none \
             -T none -U none --log-file /t/c-1/pasta.log --netns-only --runas 0 -- \
             /usr/bin/setpriv --pdeathsig KILL /bin/sh -c",
            SCRIPT,
            "sh /usr/bin/mount /t/c-1/wrap /opt/runsc run c-1",
        ]
        .join(" ");
        assert_eq!(wrapped(None).join(" "), inner);
        let roots = format!("/usr/bin/unshare --mount --propagation private -- {inner}");
        assert_eq!(wrapped(Some("/usr/bin/unshare")).join(" "), roots);
    }
}
