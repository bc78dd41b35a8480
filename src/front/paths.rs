//! The look for container paths that a policy labels: from the root down, through links, only
//! where some pattern can still match.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::doubt::{Doubt, Found};
use super::image::Index;
use super::mounts::Bind;
use super::pattern::{Pattern, States};
use super::policy::Policy;
use super::taint::Taint;
use super::view::{Place, View};
use super::walk::Limits;

/// What matched.
#[derive(Debug, Default)]
pub struct Matches {
    /// The label, and why.
    pub found: Found,
    /// What matched in writable mounts, on the host, and its label.
    pub writable: Vec<(PathBuf, Taint)>,
}

/// What an entry is, as far as matching goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It can have entries.
    Directory,
    /// It leads elsewhere.
    Link,
    /// Anything else.
    Other,
}

/// Looks for the paths that a policy labels.
#[must_use]
pub fn matches(binds: &[Bind], image: Option<&Index>, policy: &Policy, limits: &Limits) -> Matches {
    let mut look = Look {
        view: View::new(binds),
        binds,
        image,
        policy,
        limits,
        linked: HashSet::new(),
        matches: Matches::default(),
    };
    let start = Step {
        inside: PathBuf::from("/"),
        states: policy
            .path_labels
            .iter()
            .map(|label| label.pattern.start())
            .collect(),
        covered: vec![false; policy.path_labels.len()],
        through_link: false,
    };
    if !policy.path_labels.is_empty() {
        look.run(start);
    }
    look.matches
}

struct Look<'a> {
    view: View<'a>,
    binds: &'a [Bind],
    image: Option<&'a Index>,
    policy: &'a Policy,
    limits: &'a Limits,
    /// Where links led, and with which states: a loop of links comes by again.
    linked: HashSet<(PathBuf, Vec<States>, Vec<bool>)>,
    matches: Matches,
}

/// A directory to look into.
struct Step {
    inside: PathBuf,
    states: Vec<States>,
    /// The patterns that match a directory above, and with it all that is below.
    covered: Vec<bool>,
    through_link: bool,
}

impl Look<'_> {
    fn run(&mut self, start: Step) {
        let mut pending = vec![start];
        while let Some(step) = pending.pop() {
            if !self.limits.take(1) {
                return self.doubt(Doubt::at(Doubt::WalkBound, &step.inside));
            }
            let Some(place) = self.view.place(&step.inside) else {
                continue;
            };
            if step.through_link {
                let here = (
                    place.host.clone(),
                    step.states.clone(),
                    step.covered.clone(),
                );
                if !self.linked.insert(here) {
                    continue;
                }
            }
            match self.children(&step, &place) {
                Ok(children) => {
                    for (name, kind) in children {
                        self.child(&step, &name, kind, &mut pending);
                    }
                }
                // What cannot be read the look at attributes is in doubt of, where it matters.
                Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(err) if err.kind() == io::ErrorKind::NotADirectory => {}
                Err(err) => self.doubt(Doubt::unforeseen(&place.host, err)),
            }
        }
    }

    /// The entries of a directory that can matter.
    fn children(&self, step: &Step, place: &Place) -> io::Result<Vec<(OsString, Kind)>> {
        let mut only = Some(Vec::new());
        for (at, pattern) in self.patterns().enumerate() {
            if step.covered[at] {
                only = None;
                break;
            }
            match (&mut only, pattern.only_names(step.states[at])) {
                (Some(all), Some(names)) => {
                    all.extend(
                        names
                            .into_iter()
                            .map(|name| OsStr::from_bytes(name).to_owned()),
                    );
                }
                _ => only = None,
            }
        }
        if let Some(mut names) = only {
            names.sort();
            names.dedup();
            let inside = |name: &OsString| step.inside.join(name);
            let known = names.into_iter().filter_map(|name| {
                let place = self.view.place(&inside(&name))?;
                let found = std::fs::symlink_metadata(place.host).ok()?;
                Some((name, kind(found.file_type())))
            });
            return Ok(known.collect());
        }
        // A mount point hides what it is on, and need not be there where it is an overlay's.
        let mut children: Vec<_> = self.mount_points(&step.inside).collect();
        if let Some(index) = self.image.filter(|_| place.bind == 0) {
            children.extend(index.children(&step.inside));
            return Ok(children);
        }
        for entry in std::fs::read_dir(&place.host)? {
            let entry = entry?;
            children.push((entry.file_name(), kind(entry.file_type()?)));
            if !self.limits.take(1) {
                break;
            }
        }
        Ok(children)
    }

    fn mount_points(&self, inside: &Path) -> impl Iterator<Item = (OsString, Kind)> {
        self.binds[1..].iter().filter_map(move |bind| {
            let below = bind.destination.strip_prefix(inside).ok()?;
            let first = below.components().next()?;
            let whole = inside.join(first) == bind.destination;
            let directory = !whole || bind.source.is_dir();
            let kind = if directory {
                Kind::Directory
            } else {
                Kind::Other
            };
            Some((first.as_os_str().to_owned(), kind))
        })
    }

    fn child(&mut self, step: &Step, name: &OsString, kind: Kind, pending: &mut Vec<Step>) {
        let states: Vec<_> = self
            .patterns()
            .zip(&step.states)
            .map(|(pattern, states)| pattern.step(*states, name.as_bytes()))
            .collect();
        let mut covered = step.covered.clone();
        let mut matched = false;
        for (at, pattern) in self.policy.path_labels.iter().enumerate() {
            covered[at] |= pattern.pattern.accepts(states[at]);
            matched |= covered[at];
        }
        let alive = matched || states.iter().any(|states| !states.is_dead());
        if !alive {
            return;
        }
        let inside = step.inside.join(name);
        if matched {
            self.matched(&inside, &covered);
        }
        let mut next = Step {
            inside,
            states,
            covered,
            through_link: false,
        };
        match kind {
            Kind::Other => {}
            Kind::Directory => {
                next.through_link = step.through_link;
                pending.push(next);
            }
            Kind::Link => match self.view.resolve(&next.inside) {
                Ok(Some(place)) => {
                    // That a directory above matches is said of what is in it, and a link's
                    // target is not; only a pattern that matches the link's own path goes on.
                    for (at, pattern) in self.policy.path_labels.iter().enumerate() {
                        next.covered[at] = pattern.pattern.accepts(next.states[at]);
                    }
                    if next.covered.contains(&true) {
                        self.matched(&place.inside, &next.covered);
                    }
                    if place.host.is_dir() {
                        next.inside = place.inside;
                        next.through_link = true;
                        pending.push(next);
                    }
                }
                Ok(None) => {}
                Err(err) => self.doubt(Doubt::unforeseen(&next.inside, err)),
            },
        }
    }

    fn matched(&mut self, inside: &Path, covered: &[bool]) {
        let Some(place) = self.view.place(inside) else {
            return;
        };
        let mut whole = Taint::public();
        for (label, covered) in self.policy.path_labels.iter().zip(covered) {
            if *covered {
                let taint = &label.label.confidentiality;
                whole.join(taint);
                self.matches.found.label(taint, || {
                    format!(
                        "the policy's pattern {} matches {}",
                        label.pattern,
                        inside.display()
                    )
                });
            }
        }
        if !whole.is_public() && self.binds[place.bind].writable() {
            self.matches.writable.push((place.host, whole));
        }
    }

    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.policy.path_labels.iter().map(|label| &label.pattern)
    }

    fn doubt(&mut self, doubt: Doubt) {
        self.matches.found.doubt(doubt);
    }
}

fn kind(found: std::fs::FileType) -> Kind {
    if found.is_dir() {
        Kind::Directory
    } else if found.is_symlink() {
        Kind::Link
    } else {
        Kind::Other
    }
}

/// A name from bytes that are an index's.
pub(super) fn name_of(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::mounts::MountTable;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    struct Place {
        dir: tempfile::TempDir,
        binds: Vec<Bind>,
    }

    /// An image and a workspace with links between them.
    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let (image, work) = (dir.path().join("image"), dir.path().join("work"));
        fs::create_dir_all(image.join("etc")).unwrap();
        fs::create_dir_all(work.join("real/deep")).unwrap();
        fs::File::create(work.join("real/deep/key")).unwrap();
        fs::File::create(work.join("plain")).unwrap();
        symlink("/work/real", image.join("vault")).unwrap();
        symlink("deep", work.join("real/same")).unwrap();
        symlink("..", work.join("real/deep/up")).unwrap();
        let table = MountTable::read().unwrap();
        let bind = |destination: &str, source: &Path| Bind {
            destination: destination.into(),
            source: source.to_owned(),
            trees: table.trees(source).unwrap(),
        };
        Place {
            binds: vec![bind("/", &image), bind("/work", &work)],
            dir,
        }
    }

    fn found(pattern: &str) -> Vec<String> {
        let place = place();
        let policy = json!({"path_labels": [
            {"pattern": pattern, "label": {"confidentiality": ["x"]}}
        ]});
        let policy = serde_json::from_value(policy).unwrap();
        let limits = Limits::new(10_000, Duration::from_secs(10));
        let matches = matches(&place.binds, None, &policy, &limits);
        assert_eq!(matches.found.doubts(), []);
        let mut found: Vec<_> = matches
            .writable
            .iter()
            .map(|(path, _)| {
                let below = path.strip_prefix(place.dir.path()).unwrap();
                below.to_str().unwrap().to_owned()
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn paths_are_found_through_links_and_once_in_a_loop() {
        let key = vec!["work/real/deep/key".to_owned()];
        assert_eq!(found("/work/real/deep/key"), key);
        assert_eq!(found("/vault/deep/key"), key);
        assert_eq!(found("/vault/same/key"), key);
        assert_eq!(found("/vault/**/key"), key);
        assert_eq!(found("**/key"), key);
        assert_eq!(found("/*/*/same/*ey"), key);
        assert_eq!(found("/work/*.key"), Vec::<String>::new());
        assert_eq!(found("/etc/**/key"), Vec::<String>::new());
    }

    #[test]
    fn a_directory_that_matches_labels_what_is_below() {
        assert_eq!(
            found("/work/real"),
            [
                "work/real",
                "work/real/deep",
                "work/real/deep/key",
                "work/real/deep/up",
                "work/real/same",
            ]
        );
        // The link itself, and not what it leads to.
        assert_eq!(
            found("/vault/deep"),
            ["work/real/deep", "work/real/deep/key", "work/real/deep/up"]
        );
    }
}
