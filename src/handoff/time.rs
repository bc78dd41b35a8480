//! Moments, as the records spell them.

use std::time::{Duration, SystemTime};

use crate::cfc::time::iso_millis;

/// Now, as `2026-01-31T12:00:00.000Z`.
pub(crate) fn now() -> String {
    text(SystemTime::now())
}

/// A moment, as `2026-01-31T12:00:00.000Z`.
pub(crate) fn text(moment: SystemTime) -> String {
    iso_millis(moment)
}

/// A moment in milliseconds since the epoch, as a text.
pub(crate) fn text_of_millis(millis: u64) -> String {
    text(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}

/// A moment in milliseconds since the epoch.
pub(crate) fn millis(moment: SystemTime) -> u64 {
    let since = moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
