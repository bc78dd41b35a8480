//! No bytes on the result descriptor make the parser panic, or release what a second reading of
//! the rules withholds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runsc_driver::cfc::result::{Policy, parse};

#[path = "../oracle.rs"]
mod oracle;

/// As in the seeds.
const CONTAINER: &str = "c-run-1";

fuzz_target!(|bytes: &[u8]| {
    let verdict = parse(Ok(bytes), CONTAINER);
    let observed = verdict.policy() == Policy::Observed;
    match oracle::reading(bytes, CONTAINER) {
        oracle::Reading::Public => assert!(observed, "withheld what is public: {verdict:?}"),
        oracle::Reading::NotPublic => assert!(!observed, "released what is not: {verdict:?}"),
        oracle::Reading::PublicUnlessANumberIsTooLarge => {}
    }
    assert_eq!(observed && !verdict.label().is_empty(), false);
});
