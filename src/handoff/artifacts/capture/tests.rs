use std::os::unix::fs::symlink;

use super::*;

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        Self { dir }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.path().join("out").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        io::Write::write_all(&mut File::create(path).unwrap(), bytes).unwrap();
    }

    fn capture_with(&self, declared: &[&str], others: bool, limits: &CaptureLimits) -> Capture {
        let declared = Declared {
            paths: declared
                .iter()
                .map(|path| PayloadPath::new(Path::new(path)).unwrap())
                .collect(),
            allow_others: others,
            labelled: false,
        };
        let (from, into) = (self.dir.path().join("out"), self.dir.path().join("in"));
        capture(&from, &declared, &into, &Redactor::default(), limits).unwrap()
    }

    fn capture(&self, declared: &[&str]) -> Capture {
        self.capture_with(declared, false, &CaptureLimits::default())
    }

    fn captured(&self) -> Vec<String> {
        let mut found = Vec::new();
        let bounds = Bounds {
            entries: 1000,
            depth: 40,
        };
        Tree::open(&self.dir.path().join("in"))
            .unwrap()
            .walk(bounds, |entry| {
                if entry.kind != Kind::Directory {
                    found.push(entry.path.display().to_string());
                }
            });
        found
    }
}

fn codes(capture: &Capture) -> Vec<&str> {
    capture.diagnostics.iter().map(|told| told.code).collect()
}

#[test]
fn declared_files_are_copied_and_others_left_out() {
    let stage = Stage::new();
    stage.put("report.json", b"{}");
    stage.put("d/ü.bin", b"a\0b");
    stage.put("more.txt", b"x");
    let capture = stage.capture(&["report.json", "d/ü.bin"]);
    assert!(capture.is_whole());
    assert_eq!(codes(&capture), ["output-undeclared"]);
    assert_eq!(stage.captured(), ["outputs/report.json", "outputs/d/ü.bin"]);
    let file = &capture.files[0];
    assert_eq!(
        file.to_value(),
        json!({
            "schema": "wp-codebox/captured-artifact-file/v1", "status": "captured",
            "path": "outputs/d/ü.bin", "bytes": 3, "originalBytes": 3,
            "sha256": Sha256Hex::of(b"a\0b"), "binary": true
        })
    );
    let stage = Stage::new();
    stage.put("a", b"x");
    stage.put("b", b"y");
    let capture = stage.capture_with(&["a"], true, &CaptureLimits::default());
    assert_eq!((codes(&capture), capture.files.len()), (vec![], 2));
}

#[test]
fn every_trick_is_refused_with_its_own_word() {
    let stage = Stage::new();
    let out = stage.dir.path().join("out");
    symlink("/etc/passwd", out.join("link")).unwrap();
    symlink("/etc", out.join("dir")).unwrap();
    stage.put("one", b"x");
    std::fs::hard_link(out.join("one"), out.join("two")).unwrap();
    nix::unistd::mkfifo(&out.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(out.join("folder")).unwrap();
    File::create(out.join("sparse"))
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    File::create(out.join("tera"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let rows = [
        ("link", "output-link"),
        ("dir/passwd", "output-link"),
        ("one", "output-hardlink"),
        ("two", "output-hardlink"),
        ("fifo", "output-not-regular"),
        ("folder", "output-not-regular"),
        ("none", "output-missing"),
        ("sparse", "output-sparse"),
        ("tera", "output-oversized"),
    ];
    for (path, code) in rows {
        let capture = stage.capture(&[path]);
        let about: Vec<_> = capture
            .diagnostics
            .iter()
            .filter(|told| told.severity == "error")
            .collect();
        assert_eq!(about.len(), 1, "{path}: {capture:?}");
        assert_eq!(
            (about[0].code, about[0].path.as_deref()),
            (code, Some(path))
        );
        assert!(!capture.is_whole());
    }
    assert_eq!(stage.captured(), [] as [String; 0]);
}

#[test]
fn odd_names_are_told_without_their_tricks() {
    use std::os::unix::ffi::OsStrExt;
    let stage = Stage::new();
    let out = stage.dir.path().join("out");
    for name in [&b"a\nb"[..], b"c\xff", b" d", b"\x1b[2J"] {
        File::create(out.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    let capture = stage.capture_with(&[], true, &CaptureLimits::default());
    assert_eq!(codes(&capture), ["output-odd-name"; 4]);
    let paths: Vec<_> = capture
        .diagnostics
        .iter()
        .filter_map(|told| told.path.as_deref())
        .collect();
    assert_eq!(paths, ["[2J", "d", "a b", "c\u{fffd}"]);
}

#[test]
fn bounds_hold() {
    let stage = Stage::new();
    for n in 0..30 {
        stage.put(&format!("{n:02}"), &[b'x'; 100]);
    }
    let limits = CaptureLimits {
        max_file: 150,
        max_total: 350,
        max_files: 40,
        max_entries: 100,
    };
    let capture = stage.capture_with(&["00", "01", "02", "03"], false, &limits);
    assert_eq!(capture.files.len(), 3);
    assert!(codes(&capture).contains(&"output-total-exceeded"));
    let few = CaptureLimits {
        max_files: 10,
        ..limits.clone()
    };
    assert_eq!(
        codes(&stage.capture_with(&[], true, &few)),
        ["output-too-many-files"]
    );
    let few = CaptureLimits {
        max_entries: 10,
        ..limits
    };
    assert_eq!(
        codes(&stage.capture_with(&[], false, &few)),
        ["output-too-many-files"]
    );
}

#[test]
fn secrets_go_before_the_digest_is_taken() {
    let stage = Stage::new();
    let secret = "ghp_ABCDEFGHIJKLMNOPQRST";
    stage.put("log.txt", format!("{{\"k\":\"{secret}\"}}").as_bytes());
    stage.put("raw.bin", format!("\0{secret}").as_bytes());
    let capture = stage.capture(&["log.txt", "raw.bin"]);
    let clean = "{\"k\":\"[REDACTED:github-token]\"}";
    assert_eq!(capture.files[0].sha256, Sha256Hex::of(clean.as_bytes()));
    assert_eq!(
        capture.files[0].redacted,
        [("github-token", 1)].into_iter().collect()
    );
    assert_ne!(capture.files[0].bytes, capture.files[0].original_bytes);
    let kept = std::fs::read(stage.dir.path().join("in/outputs/log.txt")).unwrap();
    assert_eq!(kept, clean.as_bytes());
    assert!(capture.files[1].binary && capture.files[1].redacted.is_empty());
}
