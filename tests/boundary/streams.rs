//! Streams through the pipes of a real process.

use runsc_driver::driver::{Captured, End, Stdin};
use runsc_driver::{Call, Driver};

use crate::fake::{Fake, ZERO, bounded};

const BIG: usize = 2 * 1024 * 1024;

fn whole(bytes: &[u8]) -> Captured {
    Captured {
        head: bytes.to_vec(),
        bytes: bytes.len() as u64,
        ..Captured::default()
    }
}

#[tokio::test]
async fn the_ends_of_a_stream_are_kept_and_its_count_is_true() {
    let fake = Fake::doing("run", "printf 0123456789abcdef; printf err >&2");
    let driver = fake.driver();
    for (cap, head, tail) in [
        (16, "0123456789abcdef", ""),
        (15, "01234567", "9abcdef"),
        (8, "0123", "cdef"),
        (1, "0", ""),
        (0, "", ""),
    ] {
        let mut call = Call::new(["true"]);
        call.output_cap = cap;
        let outcome = bounded(driver.run(call)).await.unwrap();
        let released = outcome.released().unwrap();
        assert_eq!(
            released.stdout,
            Captured {
                head: head.into(),
                tail: tail.into(),
                bytes: 16,
                truncated: cap < 16,
                ..Captured::default()
            },
            "{cap}"
        );
        // The cap is each stream's own.
        assert_eq!(
            (released.stderr.bytes, released.stderr.truncated),
            (3, cap < 3)
        );
    }
    bounded(driver.close()).await;
}

#[tokio::test]
async fn two_big_streams_at_once_both_come_whole() {
    let fake = Fake::doing(
        "run",
        &format!("head -c {BIG} /dev/zero & head -c {BIG} /dev/zero | tr '\\0' x >&2; wait"),
    );
    let driver = fake.driver();
    let outcome = bounded(driver.run(Call::new(["true"]))).await.unwrap();
    assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
    let released = outcome.released().unwrap();
    // Compared without being printed.
    assert!(released.stdout == whole(&vec![0; BIG]));
    assert!(released.stderr == whole(&vec![b'x'; BIG]));
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_error_and_no_hang() {
    let fake = Fake::new();
    let driver = fake.driver();
    let inputs = [
        Stdin::Bytes(vec![b'x'; 2 * BIG]),
        Stdin::Reader(Box::new(tokio::io::repeat(b'x'))),
    ];
    for stdin in inputs {
        let mut call = Call::new(["true"]);
        call.stdin = stdin;
        let outcome = bounded(driver.run(call)).await.unwrap();
        assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
        assert_eq!(outcome.released().unwrap().stdout, whole(b""));
    }
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn input_comes_back_whole() {
    let fake = Fake::doing("run", "cat");
    let driver = fake.driver();
    let input: Vec<u8> = (0..2 * BIG).map(|at| (at % 251) as u8).collect();
    let mut call = Call::new(["cat"]);
    call.stdin = Stdin::Bytes(input.clone());
    let outcome = bounded(driver.run(call)).await.unwrap();
    assert!(outcome.released().unwrap().stdout == whole(&input));
    bounded(driver.close()).await;
}

#[tokio::test]
async fn a_process_that_holds_the_pipes_does_not_hold_the_call() {
    let fake = Fake::doing(
        "run",
        r#"setsid "$here/idle" 1000 & echo $! >"$here/survivor"; echo hi"#,
    );
    let driver = fake.driver();
    let outcome = bounded(driver.run(Call::new(["true"]))).await.unwrap();
    assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
    let released = outcome.released().unwrap();
    assert_eq!(
        released.stdout,
        Captured {
            open: true,
            ..whole(b"hi\n")
        }
    );
    bounded(driver.close()).await;
}
