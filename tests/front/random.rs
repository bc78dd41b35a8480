//! Random programs of containers and a host on real gVisor, as the model has them
//! (`src/front/model.rs`): up to four containers over three mounts that overlap, which read, write,
//! copy, rename, link and delete, and are killed. At the end no secret is where it must not be.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{pidfd, wait_readable};
use crate::lab::{Call, Lab, Ran, Started, atoms, label, number_of, put};
use runsc_driver::cfc::Policy;

/// As many as the variable says, or 300; so many of them at once.
const PROGRAMS: &str = "RUNSC_CFC_PROGRAMS";
const BESIDE: usize = 4;
/// Where one program begins; a failure tells it.
const SEED: &str = "RUNSC_CFC_SEED";

/// Labels and what they stand for.
const SECRETS: [(&str, &str); 2] = [("one", "sesame-one-3f9a"), ("two", "sesame-two-c27e")];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// `/a` with `/a/b` in it, and `/c`.
struct Mounts {
    a: PathBuf,
    b: PathBuf,
    c: PathBuf,
}

impl Mounts {
    fn new(lab: &Lab) -> Self {
        let (a, c) = (lab.mount("a"), lab.mount("c"));
        let b = a.join("b");
        fs::create_dir_all(&b).unwrap();
        Self { a, b, c }
    }

    fn fill(&self, numbers: &mut Numbers) {
        for dir in [&self.a, &self.b, &self.c] {
            for name in NAMES {
                match numbers.below(6) {
                    0 => {
                        let (atom, secret) = numbers.pick(&SECRETS);
                        put(&dir.join(name), secret);
                        label(&dir.join(name), atom);
                    }
                    1 => put(&dir.join(name), "plain"),
                    2 => {
                        let _ = fs::hard_link(self.c.join("x"), dir.join(name));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A container's program: where it is in the container, and what it does there.
fn script(numbers: &mut Numbers, dirs: &[&str]) -> String {
    // What docs/labels.md names as not covered is left out: a name of a file with others goes.
    let alone = "alone() { [ \"$(stat -c %h $1)\" = 1 ]; }";
    let mut lines = vec!["exec 2>/tmp/no".to_owned(), alone.to_owned()];
    for _ in 0..3 + numbers.below(8) {
        let mut file = || format!("{}/{}", numbers.pick(dirs), numbers.pick(&NAMES));
        let (from, to) = (file(), file());
        lines.push(match numbers.below(9) {
            0 | 1 => format!("cat {from}"),
            2 => format!("cp {from} {to}"),
            // Not all of it: where both are one file by two paths it would never end.
            3 => format!("head -c 99 {from} >>{to}"),
            4 => format!("[ -e {to} ] || {{ alone {from} && mv {from} {to}; }}"),
            5 => format!("[ -e {to} ] || ln {from} {to}"),
            6 => format!("alone {from} && rm {from}"),
            7 => format!("s=$(cat {from}); mkdir -p {}/d-$s", numbers.pick(dirs)),
            _ => format!(
                "ls -R {}; sleep 0.0{}",
                numbers.pick(dirs),
                numbers.below(9)
            ),
        });
    }
    lines.join("; ") + "; exit 0"
}

struct Program<'a> {
    lab: &'a Lab,
    mounts: Mounts,
    seed: u64,
}

impl Program<'_> {
    /// Whether something was observed, and whether something was withheld.
    fn run(&self) -> (bool, bool) {
        let mut numbers = Numbers(self.seed);
        self.mounts.fill(&mut numbers);
        let count = 2 + numbers.below(3);
        let mut running: Vec<(Started, bool)> = Vec::new();
        let mut ended: Vec<(Ran, bool)> = Vec::new();
        for _ in 0..count {
            let which = 1 + numbers.below(7);
            let all = [
                (&self.mounts.a, "/work"),
                (&self.mounts.b, "/other"),
                (&self.mounts.c, "/tmp/c"),
            ];
            let mounts: Vec<(&Path, &str)> = all
                .iter()
                .enumerate()
                .filter(|(at, _)| which & (1 << at) != 0)
                .map(|(_, (path, at))| (path.as_path(), *at))
                .collect();
            let mut dirs: Vec<_> = mounts.iter().map(|(_, at)| *at).collect();
            if dirs.contains(&"/work") {
                dirs.push("/work/b");
            }
            let script = script(&mut numbers, &dirs);
            let mut call = Call::new(&script, &mounts);
            call.mode = Some("enforce-strict");
            call.flags = vec!["--cfc-wait=1"];
            let sends = numbers.below(4) == 0;
            call.network = if sends { "host" } else { "none" };
            running.push((self.lab.start(&call), sends));
            // Some run beside each other, some after, and some are killed.
            match numbers.below(4) {
                0 => {
                    let (mut last, _) = running.pop().unwrap();
                    if let Some(end) = pidfd(last.child.id()) {
                        wait_readable(&end, Duration::from_millis(numbers.below(400)));
                    }
                    last.kill();
                }
                1 => ended.extend(running.drain(..).map(|(one, sends)| (one.finish(), sends))),
                _ => {}
            }
        }
        ended.extend(running.drain(..).map(|(one, sends)| (one.finish(), sends)));
        // Whoever comes next settles what is left.
        for (mount, at) in [(&self.mounts.a, "/work"), (&self.mounts.c, "/work")] {
            let ran = self.lab.run(&Call::new("ls -R /work", &[(mount, at)]));
            ended.push((ran, false));
        }
        let live = self.lab.registered("live");
        assert!(live.is_empty(), "seed {}: {live:?} {ended:?}", self.seed);
        for (ran, sends) in &ended {
            self.check_output(ran, *sends);
        }
        for dir in [&self.mounts.a, &self.mounts.c] {
            self.check_tree(dir);
        }
        let policies: Vec<_> = ended.iter().map(|(ran, _)| ran.policy()).collect();
        (
            policies.contains(&Policy::Observed),
            policies.contains(&Policy::Opaque),
        )
    }

    /// What is observed holds no secret, nor does what was sent; what is withheld has its label.
    fn check_output(&self, ran: &Ran, sends: bool) {
        for (atom, secret) in SECRETS {
            if !ran.out.contains(secret) {
                continue;
            }
            let told = ran.label().iter().any(|one| one == atom || one.is_object());
            assert!(told && !sends, "seed {}: {sends} {ran:?}", self.seed);
        }
    }

    /// Every name and every content has its label: on the file, or on the directory of the name.
    fn check_tree(&self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            self.check_label(dir, path.file_name().unwrap().as_bytes());
            if path.is_dir() {
                self.check_tree(&path);
            } else {
                self.check_label(&path, &fs::read(&path).unwrap());
            }
        }
    }

    fn check_label(&self, path: &Path, bytes: &[u8]) {
        for (atom, secret) in SECRETS {
            let holds = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            let label = atoms(path);
            let labelled = label.iter().any(|one| one == atom || one == "nobody");
            assert!(
                !holds || labelled,
                "seed {}: {} holds {secret} and has {label:?}",
                self.seed,
                path.display()
            );
        }
    }
}

#[test]
fn no_random_program_leaks() {
    let first = std::env::var(SEED).map_or(0x9e37_79b9, |text| text.parse().unwrap());
    let programs = u64::from(number_of(PROGRAMS, 300));
    let (next, observed, withheld) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= programs {
                return;
            }
            let lab = Lab::new();
            let program = Program {
                mounts: Mounts::new(&lab),
                lab: &lab,
                seed: first + number * 0x1_0000_0001,
            };
            let (some_observed, some_withheld) = program.run();
            observed.fetch_add(some_observed.into(), Ordering::Relaxed);
            withheld.fetch_add(some_withheld.into(), Ordering::Relaxed);
        }
    };
    // Much of a program is waiting.
    std::thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(work);
        }
    });
    // There was something to leak, and something to leak by.
    assert!(
        observed.load(Ordering::Relaxed) > 0 && withheld.load(Ordering::Relaxed) > 0,
        "{observed:?} {withheld:?} of {programs}"
    );
}
