//! Tools for a model, over any driver.

pub mod bash;
pub(crate) mod cwd;
mod operator;
mod trim;
