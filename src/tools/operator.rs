//! What an operator reads and a model does not.

/// How many characters of a message reach the log.
const MOST: usize = 8000;

/// A message as one line of the log: escaped, and cut where it is very long.
pub(super) fn line(message: &str) -> String {
    let count = message.chars().count();
    let mut line = String::with_capacity(message.len().min(MOST));
    for c in message.chars().take(MOST) {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    if count > MOST {
        line.push_str(&format!("… (cut: it has {count} characters)"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_bounded_line() {
        assert_eq!(line("plain ü"), "plain ü");
        assert_eq!(
            line("a\nb\r\u{1b}[2J\u{2028}c"),
            "a\\nb\\r\\u{1b}[2J\\u{2028}c"
        );
        let whole = "ü".repeat(MOST);
        assert_eq!(line(&whole), whole);
        assert_eq!(
            line(&format!("{whole}x")),
            format!("{whole}… (cut: it has 8001 characters)")
        );
    }
}
