//! The user and the kernel's parameters.

use crate::selection::linux::PARAMETERS;
use crate::selection::{NamespaceNeed, Obstacle};

use super::*;

#[test]
fn every_obstacle_of_a_user() {
    check([
        (
            default(
                Linux,
                Obstacle::UserUnknown {
                    need: NamespaceNeed::Runsc,
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the user id of this process cannot be told, and whether runsc runs rootless depends \
             on it; run it where the user id can be read",
        ),
        (
            default(
                Linux,
                Obstacle::UserUnknown {
                    need: NamespaceNeed::Pasta,
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the user id of this process cannot be told, and how pasta makes the network depends \
             on it; run it where the user id can be read, or take a network that needs no pasta, \
             setpriv or unshare: --network none or --network host, or \
             CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(
                Linux,
                Obstacle::UserUnknown {
                    need: NamespaceNeed::Pasta,
                },
                false,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the user id of this process cannot be told, and how pasta makes the network depends \
             on it; run it where the user id can be read, or take a network that needs no pasta, \
             setpriv or unshare: CF_HARNESS_DOCKER_NETWORK_MODE=none or \
             CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Runsc, 0), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so runsc would run rootless, in a user namespace of its own, \
             and user.max_user_namespaces is 0: nobody can make a user namespace; run `sudo \
             sysctl -w user.max_user_namespaces=15000` (a file in /etc/sysctl.d keeps it), or \
             run as root",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Runsc, 1), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so runsc would run rootless, in a user namespace of its own, \
             and kernel.unprivileged_userns_clone is 0: only root can make a user namespace; run \
             `sudo sysctl -w kernel.unprivileged_userns_clone=1` (a file in /etc/sysctl.d keeps \
             it), or run as root",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Runsc, 2), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so runsc would run rootless, in a user namespace of its own, \
             and kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor lets no unconfined \
             user make a user namespace; run `sudo sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0` (a file in /etc/sysctl.d keeps it), \
             or run as root",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Pasta, 0), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so pasta would make the network, in a user namespace of its \
             own, and user.max_user_namespaces is 0: nobody can make a user namespace; run `sudo \
             sysctl -w user.max_user_namespaces=15000` (a file in /etc/sysctl.d keeps it), or \
             run as root, or take a network that needs no pasta, setpriv or unshare: --network \
             none or --network host, or CF_HARNESS_DOCKER_NETWORK_MODE=none or \
             CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Pasta, 0), false),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so pasta would make the network, in a user namespace of its \
             own, and user.max_user_namespaces is 0: nobody can make a user namespace; run `sudo \
             sysctl -w user.max_user_namespaces=15000` (a file in /etc/sysctl.d keeps it), or \
             run as root, or take a network that needs no pasta, setpriv or unshare: \
             CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Pasta, 1), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so pasta would make the network, in a user namespace of its \
             own, and kernel.unprivileged_userns_clone is 0: only root can make a user \
             namespace; run `sudo sysctl -w kernel.unprivileged_userns_clone=1` (a file in \
             /etc/sysctl.d keeps it), or run as root, or take a network that needs no pasta, \
             setpriv or unshare: --network none or --network host, or \
             CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, forbidden(NamespaceNeed::Pasta, 2), true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so pasta would make the network, in a user namespace of its \
             own, and kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor lets no \
             unconfined user make a user namespace; run `sudo sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0` (a file in /etc/sysctl.d keeps it), \
             or run as root, or take a network that needs no pasta, setpriv or unshare: \
             --network none or --network host, or CF_HARNESS_DOCKER_NETWORK_MODE=none or \
             CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(
                Linux,
                Obstacle::NamespaceUnknown {
                    uid: 1000,
                    need: NamespaceNeed::Runsc,
                    parameter: PARAMETERS[2],
                    reason: "denied".to_owned(),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so runsc would run rootless, in a user namespace of its own, \
             and kernel.apparmor_restrict_unprivileged_userns could not be read (denied); make \
             /proc/sys/kernel/apparmor_restrict_unprivileged_userns readable, or run as root",
        ),
        (
            default(
                Linux,
                Obstacle::NamespaceUnknown {
                    uid: 1000,
                    need: NamespaceNeed::Pasta,
                    parameter: PARAMETERS[2],
                    reason: "denied".to_owned(),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             user 1000 is not root, so pasta would make the network, in a user namespace of its \
             own, and kernel.apparmor_restrict_unprivileged_userns could not be read (denied); \
             make /proc/sys/kernel/apparmor_restrict_unprivileged_userns readable, or run as \
             root, or take a network that needs no pasta, setpriv or unshare: --network none or \
             --network host, or CF_HARNESS_DOCKER_NETWORK_MODE=none or \
             CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
    ]);
}
