//! The store and its pieces.

use nix::errno::Errno;

use super::*;
use crate::host::Platform;
use crate::selection::store::Fault;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{Obstacle, Reason, Refusal};
use crate::settings::RUNTIME;

#[test]
fn the_store() {
    let cases: &[Case] = &[
        (
            "no home",
            |m| m.host.home = None,
            |m| m.refused(Obstacle::NoHome),
        ),
        (
            "a relative home",
            |m| m.host.home = Some("home".into()),
            |m| {
                m.refused(Obstacle::HomeRelative {
                    home: "home".into(),
                })
            },
        ),
        (
            "nothing there: everything in one refusal",
            |m| m.remove(m.home()),
            |m| {
                let missing = |at| piece(at, Fault::Missing);
                not_set_up(m, vec![missing(0), missing(1), no_policy(m)])
            },
        ),
        (
            "no runsc",
            |m| m.remove(m.store().join("bin/runsc")),
            |m| not_set_up(m, vec![piece(0, Fault::Missing)]),
        ),
        (
            "a runsc that nobody may execute",
            |m| {
                m.remove(m.store().join("bin/runsc"));
                m.file(m.store().join("bin/runsc"), 0o644);
            },
            |m| not_set_up(m, vec![piece(0, Fault::NotThat)]),
        ),
        (
            "a runsc that its owner alone may execute",
            |m| {
                m.remove(m.store().join("bin/runsc"));
                m.file(m.store().join("bin/runsc"), 0o700);
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "a directory for runsc",
            |m| {
                m.remove(m.store().join("bin/runsc"));
                m.directory(m.store().join("bin/runsc"));
            },
            |m| not_set_up(m, vec![piece(0, Fault::NotThat)]),
        ),
        (
            "a file for bin",
            |m| {
                m.remove(m.store().join("bin"));
                m.file(m.store().join("bin"), 0o755);
            },
            |m| {
                let reason = Reason(Errno::ENOTDIR);
                not_set_up(m, vec![piece(0, Fault::Unexaminable(reason))])
            },
        ),
        (
            "a loop of links for runsc",
            |m| {
                m.remove(m.store().join("bin/runsc"));
                m.link(m.store().join("bin/runsc"), "runsc");
            },
            |m| {
                let reason = Reason(Errno::ELOOP);
                not_set_up(m, vec![piece(0, Fault::Unexaminable(reason))])
            },
        ),
        (
            "a runsc that this process cannot read",
            |m| m.look.unreadable.push(m.store().join("bin/runsc")),
            |m| {
                let reason = Reason(Errno::EACCES);
                not_set_up(m, vec![piece(0, Fault::Unreadable(reason))])
            },
        ),
        (
            "a runsc that this process cannot execute",
            |m| m.look.unexecutable.push(m.store().join("bin/runsc")),
            |m| not_set_up(m, vec![piece(0, Fault::NotExecutable)]),
        ),
        (
            "no image",
            |m| m.remove(m.store().join("images/kitchensink")),
            |m| not_set_up(m, vec![piece(1, Fault::Missing)]),
        ),
        (
            "a file for the image",
            |m| {
                m.remove(m.store().join("images/kitchensink"));
                m.file(m.store().join("images/kitchensink"), 0o644);
            },
            |m| not_set_up(m, vec![piece(1, Fault::NotThat)]),
        ),
        (
            "an image that cannot be examined",
            |m| {
                m.look
                    .unexaminable
                    .push(m.store().join("images/kitchensink"))
            },
            |m| {
                let reason = Reason(Errno::EACCES);
                not_set_up(m, vec![piece(1, Fault::Unexaminable(reason))])
            },
        ),
        (
            "pieces behind links",
            |m| m.move_behind_link(m.store().join("bin")),
            |m| Ok(m.default_selection()),
        ),
        (
            "a link to nothing for the image",
            |m| {
                m.remove(m.store().join("images"));
                m.link(m.store().join("images"), "/nowhere");
            },
            |m| not_set_up(m, vec![piece(1, Fault::Missing)]),
        ),
        (
            "a store behind a link, its path taken as given",
            |m| m.move_behind_link(m.store()),
            |m| Ok(m.default_selection()),
        ),
        (
            "a home behind a link",
            |m| m.move_behind_link(m.home()),
            |m| Ok(m.default_selection()),
        ),
        (
            "CFC_VM_HOME and the processor are macOS's alone",
            |m| {
                m.set("CFC_VM_HOME", "relative");
                m.host.arch = "riscv64".to_owned();
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "an empty runtime variable is nothing named",
            |m| m.set(RUNTIME.variable, "  "),
            |m| Ok(m.default_selection()),
        ),
        (
            "another platform has no default, whatever its home holds",
            |m| m.host.platform = Platform::Other("freebsd".to_owned()),
            |_| {
                Err(Refusal::NoNativeRuntime {
                    platform: "freebsd".to_owned(),
                })
            },
        ),
    ];
    for case in cases {
        check(Machine::linux(1000), *case);
    }
}
