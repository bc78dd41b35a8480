//! The object that `run --dry-run` prints (bundles/schemas/plan-v1.schema.json).

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::plan::{Plan, RUNSC_ENV};

/// Prints a plan.
pub(super) fn print(mut to: impl Write, plan: &Plan) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, &value(plan))?;
    to.write_all(b"\n")
}

fn value(plan: &Plan) -> Value {
    let bytes = |text: &dyn AsRef<OsStr>| bytes(text.as_ref());
    json!({
        "schema": "runsc-driver/plan/v1",
        "containerId": plan.id.as_str(),
        "program": bytes(&plan.command.program),
        "args": plan.command.args.iter().map(|arg| bytes(arg)).collect::<Vec<_>>(),
        "env": RUNSC_ENV.map(|(name, value)| format!("{name}={value}")),
        "userNamespace": plan.user_namespace.map(|map| json!({ "uid": map.uid, "gid": map.gid })),
        "network": plan.network.as_ref().map(|network| json!({
            "program": network.beside.as_ref().map(|pasta| bytes(&pasta.program)),
            "args": network
                .beside
                .iter()
                .flat_map(|pasta| pasta.args.iter().map(|arg| bytes(arg)))
                .collect::<Vec<_>>(),
            "userNamespace": network
                .user_namespace
                .map(|map| json!({ "uid": map.uid, "gid": map.gid })),
            "egress": network.egress.to_string(),
            "resolvers": network.resolvers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "overlay": plan.overlay.as_ref().map(|overlay| json!({
            "lower": bytes(&overlay.lower),
            "merged": bytes(&overlay.merged),
            "missing": overlay.missing.iter().map(|path| bytes(path)).collect::<Vec<_>>(),
        })),
        "links": plan.links.iter().map(|link| json!({
            "at": bytes(&link.at),
            "target": bytes(&link.target),
        })).collect::<Vec<_>>(),
        "readOnly": plan.read_only.iter().map(|bound| json!({
            "source": bytes(&bound.source),
            "at": bytes(&bound.at),
        })).collect::<Vec<_>>(),
        "context": plan.context.as_ref().map(|context| {
            serde_json::from_slice::<Value>(context).unwrap_or(Value::Null)
        }),
        "bundle": bytes(&plan.bundle_dir),
        "config": serde_json::from_slice::<Value>(&plan.config_json).unwrap_or(Value::Null),
    })
}

/// Text, or an object with base64 for what is none.
fn bytes(text: &OsStr) -> Value {
    match text.to_str() {
        Some(text) => text.into(),
        None => json!({ "base64": STANDARD.encode(text.as_bytes()) }),
    }
}
