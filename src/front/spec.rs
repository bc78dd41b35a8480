//! As much of a bundle's `config.json` as says what the container can see.
//!
//! It is read as runsc reads it, leniently: what runsc takes for a mount of the host must not be
//! missed here. Whoever writes bundles is trusted, and the file is read by runsc after us.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// What the container can see of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The image.
    pub rootfs: PathBuf,
    /// Whether runsc is told that it may not be written.
    pub rootfs_read_only: bool,
    /// What is mounted of the host, in order.
    pub mounts: Vec<HostMount>,
    /// An annotation that could change any of this, where there is one.
    pub annotation: Option<String>,
}

/// Something of the host, mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// In the container.
    pub destination: PathBuf,
    /// On the host.
    pub source: PathBuf,
}

/// Why a bundle cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is none, or it cannot be opened.
    #[error("the bundle's {path:?} cannot be read: {source}")]
    Io {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no JSON.
    #[error("the bundle's {path:?} is not JSON: {source}")]
    Json {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A member is not what it must be.
    #[error("the bundle's {path:?} has something else than {expected} at {at:?}")]
    Shape {
        /// Where it is.
        path: PathBuf,
        /// A JSON pointer.
        at: String,
        /// What belongs there.
        expected: &'static str,
    },
}

impl Spec {
    /// Reads a bundle's.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn open(bundle: &Path) -> Result<Self, SpecError> {
        let path = bundle.join("config.json");
        let bytes = std::fs::read(&path).map_err(|source| SpecError::Io {
            path: path.clone(),
            source,
        })?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|source| SpecError::Json {
            path: path.clone(),
            source,
        })?;
        Self::from_value(&value, bundle).map_err(|(at, expected)| SpecError::Shape {
            path,
            at,
            expected,
        })
    }

    fn from_value(value: &Value, bundle: &Path) -> Result<Self, (String, &'static str)> {
        // Go takes members in any letter case.
        let rootfs = member(value, "root").and_then(|root| member(root, "path")?.as_str());
        let rootfs = rootfs.ok_or_else(|| ("/root/path".to_owned(), "a path"))?;
        let read_only = member(value, "root").and_then(|root| member(root, "readonly")?.as_bool());
        let mut mounts = Vec::new();
        let listed = member(value, "mounts").and_then(Value::as_array);
        for (at, mount) in listed.into_iter().flatten().enumerate() {
            let text = |name| member(mount, name).and_then(Value::as_str);
            let kind = text("type").unwrap_or_default();
            let options = member(mount, "options").and_then(Value::as_array);
            let bound = options
                .into_iter()
                .flatten()
                .any(|option| matches!(option.as_str(), Some("bind" | "rbind")));
            if kind != "bind" && !bound {
                continue;
            }
            let needed =
                |name| text(name).ok_or_else(|| (format!("/mounts/{at}/{name}"), "a path"));
            mounts.push(HostMount {
                destination: Path::new("/").join(needed("destination")?),
                source: bundle.join(needed("source")?),
            });
        }
        let annotations = member(value, "annotations").and_then(Value::as_object);
        let annotation = annotations
            .and_then(|all| all.keys().find(|name| name.starts_with("dev.gvisor.")))
            .cloned();
        Ok(Self {
            rootfs: bundle.join(rootfs),
            rootfs_read_only: read_only.unwrap_or(false),
            mounts,
            annotation,
        })
    }
}

/// A member in any letter case; the last of several, as Go has it.
fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let members = object.as_object()?;
    let found = members
        .iter()
        .rfind(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_comes_from_the_host_is_told_from_the_rest() {
        let spec = Spec::from_value(
            &json!({
                "root": {"path": "rootfs", "readonly": true},
                "mounts": [
                    {"destination": "/proc", "type": "proc", "source": "proc"},
                    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                    {"destination": "/work", "type": "bind", "source": "/host/work",
                     "options": ["rbind", "rw"]},
                    {"destination": "rel", "type": "none", "source": "src", "options": ["bind"]},
                    {"Destination": "/case", "TYPE": "bind", "Source": "/host/case"},
                ],
                "annotations": {"dev.gvisor.spec.mount.a.type": "tmpfs"},
            }),
            Path::new("/b"),
        )
        .unwrap();
        let mounts: Vec<_> = spec
            .mounts
            .iter()
            .map(|mount| {
                (
                    mount.destination.to_str().unwrap(),
                    mount.source.to_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            mounts,
            [
                ("/work", "/host/work"),
                ("/rel", "/b/src"),
                ("/case", "/host/case")
            ]
        );
        assert_eq!(spec.rootfs, Path::new("/b/rootfs"));
        assert!(spec.rootfs_read_only && spec.annotation.is_some());
    }

    #[test]
    fn a_bundle_without_what_is_needed_is_none() {
        for wrong in [
            json!({}),
            json!([]),
            json!({"root": {}}),
            json!({"root": {"path": "/r"}, "mounts": [{"type": "bind", "source": "/a"}]}),
        ] {
            assert!(
                Spec::from_value(&wrong, Path::new("/b")).is_err(),
                "{wrong}"
            );
        }
    }
}
