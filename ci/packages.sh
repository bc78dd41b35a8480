# shellcheck shell=bash
# The Debian packages that the gVisor tests need. To be sourced, not run.
# shellcheck disable=SC2034 # read by the scripts that source this file
TEST_PACKAGES=(mmdebstrap uidmap passt nftables util-linux procps)
