//! Programs: how one runs, those that are drawn, and those that are written by hand.

use super::{DIRS, NAMES, Off, Phase, SLOTS, World, has};

/// One step, as four numbers.
type Step = [u8; 4];

impl World {
    fn step(&mut self, [what, slot, from, to]: Step) -> Result<(), String> {
        self.clock += 1;
        let slot = usize::from(slot) % SLOTS;
        let (at_from, at_to) = (
            usize::from(from) % (DIRS * NAMES),
            usize::from(to) % (DIRS * NAMES),
        );
        match what % 32 {
            0..=2 => self.start(slot, from % 27, to % 4 == 0),
            3..=11 => {
                // A few steps at once, or it would rarely get anywhere.
                for _ in 0..=(from % 6) {
                    self.advance(slot)?;
                }
            }
            12 => {
                if let Some(own) = &mut self.slots[slot]
                    && own.phase == Phase::Running
                    && !own.dead
                {
                    own.phase = Phase::Over(0);
                }
            }
            13 => {
                if let Some(own) = &mut self.slots[slot] {
                    own.dead = true;
                }
            }
            14..=19 => self.command(slot, 0, at_from, at_to)?,
            20..=23 => self.command(slot, 1, at_from, at_to)?,
            24..=26 => self.command(slot, 2 + to % 3, at_from, at_to)?,
            _ => self.host(from % 8, at_to, (slot + usize::from(from)) % (DIRS * NAMES)),
        }
        self.forget_late();
        self.at_rest()
    }

    /// What came late is as any other once all that ran then is settled.
    fn forget_late(&mut self) {
        for at in 0..self.files.len() {
            let names = |dir: &usize| self.names[*dir].contains(&Some(at));
            let dirs: Vec<_> = (0..DIRS).filter(names).collect();
            if !self.anyone(|c| dirs.iter().any(|dir| has(c.sees, *dir))) {
                self.files[at].late = false;
            }
        }
    }

    fn run(off: Off, program: &[Step]) -> Result<usize, String> {
        let mut world = Self::new(off);
        for step in program {
            world.step(*step)?;
        }
        // All come to their ends.
        for _ in 0..64 {
            for slot in 0..SLOTS {
                if let Some(own) = &mut world.slots[slot]
                    && own.phase == Phase::Running
                {
                    own.phase = Phase::Over(0);
                }
                world.advance(slot)?;
            }
            world.at_rest()?;
        }
        Ok(world.observed)
    }
}

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn program(&mut self) -> Vec<Step> {
        let length = 20 + self.next() % 120;
        let mut program: Vec<Step> = (0..length)
            .map(|_| (self.next() as u32).to_le_bytes())
            .collect();
        // In some the host comes first, or there would be little to start over.
        let first = if length.is_multiple_of(2) { 6 } else { 0 };
        for step in program.iter_mut().take(first) {
            step[0] |= 0b1_1111;
        }
        program
    }
}

/// What is left of a program when every step that the leak does not need is taken out.
fn shortest(off: Off, mut program: Vec<Step>) -> Vec<Step> {
    let mut at = 0;
    while at < program.len() {
        let step = program.remove(at);
        if World::run(off, &program).is_ok() {
            program.insert(at, step);
            at += 1;
        }
    }
    program
}

/// How many programs are tried.
const PROGRAMS: usize = 10_000;

fn explore(off: Off) -> Result<usize, String> {
    let mut numbers = Numbers(0x5eed_1234_5678_9abc);
    let mut observed = 0;
    for number in 0..PROGRAMS {
        let program = numbers.program();
        match World::run(off, &program) {
            Ok(count) => observed += count,
            Err(leak) => {
                let short = shortest(off, program);
                return Err(format!("program {number}: {leak}; {short:?}"));
            }
        }
    }
    Ok(observed)
}

#[test]
fn no_program_leaks() {
    let observed = explore(Off::Nothing).unwrap();
    // There was something to leak by.
    assert!(observed > PROGRAMS / 2, "{observed}");
}

#[test]
fn without_any_one_of_the_rules_some_program_leaks() {
    for off in [
        Off::Settle,
        Off::Directories,
        Off::Changes,
        Off::Egress,
        Off::Marks,
        Off::After,
    ] {
        assert!(explore(off).is_err(), "{off:?} is no rule: nothing leaks");
    }
}

/// What a program is made of, for those that are written by hand.
mod steps {
    use super::{NAMES, Step};

    /// The first name in `/a`, in `/a/b` and in `/c`.
    pub const A: u8 = 0;
    pub const B: u8 = NAMES as u8;
    pub const C: u8 = 2 * NAMES as u8;

    pub fn put_public(at: u8) -> Step {
        [31, 1, 0, at]
    }
    pub fn put_labelled(at: u8) -> Step {
        [31, 1, 2, at]
    }
    pub fn link(from: u8, to: u8) -> Step {
        // The eighth of it says that it is a link, and the ninth, where to.
        let number = (0..72).find(|n| n % 8 == 6 && n % 9 == to);
        [31, 0, number.unwrap_or_default(), from]
    }
    /// Its mounts are `/a`, `/a/b` and `/c`: not there, read-only or writable.
    pub fn start(slot: u8, mounts: [u8; 3], egress: bool) -> Step {
        [
            0,
            slot,
            mounts[0] + 3 * mounts[1] + 9 * mounts[2],
            u8::from(!egress),
        ]
    }
    pub fn advance(slot: u8) -> Step {
        [3, slot, 5, 0]
    }
    /// The first step of a front by itself.
    pub fn look(slot: u8) -> Step {
        [3, slot, 0, 0]
    }
    pub fn read(slot: u8, at: u8) -> Step {
        [14, slot, at, 0]
    }
    pub fn write(slot: u8, at: u8) -> Step {
        [20, slot, at, 0]
    }
    pub fn end(slot: u8) -> Step {
        [12, slot, 0, 0]
    }
}

#[test]
fn what_is_rare_is_written_by_hand() {
    use steps::{A, B, C, advance, end, link, look, put_labelled, put_public, read, start, write};
    let attacks: [(Off, Vec<Step>); 4] = [
        (
            Off::TakeBeside,
            vec![
                put_labelled(A),
                // It has looked at those beside it before the other comes.
                start(1, [0, 0, 1], true),
                look(1),
                start(0, [1, 0, 2], false),
                advance(0),
                read(0, A),
                write(0, C),
                advance(1),
                read(1, C),
            ],
        ),
        (
            Off::Wait,
            vec![
                put_labelled(A),
                start(1, [0, 0, 1], true),
                advance(1),
                start(0, [1, 0, 2], false),
                advance(0),
                read(0, A),
                write(0, C),
                read(1, C),
            ],
        ),
        (
            Off::Beside,
            vec![
                start(0, [1, 0, 2], false),
                advance(0),
                start(1, [0, 0, 1], false),
                advance(1),
                put_labelled(A),
                read(0, A),
                write(0, C),
                read(1, C),
                end(1),
                advance(1),
                advance(1),
            ],
        ),
        (
            Off::Links,
            vec![
                put_public(A),
                link(A, C),
                put_labelled(B),
                start(1, [0, 0, 1], true),
                advance(1),
                start(0, [2, 0, 0], false),
                advance(0),
                read(0, B),
                write(0, A),
                read(1, C),
            ],
        ),
    ];
    for (off, program) in attacks {
        assert!(World::run(off, &program).is_err(), "{off:?} is no rule");
        assert!(World::run(Off::Nothing, &program).is_ok(), "{off:?}");
    }
}
