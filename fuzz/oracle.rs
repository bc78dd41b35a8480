//! A second reading of the rules on results, for comparison.
//!
//! It shares no code with the crate and none with serde_json: it reads the bytes by hand into a
//! tree that keeps every member, doubles included, and then asks in plain words whether the
//! output is public. The fuzz target and a test of the crate's include this file.

/// What the rules say of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The output may be seen.
    Public,
    /// It may not be.
    NotPublic,
    /// It may be by these rules, and has a number that a reader may refuse as out of range.
    PublicUnlessANumberIsTooLarge,
}

#[derive(Debug)]
enum Node {
    Null,
    Truth,
    Number(String),
    Text(String),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

/// Whether the output of `container` is public by the result in `bytes`.
pub fn reading(bytes: &[u8], container: &str) -> Reading {
    if bytes.len() > 1_048_576 {
        return Reading::NotPublic;
    }
    let Ok(text) = String::from_utf8(bytes.to_vec()) else {
        return Reading::NotPublic;
    };
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        large_number: false,
    };
    let Some(root) = reader.document() else {
        return Reading::NotPublic;
    };
    if !public(&root, container) {
        return Reading::NotPublic;
    }
    match reader.large_number {
        true => Reading::PublicUnlessANumberIsTooLarge,
        false => Reading::Public,
    }
}

fn public(root: &Node, container: &str) -> bool {
    let version_is_one = matches!(member(root, "version"), Some(Node::Number(n)) if n == "1");
    let ours = matches!(member(root, "containerId"), Some(Node::Text(id)) if id == container);
    let Some(taint @ Node::Members(_)) = member(root, "cfcTaint") else {
        return false;
    };
    let rendered_empty = match member(taint, "string") {
        None => true,
        Some(Node::Text(text)) => text == "{conf: ⊤, integ: ∅}",
        Some(_) => false,
    };
    let Some(Node::Members(parts)) = member(taint, "xattrJSON") else {
        return false;
    };
    let structured_empty = parts.iter().all(|(name, node)| match name.as_str() {
        "confidentiality" | "integrity" => matches!(node, Node::List(atoms) if atoms.is_empty()),
        _ => false,
    });
    version_is_one && ours && rendered_empty && structured_empty
}

fn member<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Node::Members(members) = node else {
        return None;
    };
    members
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    large_number: bool,
}

impl Reader {
    fn document(&mut self) -> Option<Node> {
        let node = self.value(0)?;
        self.space();
        (self.at == self.chars.len()).then_some(node)
    }

    fn space(&mut self) {
        while matches!(self.chars.get(self.at), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.chars.get(self.at).copied();
        self.at += 1;
        next
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.chars.get(self.at) == Some(&c);
        self.at += usize::from(there);
        there
    }

    fn word(&mut self, word: &str, node: Node) -> Option<Node> {
        word.chars().all(|c| self.take(c)).then_some(node)
    }

    /// `around` is how many lists and objects the value is in.
    fn value(&mut self, around: usize) -> Option<Node> {
        self.space();
        match *self.chars.get(self.at)? {
            'n' => self.word("null", Node::Null),
            't' => self.word("true", Node::Truth),
            'f' => self.word("false", Node::Truth),
            '"' => self.text().map(Node::Text),
            '[' if around < 64 => self.list(around + 1),
            '{' if around < 64 => self.members(around + 1),
            '-' | '0'..='9' => self.number(),
            _ => None,
        }
    }

    fn list(&mut self, around: usize) -> Option<Node> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(']') {
            return Some(Node::List(items));
        }
        loop {
            items.push(self.value(around)?);
            self.space();
            match self.next()? {
                ',' => {}
                ']' => return Some(Node::List(items)),
                _ => return None,
            }
        }
    }

    fn members(&mut self, around: usize) -> Option<Node> {
        self.at += 1;
        let mut members: Vec<(String, Node)> = Vec::new();
        self.space();
        if self.take('}') {
            return Some(Node::Members(members));
        }
        loop {
            self.space();
            let key = self.text()?;
            self.space();
            if !self.take(':') {
                return None;
            }
            members.push((key, self.value(around)?));
            self.space();
            match self.next()? {
                ',' => {}
                '}' => break,
                _ => return None,
            }
        }
        let mut keys: Vec<&String> = members.iter().map(|(key, _)| key).collect();
        keys.sort();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        Some(Node::Members(members))
    }

    fn text(&mut self) -> Option<String> {
        if !self.take('"') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.next()? {
                '"' => return Some(text),
                '\\' => text.push(self.escaped()?),
                c if c < ' ' => return None,
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.next()? {
            c @ ('"' | '\\' | '/') => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.hex()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                if !(self.take('\\') && self.take('u')) {
                    return None;
                }
                let second = self.hex()?;
                if !(0xdc00..0xe000).contains(&second) {
                    return None;
                }
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |sum, _| Some(sum * 16 + self.next()?.to_digit(16)?))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.chars.get(self.at), Some('0'..='9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Node> {
        let start = self.at;
        self.take('-');
        let zero = self.chars.get(self.at) == Some(&'0');
        let whole = self.digits();
        if whole == 0 || (zero && whole > 1) {
            return None;
        }
        if self.take('.') && self.digits() == 0 {
            return None;
        }
        if self.take('e') || self.take('E') {
            if !self.take('+') {
                self.take('-');
            }
            if self.digits() == 0 {
                return None;
            }
            self.large_number = true;
        }
        if self.at - start > 200 {
            self.large_number = true;
        }
        Some(Node::Number(self.chars[start..self.at].iter().collect()))
    }
}
