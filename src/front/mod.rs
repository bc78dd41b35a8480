//! `runsc-cfc`: a front for the stock `runsc` that keeps the CFC contract, conservatively and at
//! the granularity of a container. What a container *could* read, it is taken to have read.
//!
//! docs/labels.md has the rules, the argument for each, and what they do not cover.

pub mod pattern;
pub mod policy;
pub mod taint;
