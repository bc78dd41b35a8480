//! The store and what is named beside it.

use nix::errno::Errno;

use crate::selection::store::{Fault, LINUX_PIECES, MACOS_PIECES};
use crate::selection::{Obstacle, Reason};
use crate::settings::POLICY;

use super::*;

#[test]
fn every_obstacle_of_a_store() {
    check([
        (
            default(Linux, Obstacle::EmptyRootfs, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             --sandbox-rootfs is empty, so it names no rootfs, and this default runs only from \
             one; leave it out to take the store's image, or name a rootfs with --sandbox-rootfs \
             or CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            default(MacOs, Obstacle::EmptyRootfs, true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             --sandbox-rootfs is empty, so it names no rootfs, and this default runs only from \
             one; leave it out to take the store's image, or name a rootfs with --sandbox-rootfs \
             or CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            default(
                Linux,
                Obstacle::PolicyUnreadable {
                    path: "/p".into(),
                    reason: Reason(Errno::EACCES),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the default CFC policy /p could not be read (Permission denied); make it readable, \
             or name a CFC policy with --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            default(
                Linux,
                Obstacle::PolicyUnreadable {
                    path: "/p".into(),
                    reason: Reason(Errno::EACCES),
                },
                false,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the default CFC policy /p could not be read (Permission denied); make it readable, \
             or name a CFC policy with CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            named(
                Obstacle::PolicyUnreadable {
                    path: "/p".into(),
                    reason: Reason(Errno::EACCES),
                },
                true,
            ),
            "the default CFC policy /p could not be read (Permission denied); make it readable, \
             or name a CFC policy with --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            named(
                Obstacle::PolicyUnreadable {
                    path: "/p".into(),
                    reason: Reason(Errno::EACCES),
                },
                false,
            ),
            "the default CFC policy /p could not be read (Permission denied); make it readable, \
             or name a CFC policy with CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            default(Linux, nothing_in(&LINUX_PIECES), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc is missing; images/kitchensink is \
             missing; a CFC policy is missing, looked for at /home/p.json and /store/p.json; set \
             it up there with gVisor's Linux installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY, a rootfs with \
             --sandbox-rootfs or CF_HARNESS_SANDBOX_ROOTFS, a CFC policy with \
             --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY (an empty --sandbox-cfc-policy \
             runs without one, in a mode that does not enforce)",
        ),
        (
            default(Linux, nothing_in(&LINUX_PIECES), false),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc is missing; images/kitchensink is \
             missing; a CFC policy is missing, looked for at /home/p.json and /store/p.json; set \
             it up there with gVisor's Linux installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY, a rootfs with \
             CF_HARNESS_SANDBOX_ROOTFS, a CFC policy with CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            default(MacOs, nothing_in(&MACOS_PIECES), true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store at /store is not set up: bin/runsc is missing; bin/cfc-vm is missing; \
             config.json is missing; images/kitchensink is missing; ext4/kitchensink.ext4 is \
             missing; a CFC policy is missing, looked for at /home/p.json and /store/p.json; set \
             it up there with gVisor's macOS installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY, a rootfs with \
             --sandbox-rootfs or CF_HARNESS_SANDBOX_ROOTFS, a CFC policy with \
             --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY (an empty --sandbox-cfc-policy \
             runs without one, in a mode that does not enforce)",
        ),
        (
            default(MacOs, nothing_in(&MACOS_PIECES), false),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store at /store is not set up: bin/runsc is missing; bin/cfc-vm is missing; \
             config.json is missing; images/kitchensink is missing; ext4/kitchensink.ext4 is \
             missing; a CFC policy is missing, looked for at /home/p.json and /store/p.json; set \
             it up there with gVisor's macOS installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY, a rootfs with \
             CF_HARNESS_SANDBOX_ROOTFS, a CFC policy with CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (
            default(Linux, lacks(LINUX_PIECES[0], Fault::NotThat), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc is not an executable file; set it up \
             there with gVisor's Linux installer; what can be named in place of the store's: a \
             runsc binary with CF_HARNESS_RUNSC_BINARY",
        ),
        (
            default(MacOs, lacks(MACOS_PIECES[2], Fault::NotThat), true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store at /store is not set up: config.json is not a file; set it up there with \
             gVisor's macOS installer",
        ),
        (
            default(Linux, lacks(LINUX_PIECES[1], Fault::NotThat), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: images/kitchensink is not a directory; set it up \
             there with gVisor's Linux installer; what can be named in place of the store's: a \
             rootfs with --sandbox-rootfs or CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            default(
                Linux,
                lacks(LINUX_PIECES[0], Fault::Unexaminable(Reason(Errno::ELOOP))),
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc could not be examined (Too many \
             symbolic links encountered); set it up there with gVisor's Linux installer; what \
             can be named in place of the store's: a runsc binary with CF_HARNESS_RUNSC_BINARY",
        ),
        (
            default(
                Linux,
                lacks(LINUX_PIECES[0], Fault::Unreadable(Reason(Errno::EACCES))),
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc could not be read (Permission denied); \
             set it up there with gVisor's Linux installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY",
        ),
        (
            default(Linux, lacks(LINUX_PIECES[0], Fault::NotExecutable), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store at /store is not set up: bin/runsc is not executable by this process; set \
             it up there with gVisor's Linux installer; what can be named in place of the \
             store's: a runsc binary with CF_HARNESS_RUNSC_BINARY",
        ),
        (
            default(
                MacOs,
                lacks(
                    MACOS_PIECES[4],
                    Fault::Link {
                        link: "/vm/ext4".into(),
                        target: "/far".into(),
                    },
                ),
                true,
            ),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store at /store is not set up: ext4/kitchensink.ext4 is reached through a \
             symbolic link, /vm/ext4 to /far; set it up there with gVisor's macOS installer; \
             what can be named in place of the store's: a rootfs with --sandbox-rootfs or \
             CF_HARNESS_SANDBOX_ROOTFS; a piece and the directories over it must be in the store \
             themselves",
        ),
        (
            default(
                Linux,
                Obstacle::NoWorkingDirectory {
                    setting: POLICY,
                    value: "p.json".into(),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the CFC policy \"p.json\" is relative, and there is no working directory; name it \
             by its absolute path",
        ),
        (
            named(
                Obstacle::NoWorkingDirectory {
                    setting: POLICY,
                    value: "p.json".into(),
                },
                true,
            ),
            "the CFC policy \"p.json\" is relative, and there is no working directory; name it \
             by its absolute path",
        ),
    ]);
}
