//! When the pool boots a sandbox, and when it lets its sandboxes go.

use std::time::{Duration, Instant};

/// How long no call has come before sandboxes are booted: a burst has the cores for itself.
const QUIET: Duration = Duration::from_millis(50);
/// How long sandboxes are missing at most before they are booted although calls come.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long nothing is booted after memory was short, or after a boot that failed.
pub(super) const HELD_OFF: Duration = Duration::from_secs(10);

/// What there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub size: usize,
    pub idle_timeout: Duration,
    /// How many may boot at once.
    pub at_once: usize,
    pub ready: usize,
    pub booting: usize,
    pub last_call: Option<Instant>,
    pub missing_since: Option<Instant>,
    /// Whether somebody waits for the pool to be full.
    pub in_a_hurry: bool,
    pub held_off_until: Option<Instant>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Boot one, and look again.
    Boot,
    /// Nothing, until then or until something changes.
    Wait { until: Option<Instant> },
    /// Nothing is missing. The sandboxes are kept until nobody has called for long.
    Full,
    /// Let every ready sandbox go, and look again then or when something changes.
    Retire { until: Option<Instant> },
}

impl Next {
    /// When to look again at the latest. A full pool is looked at again as if it were to wait.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Self::Boot | Self::Full => Some(Instant::now()),
            Self::Wait { until } | Self::Retire { until } => until,
        }
    }
}

pub(super) fn next(seen: Seen, now: Instant) -> Next {
    let idle_at = seen.last_call.map(|last| last + seen.idle_timeout);
    if let Some(until) = seen.held_off_until.filter(|until| *until > now) {
        return Next::Retire { until: Some(until) };
    }
    if idle_at.is_none_or(|at| at <= now) {
        return Next::Retire { until: None };
    }
    if seen.ready + seen.booting >= seen.size {
        return if seen.missing_since.is_some() && seen.booting == 0 {
            Next::Full
        } else {
            Next::Wait { until: idle_at }
        };
    }
    if seen.booting >= seen.at_once {
        return Next::Wait { until: idle_at };
    }
    let quiet_at = seen.last_call.map(|last| last + QUIET);
    let due_at = seen.missing_since.map(|since| since + PATIENCE);
    let boot_at = quiet_at.into_iter().chain(due_at).min();
    match boot_at {
        Some(at) if at > now && !seen.in_a_hurry => Next::Wait {
            until: idle_at.into_iter().chain([at]).min(),
        },
        _ => Next::Boot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn the_pool_refills_when_it_is_quiet_and_empties_when_it_is_idle_or_memory_is_short() {
        let now = Instant::now() + Duration::from_secs(3600);
        let ago = |millis| Some(now - Duration::from_millis(millis));
        let hence = |millis| Some(now + Duration::from_millis(millis));
        let idle = |millis| Some(now + IDLE - Duration::from_millis(millis));
        let seen = Seen {
            size: 2,
            idle_timeout: IDLE,
            at_once: 1,
            ready: 0,
            booting: 0,
            last_call: ago(100),
            missing_since: ago(100),
            in_a_hurry: false,
            held_off_until: None,
        };
        let cases = [
            (
                "never called",
                Seen {
                    last_call: None,
                    ..seen
                },
                Next::Retire { until: None },
            ),
            ("quiet", seen, Next::Boot),
            (
                "a call just came",
                Seen {
                    last_call: ago(20),
                    ..seen
                },
                Next::Wait { until: hence(30) },
            ),
            (
                "calls keep coming",
                Seen {
                    last_call: ago(20),
                    missing_since: ago(1000),
                    ..seen
                },
                Next::Boot,
            ),
            (
                "a call just came, and somebody waits",
                Seen {
                    last_call: ago(20),
                    in_a_hurry: true,
                    ..seen
                },
                Next::Boot,
            ),
            (
                "as many boot as may",
                Seen { booting: 1, ..seen },
                Next::Wait { until: idle(100) },
            ),
            (
                "the last one boots",
                Seen {
                    ready: 1,
                    booting: 1,
                    ..seen
                },
                Next::Wait { until: idle(100) },
            ),
            ("just filled", Seen { ready: 2, ..seen }, Next::Full),
            (
                "full",
                Seen {
                    ready: 2,
                    missing_since: None,
                    ..seen
                },
                Next::Wait { until: idle(100) },
            ),
            (
                "idle for long",
                Seen {
                    ready: 2,
                    last_call: ago(60_000),
                    ..seen
                },
                Next::Retire { until: None },
            ),
            (
                "memory is short",
                Seen {
                    ready: 2,
                    held_off_until: hence(5000),
                    ..seen
                },
                Next::Retire { until: hence(5000) },
            ),
            (
                "memory was short",
                Seen {
                    ready: 1,
                    held_off_until: ago(1),
                    ..seen
                },
                Next::Boot,
            ),
        ];
        for (name, seen, expected) in cases {
            assert_eq!(next(seen, now), expected, "{name}");
        }
    }
}
