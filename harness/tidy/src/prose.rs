//! Pages in Markdown: width of lines, length of sentences.

use std::mem;

use crate::Finding;
use crate::files::TextFile;

/// Most columns of a line.
pub const COLUMNS_MAX: usize = 120;

/// Most words of a sentence. Code between backticks is one word.
pub const WORDS_MAX: usize = 35;

/// Words that end with a period which ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "etc.", "vs.", "cf.", "approx."];

/// Returns a finding for each line of `page` that is wider than [`COLUMNS_MAX`] and for each
/// sentence of more than [`WORDS_MAX`] words. Paragraphs, list items, headings and cells of tables
/// are texts of their own: a sentence ends with its text.
pub fn check(page: &TextFile) -> Vec<Finding> {
    let mut findings = wide_lines(page);
    let texts = Texts::of(&page.text);
    findings.extend(texts.iter().flat_map(|text| long_sentences(page, text)));
    findings
}

fn wide_lines(page: &TextFile) -> Vec<Finding> {
    let lines = (1..).zip(page.text.lines());
    let wide = lines.filter_map(|(number, line)| {
        let columns = line.chars().count();
        let is_wide = columns > COLUMNS_MAX && !is_url(line);
        is_wide.then(|| {
            let begin: String = line.trim_start().chars().take(40).collect();
            let message = format!("{columns} columns, at most {COLUMNS_MAX}: {begin} …");
            Finding::at_line(&page.path, number, message)
        })
    });
    wide.collect()
}

/// A line that is only a URL cannot be broken. It may be a list item or a definition of a link.
fn is_url(line: &str) -> bool {
    let last = line.split_whitespace().next_back().unwrap_or_default();
    let words = line.split_whitespace().count();
    let begins = line.trim_start().starts_with(['-', '*', '[', '<']);
    last.contains("://") && (words == 1 || words == 2 && begins)
}

fn long_sentences(page: &TextFile, text: &Text) -> Vec<Finding> {
    let sentences = text.sentences().into_iter();
    let long = sentences.filter(|sentence| sentence.words.len() > WORDS_MAX);
    let findings = long.map(|sentence| {
        let count = sentence.words.len();
        let begin = sentence.words[..8].join(" ");
        let message = format!("{count} words in a sentence, at most {WORDS_MAX}: {begin} …");
        Finding::at_line(&page.path, sentence.line, message)
    });
    findings.collect()
}

#[derive(Debug)]
struct Sentence {
    /// Number of the line with its first word.
    line: usize,
    words: Vec<String>,
}

/// A paragraph, a list item, a heading or a cell.
#[derive(Debug, Default)]
struct Text {
    /// Its lines, with their numbers.
    lines: Vec<(usize, String)>,
}

impl Text {
    fn sentences(&self) -> Vec<Sentence> {
        let mut sentences = Vec::new();
        let mut words = Vec::new();
        let mut begin = 0;
        for (line, word) in self.words() {
            if word.contains(char::is_alphanumeric) {
                if words.is_empty() {
                    begin = line;
                }
                words.push(word.clone());
            }
            if ends_sentence(&word) {
                let (line, words) = (begin, mem::take(&mut words));
                sentences.push(Sentence { line, words });
            }
        }
        sentences.push(Sentence { line: begin, words });
        sentences
    }

    /// Returns the words with the numbers of their lines. A link is its text.
    fn words(&self) -> Vec<(usize, String)> {
        let mut words = vec![];
        let mut word = String::new();
        let mut line = 0;
        let mut in_code = false;
        let mut in_target = false;
        let mut before = ' ';
        let characters = self.lines.iter().flat_map(|(number, line)| {
            let characters = line.trim().chars().chain(['\n']);
            characters.map(|character| (*number, character))
        });
        for (number, character) in characters {
            match character {
                '`' => in_code = !in_code,
                '(' if before == ']' && !in_code => in_target = true,
                _ => {}
            }
            if in_target {
                in_target = character != ')';
            } else if character.is_whitespace() && !in_code {
                if !word.is_empty() {
                    words.push((line, mem::take(&mut word)));
                }
            } else {
                if word.is_empty() {
                    line = number;
                }
                word.push(if character == '\n' { ' ' } else { character });
            }
            before = character;
        }
        if !word.is_empty() {
            words.push((line, word));
        }
        words
    }
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', ')', ']', '*', '_', '”', '’']);
    let is_abbreviated = ABBREVIATIONS.contains(&word.trim_start_matches(['(', '[']));
    word.ends_with(['.', '?', '!']) && !is_abbreviated
}

/// Divides a page into its texts, without its code and comments.
#[derive(Debug, Default)]
struct Texts {
    finished: Vec<Text>,
    current: Text,
    /// The fence that ends the block of code.
    fence: Option<String>,
    in_comment: bool,
    after_blank: bool,
    in_code: bool,
    /// Column of the text of the list item.
    column: usize,
}

impl Texts {
    fn of(page: &str) -> Vec<Text> {
        let mut texts = Self {
            after_blank: true,
            ..Self::default()
        };
        for (number, line) in (1..).zip(page.lines()) {
            texts.add(number, line);
        }
        texts.finish();
        texts.finished
    }

    fn add(&mut self, number: usize, line: &str) {
        let text = line.trim_start();
        if self.is_hidden(line) {
            self.finish();
        } else if text.trim_end().is_empty() {
            self.finish();
            self.after_blank = true;
            return;
        } else if text.starts_with('|') {
            self.finish();
            for cell in cells(text) {
                let lines = vec![(number, cell)];
                self.finished.push(Text { lines });
            }
        } else if text.starts_with('#') {
            let lines = vec![(number, text.trim_start_matches('#').to_owned())];
            self.finish();
            self.finished.push(Text { lines });
        } else {
            let quoted = text.trim_start_matches(['>', ' ']);
            let item = item(quoted);
            if let Some(item) = item {
                self.finish();
                self.column = line.len() - item.len();
            } else if self.after_blank && line.len() - text.len() < self.column {
                self.column = 0;
            }
            let text = item.unwrap_or(quoted).to_owned();
            self.current.lines.push((number, text));
        }
        self.after_blank = false;
    }

    /// Whether the line is code or within a comment.
    fn is_hidden(&mut self, line: &str) -> bool {
        let text = line.trim();
        if let Some(fence) = &self.fence {
            if text.starts_with(fence.as_str()) {
                self.fence = None;
            }
            return true;
        }
        if self.in_comment || text.starts_with("<!--") {
            self.in_comment = !text.ends_with("-->");
            return true;
        }
        let fences = ["```", "~~~"];
        if let Some(fence) = fences.into_iter().find(|fence| text.starts_with(fence)) {
            self.fence = Some(fence.to_owned());
            return true;
        }
        let indent = line.len() - line.trim_start().len();
        let is_indented = indent >= self.column + 4 && !text.is_empty();
        self.in_code = is_indented && (self.after_blank || self.in_code);
        self.in_code
    }

    fn finish(&mut self) {
        if !self.current.lines.is_empty() {
            self.finished.push(mem::take(&mut self.current));
        }
    }
}

/// Returns the text of a list item after its bullet or number.
fn item(text: &str) -> Option<&str> {
    let numbered = text.trim_start_matches(|first: char| first.is_ascii_digit());
    let bullets = ["- ", "* ", "+ "];
    if numbered.len() < text.len() {
        numbered.strip_prefix(". ")
    } else {
        bullets.iter().find_map(|bullet| text.strip_prefix(bullet))
    }
}

/// Divides a row of a table at each `|` that no `\` precedes.
fn cells(row: &str) -> Vec<String> {
    let escaped = row.replace("\\|", "\u{0}");
    let cells = escaped.split('|');
    cells.map(|cell| cell.replace('\u{0}', "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let (path, text) = ("a.md".to_owned(), page.to_owned());
        let findings = check(&TextFile { path, text });
        findings.iter().map(ToString::to_string).collect()
    }

    fn words(count: usize) -> String {
        let words: Vec<String> = (1..=count).map(|number| format!("w{number}")).collect();
        words.join("\n")
    }

    #[test]
    fn a_line_ends_at_120_columns() {
        assert_eq!(found(&"é".repeat(120)).len(), 0);
        assert_eq!(found(&"é".repeat(121)).len(), 1);
        assert_eq!(found(&format!("| a | {} |", "b".repeat(120))).len(), 1);
        assert_eq!(found(&format!("    code {}", "b".repeat(120))).len(), 1);
    }

    #[test]
    fn a_line_that_is_a_url_may_be_longer() {
        let url = format!("https://a/{}", "b".repeat(120));
        assert!(found(&url).is_empty());
        assert!(found(&format!("- {url}")).is_empty());
        assert!(found(&format!("[name]: {url}")).is_empty());
        assert_eq!(found(&format!("see {url}")).len(), 1);
    }

    #[test]
    fn a_sentence_has_35_words() {
        assert!(found(&format!("{}.", words(35))).is_empty());
        let long = found(&format!("# A\n\nShort. And\n{}.", words(35)));
        let expected = "a.md:3: 36 words in a sentence, at most 35: And w1 w2 w3 w4 w5 w6 w7 …";
        assert_eq!(long, [expected]);
    }

    #[test]
    fn a_sentence_ends_with_its_mark_or_its_text() {
        let part = words(20);
        assert!(found(&format!("{part}. {part}! {part}? {part}")).is_empty());
        assert!(found(&format!("**{part}.** ({part}.) {part}")).is_empty());
        assert!(found(&format!("{part}\n\n{part}")).is_empty());
        assert!(found(&format!("# {part}\n{part}")).len() <= 1);
        assert!(found(&format!("{part}\n- {part}\n- {part}\n1. {part}")).is_empty());
        assert_eq!(found(&format!("{part}, e.g. {part}")).len(), 1);
        assert_eq!(found(&format!("{part}: {part}; {part}")).len(), 1);
        assert_eq!(found(&format!("- {part}\n  {part}")).len(), 1);
        assert_eq!(found(&format!("> {part}\n> {part}")).len(), 1);
    }

    #[test]
    fn a_cell_is_a_text() {
        let part = words(20).replace('\n', " ");
        let short = "| a | b |\n|---|---|\n| a b | c \\| d |\n";
        assert!(found(short).is_empty());
        let long = found(&format!("| {part} | {part} |\n| {part} \\| {part} | c |"));
        let sentences = long.iter().filter(|finding| finding.contains("sentence"));
        assert_eq!(sentences.count(), 1);
    }

    #[test]
    fn a_link_is_its_text_and_code_is_a_word() {
        let link = format!("{} [a](b.md#c) [d\ne](f.md)", words(32));
        assert!(found(&link).is_empty());
        assert_eq!(found(&format!("{link} g")).len(), 1);
        assert!(found(&format!("{} `a b c. d` e", words(33))).is_empty());
        assert_eq!(found(&format!("{} `a b c. d` e", words(34))).len(), 1);
    }

    #[test]
    fn code_and_comments_are_no_prose() {
        let part = words(50);
        assert!(found(&format!("```sh\n{part}\n```\n")).is_empty());
        assert!(found(&format!("<!-- {part}\n-->\n")).is_empty());
        let indented = format!("    {}", part.replace('\n', "\n    "));
        assert!(found(&format!("a\n\n{indented}\n")).is_empty());
        let item = format!("- a\n\n      {}", part.replace('\n', "\n      "));
        assert!(found(&item).is_empty());
        assert_eq!(found(&format!("```\ncode\n```\n{part}")).len(), 1);
        assert_eq!(found(&format!("<!-- a -->\n{part}")).len(), 1);
        assert_eq!(
            found(&format!("- a\n\n  {}", part.replace('\n', "\n  "))).len(),
            1
        );
    }
}
