//! `wp-codebox/agent-fanout-result/v1`: what became of a step's children.

use serde_json::{Value, json};

use crate::handoff::broker::{Launches, Worker};
use crate::handoff::correlation::Correlation;

/// The result of a step's launches. `result_ref` says where a child's own result is kept.
#[must_use]
pub fn fanout_result(
    launches: &Launches,
    correlation: &Correlation,
    concurrency: usize,
    result_ref: impl Fn(&Worker) -> Option<String>,
) -> Value {
    let count = |status: &str| {
        let of = |worker: &&Worker| worker.status == status;
        launches.workers.iter().filter(of).count()
    };
    let refs: Vec<_> = launches
        .workers
        .iter()
        .map(|worker| {
            let mut value = json!({
                "workerId": worker.child,
                "status": worker.status,
                "required": false,
                "artifactRefs": [],
            });
            if let Some(path) = result_ref(worker) {
                value["resultRef"] = path.into();
            }
            if let Some((code, message)) = &worker.error {
                value["error"] = json!({ "code": code, "message": message });
            }
            value
        })
        .collect();
    let mut result = json!({
        "schema": "wp-codebox/agent-fanout-result/v1",
        // The children are the script's to judge; the fanout itself went through.
        "success": true,
        "status": "completed",
        "concurrency": concurrency.max(1),
        "workerResultRefs": refs,
        "counts": {
            "total": launches.workers.len(),
            "completed": count("succeeded"),
            "failed": count("failed"),
            "skipped": count("skipped"),
            "cancelled": count("cancelled"),
            "timed_out": count("timed_out"),
            "refused": launches.refusals.values().sum::<u64>(),
        },
    });
    correlation.add_to(&mut result);
    result
}
