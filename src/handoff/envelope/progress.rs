//! `wp-codebox/run-plan-progress/v1`: where a run's children are, for a person or a screen.
//!
//! It is advice. What is true is in the envelope and in the caller's own record.

use serde_json::{Map, Value, json};

/// A snapshot of what events and a result say; the result has the last word. `total` is how many
/// children there may be: one that was never asked for is none that is waited for.
#[must_use]
pub fn progress(
    events: &[Value],
    result: Option<&Value>,
    time: &str,
    refs: Map<String, Value>,
) -> Value {
    let mut workers: Vec<(String, Map<String, Value>)> = Vec::new();
    let mut over = false;
    for event in events {
        let name = event["event"].as_str().unwrap_or_default();
        over |= matches!(name, "fanout.completed" | "fanout.failed");
        let Some(id) = event["worker_id"].as_str() else {
            continue;
        };
        let status = event["status"]
            .as_str()
            .map_or_else(|| word_of(name), known);
        let time = event["time"].clone();
        let worker = worker(&mut workers, id);
        worker.insert("status".into(), status.into());
        worker.insert("lastEvent".into(), name.into());
        let moment = if name == "worker.started" {
            "startedAt"
        } else {
            "completedAt"
        };
        worker.insert(moment.into(), time);
    }
    let results = result.and_then(|result| result["workerResultRefs"].as_array());
    for of in results.map(Vec::as_slice).unwrap_or_default() {
        if let Some(id) = of["workerId"].as_str() {
            let status = known(of["status"].as_str().unwrap_or_default());
            worker(&mut workers, id).insert("status".into(), status.into());
        }
    }
    over |= result.is_some();
    let count = |status: &str| {
        let of = |(_, worker): &&(String, Map<String, Value>)| worker["status"] == status;
        workers.iter().filter(of).count()
    };
    let unsettled = count("queued") + count("running");
    let status = if unsettled > 0 || !over {
        "running"
    } else {
        ["timed_out", "cancelled", "failed", "skipped"]
            .into_iter()
            .find(|status| count(status) > 0)
            .unwrap_or("succeeded")
    };
    let mut snapshot = json!({
        "schema": "wp-codebox/run-plan-progress/v1",
        "time": time,
        "status": status,
        "active": count("running"),
        "counts": {
            "total": workers.len(),
            "completed": count("succeeded"),
            "failed": count("failed"),
            "skipped": count("skipped"),
            "cancelled": count("cancelled"),
            "timed_out": count("timed_out"),
        },
        "workers": workers.into_iter().map(|(_, worker)| Value::Object(worker)).collect::<Vec<_>>(),
    });
    if let Value::Object(members) = &mut snapshot {
        members.extend(refs);
    }
    snapshot
}

fn worker<'a>(
    workers: &'a mut Vec<(String, Map<String, Value>)>,
    id: &str,
) -> &'a mut Map<String, Value> {
    let at = workers
        .iter()
        .position(|(known, _)| known == id)
        .unwrap_or_else(|| {
            let mut worker = Map::new();
            worker.insert("id".into(), id.into());
            worker.insert("status".into(), "queued".into());
            workers.push((id.to_owned(), worker));
            workers.len() - 1
        });
    &mut workers[at].1
}

fn word_of(event: &str) -> &'static str {
    match event {
        "worker.started" => "running",
        "worker.completed" => "succeeded",
        "worker.skipped" => "skipped",
        "worker.failed" => "failed",
        _ => "queued",
    }
}

fn known(status: &str) -> &'static str {
    [
        "queued",
        "running",
        "succeeded",
        "skipped",
        "cancelled",
        "timed_out",
    ]
    .into_iter()
    .find(|known| *known == status)
    .unwrap_or("failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::contract::Contract;

    fn event(name: &str, id: &str, status: &str) -> Value {
        json!({"event": name, "worker_id": id, "status": status, "time": "t"})
    }

    fn overall(events: &[Value], result: Option<&Value>) -> Value {
        let snapshot = progress(events, result, "now", Map::new());
        Contract::Progress.check(&snapshot).unwrap();
        snapshot
    }

    #[test]
    fn results_win_over_events_and_the_worst_word_over_the_others() {
        let started = event("worker.started", "a", "running");
        let failed = event("worker.failed", "a", "failed");
        let late = event("worker.failed", "b", "timed_out");
        let done = event("worker.completed", "c", "succeeded");
        let end = json!({"event": "fanout.completed"});
        let result =
            |status: &str| json!({"workerResultRefs": [{"workerId": "a", "status": status}]});
        let rows: Vec<(Vec<Value>, Option<Value>, &str)> = vec![
            (vec![], None, "running"),
            (vec![end.clone()], None, "succeeded"),
            (vec![started.clone()], None, "running"),
            (vec![started.clone(), end.clone()], None, "running"),
            (
                vec![started.clone()],
                Some(result("succeeded")),
                "succeeded",
            ),
            (
                vec![started.clone(), failed.clone(), end.clone()],
                None,
                "failed",
            ),
            (vec![failed.clone()], Some(result("cancelled")), "cancelled"),
            (vec![failed, late, done, end], None, "timed_out"),
            (vec![], Some(result("odd")), "failed"),
        ];
        for (events, result, expected) in rows {
            assert_eq!(
                overall(&events, result.as_ref())["status"],
                expected,
                "{events:?} {result:?}"
            );
        }
        let snapshot = overall(&[started], None);
        assert_eq!(snapshot["active"], 1);
        assert_eq!(
            snapshot["workers"],
            json!([{"id": "a", "status": "running", "lastEvent": "worker.started", "startedAt": "t"}])
        );
    }
}
