//! Tokens of Rust source: words and marks with their lines. Comments are dropped, literals keep
//! only their place, and code that only tests compile is cut out.

/// A token and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: usize,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An identifier or a keyword.
    Word(&'a str),
    /// `::`.
    PathSeparator,
    /// Any other mark, one character each.
    Mark(char),
    /// A string, a character, a number or a lifetime.
    Literal,
}

/// Returns the tokens of `text` that are compiled without tests.
pub(super) fn product_tokens(text: &str) -> Vec<Token<'_>> {
    without_tests(&tokens(text))
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
    };
    std::iter::from_fn(|| lexer.next_token()).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn next_token(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.rest();
            let next = rest.chars().next()?;
            if next.is_whitespace() {
                self.skip(next.len_utf8());
            } else if rest.starts_with("//") {
                self.skip(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.skip(block_comment(rest));
            } else {
                let line = self.line;
                let (kind, length) = token(rest, next);
                self.skip(length);
                return Some(Token { kind, line });
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self, length: usize) {
        let skipped = &self.text[self.at..self.at + length];
        self.line += skipped.matches('\n').count();
        self.at += length;
    }
}

/// Returns the token at the start of `rest`, and its length.
fn token(rest: &str, next: char) -> (Kind<'_>, usize) {
    if let Some(length) = raw_string(rest) {
        return (Kind::Literal, length);
    }
    if let Some(raw) = rest.strip_prefix("r#") {
        let length = word(raw);
        return (Kind::Word(&raw[..length]), 2 + length);
    }
    for prefix in ["", "b", "c"] {
        match rest.strip_prefix(prefix) {
            Some(string) if string.starts_with('"') => {
                return (Kind::Literal, prefix.len() + quoted(string, '"'));
            }
            Some(character) if character.starts_with('\'') => {
                return (
                    Kind::Literal,
                    prefix.len() + character_or_lifetime(character),
                );
            }
            _ => {}
        }
    }
    if next.is_ascii_digit() {
        return (Kind::Literal, word(rest));
    }
    if next == '_' || next.is_alphabetic() {
        let length = word(rest);
        return (Kind::Word(&rest[..length]), length);
    }
    if rest.starts_with("::") {
        return (Kind::PathSeparator, 2);
    }
    (Kind::Mark(next), next.len_utf8())
}

fn word(rest: &str) -> usize {
    rest.find(|it: char| it != '_' && !it.is_alphanumeric())
        .unwrap_or(rest.len())
}

/// Returns the length of a comment that may contain others.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let raw = ["r", "br", "cr"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let content = raw[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &raw[..hashes]);
    let length = content.find(&end).unwrap_or(content.len()) + end.len();
    Some((rest.len() - content.len() + length).min(rest.len()))
}

/// Returns the length of a literal between two `quote`s.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return at + 1;
        }
    }
    rest.len()
}

fn character_or_lifetime(rest: &str) -> usize {
    let mut characters = rest.chars().skip(1);
    let first = characters.next();
    if first == Some('\\') || characters.next() == Some('\'') {
        quoted(rest, '\'')
    } else {
        1 + word(&rest[1..])
    }
}

/// Returns `tokens` without the items, fields and statements below an attribute such as
/// `#[cfg(test)]`.
fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = attribute(&tokens[at..]) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        let inner = is(tokens.get(at + 1), '!');
        if !is_of_tests(&tokens[at..at + end]) {
            kept.extend(&tokens[at..at + end]);
            at += end;
        } else if inner {
            return Vec::new();
        } else {
            at += end;
            while let Some(end) = attribute(&tokens[at..]) {
                at += end;
            }
            at += item(&tokens[at..]);
        }
    }
    kept
}

fn is(token: Option<&Token<'_>>, mark: char) -> bool {
    token.is_some_and(|token| token.kind == Kind::Mark(mark))
}

/// Returns the length of the attribute that `tokens` begin with.
fn attribute(tokens: &[Token<'_>]) -> Option<usize> {
    let bracket = if is(tokens.get(1), '!') { 2 } else { 1 };
    if !is(tokens.first(), '#') || !is(tokens.get(bracket), '[') {
        return None;
    }
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark('[') => depth += 1,
            Kind::Mark(']') if depth == 1 => return Some(at + 1),
            Kind::Mark(']') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns whether an attribute is a `cfg` that only tests, simulations and fuzzing fulfil.
fn is_of_tests(attribute: &[Token<'_>]) -> bool {
    let has = |word| attribute.iter().any(|it| it.kind == Kind::Word(word));
    let is_test = has("test") || has("fuzzing");
    attribute.iter().find_map(|it| match it.kind {
        Kind::Word(word) => Some(word),
        _ => None,
    }) == Some("cfg")
        && is_test
        && !has("not")
}

/// Returns the length of the item, field, arm or statement that `tokens` begin with.
fn item(tokens: &[Token<'_>]) -> usize {
    let ends_at_semicolon = tokens
        .iter()
        .find_map(|token| match token.kind {
            Kind::Word("pub" | "crate" | "super" | "in") | Kind::Mark('(' | ')') => None,
            kind => Some(kind),
        })
        .is_some_and(|first| {
            let Kind::Word(word) = first else {
                return false;
            };
            let is_function = tokens.iter().take(4).any(|it| it.kind == Kind::Word("fn"));
            matches!(word, "use" | "static" | "type" | "let") || word == "const" && !is_function
        });
    let is_item = tokens.iter().take(6).any(|token| {
        let keyword = |word| {
            matches!(
                word,
                "fn" | "struct" | "enum" | "impl" | "trait" | "mod" | "macro_rules"
            )
        };
        matches!(token.kind, Kind::Word(word) if keyword(word))
    });
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark('{' | '(' | '[') => depth += 1,
            Kind::Mark('}') if depth == 1 && !ends_at_semicolon => return at + 1,
            Kind::Mark('}' | ')' | ']') if depth == 0 => return at,
            Kind::Mark('}' | ')' | ']') => depth -= 1,
            Kind::Mark(';') if depth == 0 => return at + 1,
            Kind::Mark(',') if depth == 0 && !is_item && !ends_at_semicolon => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let tokens = product_tokens(text).into_iter();
        tokens
            .filter_map(|token| match token.kind {
                Kind::Word(word) => Some(word),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn comments_and_literals_have_no_words() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(words(r#"a "b \" c" b"d" 'e' '\'' f"#), ["a", "f"]);
        assert_eq!(
            words("r\"a\" r#\"b \" c\"# br##\"d\"# e\"## f r#type"),
            ["f", "type"]
        );
        assert_eq!(words("&'a b<'static> 0xff_u8 'c'"), ["b"]);
    }

    #[test]
    fn tokens_know_their_lines() {
        let lines: Vec<usize> = tokens("a\n\"b\n\" c\n/*\n*/ d")
            .iter()
            .map(|it| it.line)
            .collect();
        assert_eq!(lines, [1, 2, 3, 5]);
    }

    #[test]
    fn code_of_tests_is_cut_out() {
        assert_eq!(words("#[cfg(test)] mod tests { a } b"), ["b"]);
        assert_eq!(words("#[cfg(test)] #[allow(x)] use a::{b, c}; d"), ["d"]);
        assert_eq!(
            words("#[cfg(any(test, feature = \"sim\"))] pub(crate) fn a() { b } c"),
            ["c"]
        );
        assert_eq!(
            words("struct S { #[cfg(test)] a: A, b: B }"),
            ["struct", "S", "b", "B"]
        );
        assert_eq!(words("S { #[cfg(test)] a: f(x, y) }"), ["S"]);
        assert_eq!(words("#[cfg(test)] const A: [u8; 2] = { 1 }; b"), ["b"]);
        assert_eq!(words("#![cfg(test)] a"), [""; 0]);
        assert_eq!(words("#[cfg(not(test))] a"), ["cfg", "not", "test", "a"]);
        assert_eq!(words("#[test] fn a() {}"), ["test", "fn", "a"]);
    }
}
