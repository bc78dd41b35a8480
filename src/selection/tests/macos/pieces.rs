//! The store's pieces.

use nix::errno::Errno;

use super::*;
use crate::selection::store::{Fault, MACOS_PIECES};
use crate::selection::tests::support::Machine;
use crate::selection::{Obstacle, Reason, Selection};
use crate::settings::{BINARY, Entrypoint, POLICY, ROOTFS};

#[test]
fn each_piece_gone_or_another_thing() {
    for (at, piece) in MACOS_PIECES.iter().enumerate() {
        let machine = Machine::macos();
        let path = machine.store().join(piece.path);
        machine.remove(&path);
        let missing = lacks(&machine, at, Fault::Missing);
        assert_eq!(machine.select(&Entrypoint::BATCH), missing);
        match at {
            IMAGE => machine.file(&path, 0o644),
            _ => machine.directory(&path),
        }
        let not_that = lacks(&machine, at, Fault::NotThat);
        assert_eq!(machine.select(&Entrypoint::BATCH), not_that);
    }
}

#[test]
fn the_pieces() {
    run(&[
        (
            "nothing there: everything in one refusal",
            |m| m.remove(m.home()),
            |m| {
                let missing = (SHIM..=BLOCK_IMAGE).map(|at| piece(at, Fault::Missing));
                not_set_up(m, missing.chain([no_policy(m)]).collect())
            },
        ),
        (
            "a shim that nobody may execute",
            |m| {
                m.remove(m.store().join("bin/runsc"));
                m.file(m.store().join("bin/runsc"), 0o644);
            },
            |m| lacks(m, SHIM, Fault::NotThat),
        ),
        (
            "a shim that this process cannot execute",
            |m| m.look.unexecutable.push(m.store().join("bin/runsc")),
            |m| lacks(m, SHIM, Fault::NotExecutable),
        ),
        (
            "a daemon that this process cannot execute",
            |m| m.look.unexecutable.push(m.store().join("bin/cfc-vm")),
            |m| lacks(m, DAEMON, Fault::NotExecutable),
        ),
        (
            "a daemon that this process cannot read",
            |m| m.look.unreadable.push(m.store().join("bin/cfc-vm")),
            |m| lacks(m, DAEMON, Fault::Unreadable(Reason(Errno::EACCES))),
        ),
        (
            "a configuration that this process cannot read",
            |m| m.look.unreadable.push(m.store().join("config.json")),
            |m| lacks(m, CONFIG, Fault::Unreadable(Reason(Errno::EACCES))),
        ),
        (
            "a block image that this process cannot read",
            |m| {
                m.look
                    .unreadable
                    .push(m.store().join("ext4/kitchensink.ext4"))
            },
            |m| lacks(m, BLOCK_IMAGE, Fault::Unreadable(Reason(Errno::EACCES))),
        ),
        (
            "an image that cannot be examined",
            |m| m.look.unexaminable.push(m.store().join("images")),
            |m| lacks(m, IMAGE, Fault::Unexaminable(Reason(Errno::EACCES))),
        ),
        (
            "a file for bin",
            |m| {
                m.remove(m.store().join("bin"));
                m.file(m.store().join("bin"), 0o755);
            },
            |m| {
                let fault = || Fault::Unexaminable(Reason(Errno::ENOTDIR));
                not_set_up(m, vec![piece(SHIM, fault()), piece(DAEMON, fault())])
            },
        ),
        (
            "a link for the shim",
            |m| m.move_behind_link(m.store().join("bin/runsc")),
            |m| lacks(m, SHIM, link(m, "bin/runsc", "moved")),
        ),
        (
            "a link for the configuration, to nothing",
            |m| {
                m.remove(m.store().join("config.json"));
                m.link(m.store().join("config.json"), m.root().join("none"));
            },
            |m| lacks(m, CONFIG, link(m, "config.json", "none")),
        ),
        (
            "a link for the image",
            |m| m.move_behind_link(m.store().join("images/kitchensink")),
            |m| lacks(m, IMAGE, link(m, "images/kitchensink", "moved")),
        ),
        (
            "a link for bin, in the way of two pieces",
            |m| m.move_behind_link(m.store().join("bin")),
            |m| {
                let fault = || link(m, "bin", "moved");
                not_set_up(m, vec![piece(SHIM, fault()), piece(DAEMON, fault())])
            },
        ),
        (
            "a link for images",
            |m| m.move_behind_link(m.store().join("images")),
            |m| lacks(m, IMAGE, link(m, "images", "moved")),
        ),
        (
            "a link for ext4, beside a missing daemon",
            |m| {
                m.move_behind_link(m.store().join("ext4"));
                m.remove(m.store().join("bin/cfc-vm"));
            },
            |m| {
                let fault = link(m, "ext4", "moved");
                not_set_up(
                    m,
                    vec![piece(DAEMON, Fault::Missing), piece(BLOCK_IMAGE, fault)],
                )
            },
        ),
        (
            "a link within the store is a link too",
            |m| {
                let store = m.store();
                std::fs::rename(store.join("ext4"), store.join("real")).unwrap();
                m.link(store.join("ext4"), "real");
            },
            |m| {
                let fault = Fault::Link {
                    link: m.store().join("ext4"),
                    target: "real".into(),
                };
                lacks(m, BLOCK_IMAGE, fault)
            },
        ),
        (
            "a named binary leaves the shim and the daemon unneeded",
            |m| {
                m.set(BINARY.variable, "/my/runsc");
                m.remove(m.store().join("bin"));
            },
            |m| {
                Ok(Selection {
                    runsc: "/my/runsc".into(),
                    ..m.default_selection()
                })
            },
        ),
        (
            "a named rootfs leaves both images unneeded, links too",
            |m| {
                m.set(ROOTFS.variable, "/image");
                m.move_behind_link(m.store().join("images"));
                m.remove(m.store().join("ext4"));
            },
            |m| {
                Ok(Selection {
                    rootfs: "/image".into(),
                    ..m.default_selection()
                })
            },
        ),
        (
            "the configuration is always needed",
            |m| {
                m.set(BINARY.variable, "/my/runsc");
                m.set(ROOTFS.variable, "/image");
                m.set(POLICY.variable, "/policy");
                m.remove(m.store().join("config.json"));
            },
            |m| lacks(m, CONFIG, Fault::Missing),
        ),
        (
            "an empty rootfs flag",
            |m| m.flags.sandbox_rootfs = Some("".into()),
            |m| m.refused(Obstacle::EmptyRootfs),
        ),
        (
            "an empty rootfs variable names none",
            |m| m.set(ROOTFS.variable, " "),
            |m| Ok(m.default_selection()),
        ),
    ]);
}
