//! A runtime that was named, entrypoints without a default, and the floor.

use crate::selection::{Obstacle, Refusal, Selection};

mod linux;
mod macos;
mod which;
mod whole;

fn refused(obstacle: Obstacle) -> Result<Selection, Refusal> {
    Err(Refusal::Named {
        obstacle,
        takes_flags: true,
    })
}
