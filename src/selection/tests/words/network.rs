//! The network's programs.

use crate::selection::Obstacle;

use super::*;

#[test]
fn every_obstacle_of_a_network() {
    check([
        (
            default(Linux, Obstacle::NoPasta, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             pasta gives it the sandbox network, egress and host.docker.internal, and no entry \
             of PATH holds pasta; install passt, or take a network that needs no pasta, setpriv \
             or unshare: --network none or --network host, or \
             CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, Obstacle::NoPasta, false),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             pasta gives it the sandbox network, egress and host.docker.internal, and no entry \
             of PATH holds pasta; install passt, or take a network that needs no pasta, setpriv \
             or unshare: CF_HARNESS_DOCKER_NETWORK_MODE=none or \
             CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, Obstacle::NoSetpriv, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             no entry of PATH holds setpriv, without which a container outlives a pasta that is \
             stopped; install util-linux, or take a network that needs no pasta, setpriv or \
             unshare: --network none or --network host, or CF_HARNESS_DOCKER_NETWORK_MODE=none \
             or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, Obstacle::NoSetpriv, false),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             no entry of PATH holds setpriv, without which a container outlives a pasta that is \
             stopped; install util-linux, or take a network that needs no pasta, setpriv or \
             unshare: CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, Obstacle::NoUnshare, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             no entry of PATH holds unshare, without which root's pasta mounts its /proc over \
             the host's; install util-linux, or take a network that needs no pasta, setpriv or \
             unshare: --network none or --network host, or CF_HARNESS_DOCKER_NETWORK_MODE=none \
             or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
        (
            default(Linux, Obstacle::NoUnshare, false),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             no entry of PATH holds unshare, without which root's pasta mounts its /proc over \
             the host's; install util-linux, or take a network that needs no pasta, setpriv or \
             unshare: CF_HARNESS_DOCKER_NETWORK_MODE=none or CF_HARNESS_DOCKER_NETWORK_MODE=host",
        ),
    ]);
}
