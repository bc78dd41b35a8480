//! The front on real gVisor.
