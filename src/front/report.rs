//! What the front says: records in runsc's log file, a line on standard error, and the result.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::refusal::Refusal;
use super::taint::Taint;
use crate::cfc::time::iso_millis;

/// runsc's log file, where one was named.
#[derive(Debug, Clone, Default)]
pub struct Log(pub Option<PathBuf>);

impl Log {
    /// Says why nothing was started: in the log, or on standard error where there is none. Standard
    /// error may be the command's, and whoever named a log reads it.
    pub fn refuse(&self, refusal: &Refusal) {
        if !self.record("error", refusal.code(), &refusal.to_string()) {
            let _ = writeln!(io::stderr(), "{refusal}");
        }
    }

    /// Says what an operator may want to know. It is no failure: the record's level says so.
    pub fn warn(&self, code: &str, message: &str) {
        self.record("warning", code, message);
    }

    /// Whether it was recorded.
    fn record(&self, level: &str, code: &str, message: &str) -> bool {
        let Some(path) = &self.0 else { return false };
        let time = iso_millis(SystemTime::now());
        let record = json!({"msg": message, "level": level, "code": code, "time": time});
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| file.write_all(record.to_string().as_bytes()));
        if let Err(err) = written {
            let _ = writeln!(io::stderr(), "{}: {err}", path.display());
            return false;
        }
        true
    }
}

/// The result, in the shape of the contract: nothing more, so that all that reads it can.
#[must_use]
pub fn result(container_id: &str, wait_status: i32, taint: &Taint) -> Vec<u8> {
    let mut cfc_taint = Map::new();
    cfc_taint.insert("string".into(), taint.to_string().into());
    cfc_taint.insert("xattrJSON".into(), Value::Object(taint.to_json()));
    let result = json!({
        "version": 1,
        "containerId": container_id,
        "sandboxId": container_id,
        "waitStatus": wait_status,
        "cfcTaint": cfc_taint,
    });
    result.to_string().into_bytes()
}

/// Writes the result, once, in one piece as far as the system does so.
///
/// # Errors
/// The reader went away or there is no room. The reader then has no result, and shows nothing.
pub fn write_result(fd: OwnedFd, bytes: &[u8]) -> io::Result<()> {
    std::fs::File::from(fd).write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfc::Policy;
    use crate::cfc::result::parse;

    #[test]
    fn a_public_result_is_this_to_the_byte() {
        let bytes = result("c-1", 0, &Taint::public());
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"version\":1,\"containerId\":\"c-1\",\"sandboxId\":\"c-1\",\"waitStatus\":0,\
             \"cfcTaint\":{\"string\":\"{conf: \u{22a4}, integ: \u{2205}}\",\"xattrJSON\":{}}}"
        );
    }

    #[test]
    fn the_drivers_own_parser_reads_both_verdicts_from_it() {
        let public = result("c", 0, &Taint::public());
        assert_eq!(parse(Ok(&public), "c").policy(), Policy::Observed);
        let labelled = result("c", 256, &Taint::of([json!("finance")]));
        let verdict = parse(Ok(&labelled), "c");
        assert_eq!(verdict.policy(), Policy::Opaque);
        assert_eq!(verdict.label().confidentiality, [json!("finance")]);
        let nobody = result("c", 0, &Taint::nobody());
        assert_eq!(parse(Ok(&nobody), "c").policy(), Policy::Opaque);
    }

    #[test]
    fn records_follow_each_other_and_only_refusals_are_failures() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log(Some(path.clone()));
        log.warn("cfc-doubt", "because");
        assert_eq!(
            crate::classify::log::RunscLog::read(&path),
            crate::classify::log::RunscLog::Clean
        );
        log.refuse(&Refusal::NoPolicy);
        let bytes = std::fs::read(&path).unwrap();
        let records: Vec<Value> = serde_json::Deserializer::from_slice(&bytes)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(records[1]["code"], "cfc-no-policy");
        assert_eq!(records[1]["level"], "error");
        assert_eq!(records.len(), 2);
    }
}
