//! The mark: found wherever it is, in one piece or many, and nothing else touched.

use super::*;

fn mark() -> Mark {
    Mark::of("0123".into())
}

fn told(path: &str) -> Vec<u8> {
    format!("\u{1e}0123:{path}:0123\u{1e}").into_bytes()
}

fn around(before: &str, path: &str, after: &str) -> Vec<u8> {
    [before.as_bytes(), &told(path), after.as_bytes()].concat()
}

#[test]
fn it_is_taken_out_of_a_stream_that_is_whole() {
    let cases = [
        (around("", "/a\n", ""), "", Some("/a")),
        (around("out\n", "/a b\n", ""), "out\n", Some("/a b")),
        (around("out", "/a\n\n", "late\n"), "outlate\n", Some("/a\n")),
        // The directory was gone, or the shell has no such builtin.
        (around("out\n", "", ""), "out\n", None),
        (around("out\n", "a\n", ""), "out\n", None),
        (b"out\n".to_vec(), "out\n", None),
        // Not whole: the command's own, as far as anyone can tell.
        (b"\x1e0123:/a\n".to_vec(), "\u{1e}0123:/a\n", None),
    ];
    for (given, left, path) in cases {
        let mut stream = Captured {
            bytes: given.len() as u64,
            head: given,
            ..Captured::default()
        };
        let found = mark().take(&mut stream);
        assert_eq!(found, path.map(PathBuf::from));
        assert_eq!(
            (stream.head, stream.bytes),
            (left.as_bytes().to_vec(), left.len() as u64)
        );
    }
}

#[test]
fn it_is_taken_out_of_either_end() {
    for in_tail in [true, false] {
        let (marked, plain) = (around("x", "/a\n", "y"), b"plain".to_vec());
        let (head, tail) = match in_tail {
            true => (plain, marked),
            false => (marked, plain),
        };
        let length = told("/a\n").len() as u64;
        let mut stream = Captured {
            head,
            tail,
            bytes: 100 + length,
            truncated: true,
            ..Captured::default()
        };
        assert_eq!(mark().take(&mut stream), Some("/a".into()));
        let (head, tail) = match in_tail {
            true => (&b"plain"[..], &b"xy"[..]),
            false => (&b"xy"[..], &b"plain"[..]),
        };
        assert_eq!(
            (stream.head.as_slice(), stream.tail.as_slice(), stream.bytes),
            (head, tail, 100)
        );
    }
}

#[test]
fn a_filter_gives_the_same_however_the_stream_is_cut() {
    let stream = around("out \u{1e}01 \u{1e}\u{1e}", "/a b\n", "late\u{1e}012");
    for size in 1..=stream.len() {
        let mark = mark();
        let mut filter = mark.filter();
        let mut out = Vec::new();
        for piece in stream.chunks(size) {
            out.extend(filter.push(piece));
        }
        let (rest, path) = filter.finish();
        out.extend(rest);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "out \u{1e}01 \u{1e}\u{1e}late\u{1e}012"
        );
        assert_eq!(path, Some("/a b".into()), "pieces of {size}");
    }
}

#[test]
fn a_filter_holds_nothing_back_but_what_may_be_the_mark() {
    let mark = mark();
    let mut filter = mark.filter();
    assert_eq!(filter.push(b"prompt: "), b"prompt: ");
    assert_eq!(filter.push(b"a\x1e0"), b"a");
    assert_eq!(filter.push(b"x"), b"\x1e0x");
    // What begins like it and never ends is no mark.
    let endless = [mark.before.clone(), vec![b'x'; 2 * LONGEST]].concat();
    assert_eq!(filter.push(&endless), endless);
    assert_eq!(filter.finish(), (Vec::new(), None));
}

#[test]
fn no_two_marks_are_the_same() {
    let (one, other) = (Mark::new().unwrap(), Mark::new().unwrap());
    assert_ne!(one.word, other.word);
    assert_eq!(one.word.len(), 32);
}
