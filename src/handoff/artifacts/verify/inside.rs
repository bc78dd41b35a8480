//! What the files of a bundle say of each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::manifest::{Manifest, digest_of};
use super::{Found, ViolationCode as Code, hash, path_violation, read, url};
use crate::cfc::json as strict;
use crate::handoff::beneath::Tree;
use crate::handoff::digest::Sha256Hex;

const REVIEW: &str = "files/review.json";

/// A bundle whose manifest looks like one.
pub(super) struct Bundle<'a> {
    pub tree: &'a Tree,
    pub manifest: &'a Manifest,
    pub listed: &'a BTreeSet<String>,
}

impl Bundle<'_> {
    /// What the metadata refers to is listed.
    pub(super) fn metadata(&self, found: &mut Found) {
        let Some(metadata) = self.json("metadata.json") else {
            return;
        };
        let Some(artifacts) = metadata["artifacts"].as_object() else {
            return;
        };
        for (key, value) in artifacts {
            let field = format!("metadata.artifacts.{key}");
            for reference in references(value) {
                self.reference(reference, &field, found);
            }
        }
    }

    /// A review is of these contents.
    pub(super) fn review(&self, found: &mut Found) {
        let Some(review) = self.json(REVIEW) else {
            return;
        };
        let evidence = &review["evidence"];
        if !evidence.is_object() {
            return found.add(
                Code::MalformedReference,
                REVIEW,
                Some(REVIEW),
                "the review has no evidence",
            );
        }
        let field = |name: &str| format!("{REVIEW}:evidence.{name}");
        let mismatch = |name: &str, found: &mut Found| {
            found.add(
                Code::ReviewEvidenceMismatch,
                field(name),
                Some(REVIEW),
                "the review is of other contents",
            );
        };
        if let Some(digest) = evidence["artifactContentDigest"].as_str()
            && digest != self.manifest.digest()
        {
            mismatch("artifactContentDigest", found);
        }
        if let Some(patch) = evidence["patch"].as_str() {
            self.reference(patch, &field("patch"), found);
            if let Some(expected) = evidence["patchSha256"].as_str()
                && self.hash(patch).as_ref().map(Sha256Hex::as_str) != Some(expected)
            {
                mismatch("patchSha256", found);
            }
        }
        if let Some(changed) = evidence["changedFiles"].as_str() {
            self.reference(changed, &field("changedFiles"), found);
            self.changed_files(changed, &review, found);
        }
        for name in [
            "runtimeEpisodeTrace",
            "runtimeReferenceManifest",
            "runtimeReplayReferenceIndex",
        ] {
            if let Some(reference) = evidence[name].as_str() {
                self.reference(reference, &field(name), found);
            }
        }
    }

    fn changed_files(&self, path: &str, review: &Value, found: &mut Found) {
        let Some(changed) = self.json(path) else {
            return found.add(
                Code::ReviewEvidenceMismatch,
                format!("{REVIEW}:evidence.changedFiles"),
                Some(path),
                "the changed files cannot be read",
            );
        };
        let (Some(listed), Some(reviewed)) = (
            changed["files"].as_array(),
            review["changedFiles"].as_array(),
        ) else {
            return;
        };
        let key = |file: &Value| {
            file.is_object()
                .then(|| (file["path"].clone(), file["status"].clone()))
        };
        let listed: Vec<_> = listed.iter().filter_map(key).collect();
        for file in reviewed.iter().filter_map(key) {
            if !listed.contains(&file) {
                found.add(
                    Code::ReviewEvidenceMismatch,
                    format!("{REVIEW}:changedFiles"),
                    Some(REVIEW),
                    "the review names a file that was not changed",
                );
            }
        }
    }

    /// Typed artifacts are listed, and their payloads are what their schemas say.
    pub(super) fn typed_artifacts(&self, found: &mut Found) {
        for path in self.of_kind("typed-artifacts-index") {
            let index = self.json(path);
            let artifacts = index
                .as_ref()
                .filter(|index| index["schema"] == "wp-codebox/typed-artifacts-index/v1")
                .and_then(|index| index["artifacts"].as_array());
            let Some(artifacts) = artifacts else {
                found.add(
                    Code::MalformedReference,
                    path,
                    Some(path),
                    "the index of typed artifacts is none",
                );
                continue;
            };
            for (at, artifact) in artifacts.iter().enumerate() {
                let field = format!("{path}:artifacts[{at}]");
                let Some(file) = artifact["artifact"]["path"].as_str() else {
                    found.add(
                        Code::MalformedReference,
                        field,
                        Some(path),
                        "a typed artifact names no file",
                    );
                    continue;
                };
                self.reference(file, &format!("{field}.artifact.path"), found);
                if let Some(expected) = artifact["artifact"]["sha256"].as_str() {
                    self.compare(file, expected, &format!("{field}.artifact.sha256"), found);
                }
                payload(artifact, &field, path, found);
            }
        }
    }

    /// The files of a transcript's calls are listed.
    pub(super) fn tool_calls(&self, found: &mut Found) {
        for path in self.of_kind("tool-call-transcript") {
            let transcript = self.json(path).unwrap_or_default();
            let calls = transcript["tool_calls"].as_array();
            let (true, Some(calls)) = (
                transcript["schema"] == "wp-codebox/tool-call-transcript/v1",
                calls,
            ) else {
                found.add(
                    Code::MalformedReference,
                    path,
                    Some(path),
                    "the transcript of tool calls is none",
                );
                continue;
            };
            let redaction = |of: &Value, field: String, found: &mut Found| {
                if !of["redaction"]["policy"].is_string() {
                    found.add(
                        Code::MalformedReference,
                        format!("{field}redaction"),
                        Some(path),
                        "a transcript does not say how it was redacted",
                    );
                }
            };
            redaction(&transcript, format!("{path}:"), found);
            for (at, call) in calls.iter().enumerate() {
                let field = format!("{path}:tool_calls[{at}]");
                let named = ["call_id", "tool_name", "tool_type", "phase", "status"];
                if !named.iter().all(|name| call[name].is_string()) {
                    found.add(
                        Code::MalformedReference,
                        field,
                        Some(path),
                        "a tool call is incomplete",
                    );
                    continue;
                }
                redaction(call, format!("{field}."), found);
                for name in ["input_artifacts", "output_artifacts"] {
                    self.call_files(call.get(name), &format!("{field}.{name}"), found);
                }
            }
        }
    }

    fn call_files(&self, files: Option<&Value>, field: &str, found: &mut Found) {
        let Some(files) = files else { return };
        let Some(files) = files.as_array() else {
            return found.add(
                Code::MalformedReference,
                field,
                None,
                "a tool call's files are no list",
            );
        };
        for (at, file) in files.iter().enumerate() {
            let field = format!("{field}[{at}]");
            let Some(path) = file["path"].as_str() else {
                found.add(
                    Code::MalformedReference,
                    field,
                    None,
                    "a tool call's file has no path",
                );
                continue;
            };
            self.reference(path, &format!("{field}.path"), found);
            if let Some(expected) = digest_of(&file["sha256"]) {
                self.compare(path, expected.as_str(), &format!("{field}.sha256"), found);
            }
        }
    }

    /// The artifacts of the cases are listed.
    pub(super) fn cases(&self, found: &mut Found) {
        let mut ids = BTreeSet::new();
        for (at, case) in self.manifest.cases().enumerate() {
            let field = format!("manifest.cases[{at}]");
            if !ids.insert(case["id"].as_str()) {
                found.add(
                    Code::InvalidManifestShape,
                    format!("{field}.id"),
                    None,
                    "a case is there twice",
                );
            }
            if let Some(moment) = case["verification"]["verifiedAt"].as_str()
                && humantime::parse_rfc3339_weak(moment).is_err()
            {
                found.add(
                    Code::InvalidManifestShape,
                    format!("{field}.verification.verifiedAt"),
                    None,
                    "a case was verified at no moment",
                );
            }
            let artifacts = case["artifacts"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            for (at, artifact) in artifacts.iter().enumerate() {
                let field = format!("{field}.artifacts[{at}]");
                let path = artifact["path"].as_str().unwrap_or_default();
                self.reference(path, &format!("{field}.path"), found);
                if let Some(expected) = digest_of(&artifact["sha256"]) {
                    self.compare(path, expected.as_str(), &format!("{field}.sha256"), found);
                }
                if let Some(public) = artifact["publicUrl"].as_str() {
                    url::check(public, &format!("{field}.publicUrl"), Some(path), found);
                }
            }
        }
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        self.manifest
            .files()
            .filter(move |file| file["kind"] == kind)
            .filter_map(|file| file["path"].as_str())
    }

    fn reference(&self, reference: &str, field: &str, found: &mut Found) {
        if let Some(message) = path_violation(reference) {
            return found.add(Code::InvalidPath, field, Some(reference), message);
        }
        if !self.listed.contains(reference) {
            found.add(
                Code::MalformedReference,
                field,
                Some(reference),
                "a reference is to no listed file",
            );
        }
    }

    fn compare(&self, path: &str, expected: &str, field: &str, found: &mut Found) {
        match self.hash(path) {
            None => found.add(
                Code::MissingFile,
                field,
                Some(path),
                "a file that has a digest is not there",
            ),
            Some(observed) if observed.as_str() != expected => {
                found.add(
                    Code::FileHashMismatch,
                    field,
                    Some(path),
                    "a file is not the one that was meant",
                );
            }
            Some(_) => {}
        }
    }

    fn hash(&self, path: &str) -> Option<Sha256Hex> {
        path_violation(path)
            .is_none()
            .then(|| hash(self.tree, path).ok())?
    }

    fn json(&self, path: &str) -> Option<Value> {
        if path_violation(path).is_some() {
            return None;
        }
        let bytes = read(self.tree, path, strict::MAX_BYTES as u64).ok()?;
        strict::read(&bytes).ok()
    }
}

fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::String(reference) => vec![reference],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn payload(artifact: &Value, field: &str, index: &str, found: &mut Found) {
    let schema = artifact
        .get("payload_schema")
        .or(artifact.get("payloadSchema"));
    let (Some(schema @ Value::Object(_)), Some(payload)) = (schema, artifact.get("payload")) else {
        return;
    };
    // No reference out of the schema is followed, and no pattern takes more than linear time.
    let validator = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema);
    let (field, message) = match validator {
        Ok(schema) if schema.is_valid(payload) => return,
        Ok(_) => (
            format!("{field}.payload"),
            "a typed payload is not what its schema says",
        ),
        Err(_) => (
            format!("{field}.payload_schema"),
            "a typed payload's schema is none",
        ),
    };
    found.add(Code::PayloadSchemaViolation, field, Some(index), message);
}
