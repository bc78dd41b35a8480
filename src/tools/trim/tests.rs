//! Beginnings and ends, at and beside the bounds, of characters of every length.

use super::*;

fn whole(text: &str) -> Captured {
    Captured {
        head: text.into(),
        bytes: text.len() as u64,
        ..Captured::default()
    }
}

/// As a driver keeps it that keeps so many bytes.
fn capped(bytes: &[u8], cap: usize) -> Captured {
    let (head, tail) = (cap.div_ceil(2), cap / 2);
    assert!(bytes.len() > cap);
    Captured {
        head: bytes[..head].into(),
        tail: bytes[bytes.len() - tail..].into(),
        bytes: bytes.len() as u64,
        truncated: true,
        ..Captured::default()
    }
}

fn left_out(bytes: usize) -> String {
    format!("\n[… {bytes} bytes of output are left out here …]\n")
}

#[test]
fn what_is_short_enough_is_whole() {
    for c in ["a", "ü", "€", "😀"] {
        let text_of = c.repeat(FIRST + LAST);
        assert_eq!(text(&whole(&text_of)), text_of);
        let one_more = format!("{text_of}{c}");
        assert_eq!(
            text(&whole(&one_more)),
            c.repeat(FIRST) + &left_out(c.len()) + &c.repeat(LAST)
        );
    }
    assert_eq!(text(&Captured::default()), "");
}

#[test]
fn what_is_no_text_is_replaced_and_counted_by_its_bytes() {
    let captured = Captured {
        head: b"a\xff\xe2\x82b\xc3".into(),
        bytes: 6,
        ..Captured::default()
    };
    assert_eq!(text(&captured), "a\u{fffd}\u{fffd}b\u{fffd}");

    let mut bytes = b"x".repeat(FIRST);
    bytes.extend(b"\xe2\x82".repeat(7));
    bytes.extend(b"y".repeat(LAST));
    let captured = Captured {
        bytes: bytes.len() as u64,
        head: bytes,
        ..Captured::default()
    };
    assert_eq!(
        text(&captured),
        "x".repeat(FIRST) + &left_out(14) + &"y".repeat(LAST)
    );
}

#[test]
fn a_stream_of_which_the_driver_kept_its_ends_says_what_is_missing() {
    for c in ["a", "ü", "€", "😀"] {
        // Every place in a character for the driver's cut to go through.
        for before in 0..c.len() {
            let mut bytes = b"-".repeat(before);
            bytes.extend(c.repeat(OUTPUT_CAP + 1).as_bytes());
            let first = "-".repeat(before) + &c.repeat(FIRST - before);
            let missing = bytes.len() - first.len() - c.len() * LAST;
            assert_eq!(
                text(&capped(&bytes, OUTPUT_CAP)),
                first + &left_out(missing) + &c.repeat(LAST),
                "{c} after {before}"
            );
        }
    }
}

#[test]
fn a_driver_that_keeps_little_gives_what_it_has() {
    // "aüü…": the head ends and the tail begins inside a character.
    let bytes = format!("a{}b", "ü".repeat(10));
    assert_eq!(
        text(&capped(bytes.as_bytes(), 8)),
        format!("aü{}üb", left_out(22 - 6))
    );
    assert_eq!(
        text(&capped(b"a\xff\xff\xff\xffb", 4)),
        format!("a\u{fffd}{}\u{fffd}b", left_out(2))
    );
    assert_eq!(text(&capped(b"abc", 0)), left_out(3));
}

/// The cap has room for both ends, whatever their characters.
const _: () = assert!(OUTPUT_CAP / 2 > 4 * FIRST && OUTPUT_CAP / 2 > 4 * LAST);
