//! No bytes of a caller's make the context's reader panic, and what it takes it takes again, as it
//! was and with labels merged in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runsc_driver::cfc::{EnforcementMode, InvocationContext, LabelRoot, LabelView};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut context) = InvocationContext::parse(bytes) else {
        return;
    };
    assert_eq!(context.to_bytes(), bytes);
    let view = LabelView::of(LabelRoot::Command, vec!["finance".into()]).unwrap();
    context.merge_labels(&view);
    context.set_mode(EnforcementMode::Observe);
    let again = InvocationContext::parse(&context.to_bytes()).unwrap();
    assert_eq!(again.mode(), EnforcementMode::Observe);
    assert_eq!(again.labels(), context.labels());
});
