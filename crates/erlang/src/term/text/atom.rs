//! Atoms as in source code, quoted where necessary.

use super::string;

/// Reserved words.
const RESERVED: [&str; 27] = [
    "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case",
    "catch", "cond", "div", "end", "fun", "if", "let", "not", "of", "or", "orelse", "receive",
    "rem", "try", "when", "xor",
];

pub(super) fn push(text: &str, out: &mut String) {
    if is_bare(text) {
        out.push_str(text);
    } else {
        string::push_quoted(text, '\'', out);
    }
}

/// Appends the name of a module or function in `fun m:f/1`. The emulator prints these names; it
/// quotes no reserved words and does not count `@` as a letter.
pub(super) fn push_of_fun(text: &str, out: &mut String) {
    if is_name(text) && !text.contains('@') {
        out.push_str(text);
    } else {
        string::push_quoted(text, '\'', out);
    }
}

fn is_bare(text: &str) -> bool {
    is_name(text) && !RESERVED.contains(&text)
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_small) && characters.all(is_of_name)
}

const fn is_small(character: char) -> bool {
    matches!(character, 'a'..='z' | 'ß'..='ÿ') && character != '÷'
}

const fn is_of_name(character: char) -> bool {
    is_small(character)
        || matches!(character, 'A'..='Z' | '0'..='9' | '_' | '@')
        || matches!(character, 'À'..='Þ') && character != '×'
}
