//! Text of a script's, made fit for a record: short, on one line, without control characters.

/// The first characters of a text, on one line: what would steer a terminal goes, and white space
/// of any kind is one space.
pub(crate) fn flat(text: &str, limit: usize) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    // No more is looked at than could matter, however long the text is.
    let looked_at: String = text.chars().take(limit * 4).collect();
    let words: Vec<String> = looked_at
        .split_whitespace()
        .map(|word| word.chars().filter(|c| !steers(*c)).collect())
        .filter(|word: &String| !word.is_empty())
        .collect();
    words.join(" ").chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_cannot_steer_a_terminal() {
        let cases = [
            ("plain ü", "plain ü"),
            ("a\nb\r\tc", "a b c"),
            ("\u{1b}[2Jx\u{202e}y\u{9b}", "[2Jxy"),
            ("  ", ""),
            ("123456789", "12345678"),
        ];
        for (given, expected) in cases {
            assert_eq!(flat(given, 8.max(expected.chars().count())), expected);
        }
    }
}
