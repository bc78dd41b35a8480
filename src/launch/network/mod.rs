//! A container's network: brought up before its runsc is started, tied to it, and taken down
//! after it.

mod error;

#[cfg(target_os = "linux")]
mod apart;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod ports;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod route;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod wrap;

pub use error::{NetworkError, NftFor};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(target_os = "linux")]
pub(crate) use {
    apart::keeps_apart,
    reach::find as find_reach,
    up::Network,
    wrap::{Behind, Gate},
};
