//! Text of others, made safe for a terminal.

use std::io::Write;

/// Escapes control characters, so that what came from a sandbox or a file name cannot move the
/// cursor, colour the screen or forge a line.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            cleaned.extend(c.escape_default())
        } else {
            cleaned.push(c)
        }
    }
    cleaned
}

/// Writes a line of the driver's own to standard error. A closed one is no error.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "runsc-driver: {}", clean(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_but_text() {
        let cases = [
            ("plain ü", "plain ü"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\nb\rc\u{7f}\u{9b}", "a\\nb\\rc\\u{7f}\\u{9b}"),
        ];
        for (given, expected) in cases {
            assert_eq!(clean(given), expected);
        }
    }
}
