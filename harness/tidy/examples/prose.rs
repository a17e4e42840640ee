//! Applies the rules of `prose` to files: `cargo run -q -p tidy --example prose FILE...`, or to all
//! pages of the repository without an argument.

#![allow(clippy::print_stdout, reason = "prints its findings")]

use std::process::ExitCode;
use std::{env, fs, io};

use tidy::files::{self, TextFile};
use tidy::prose;

fn main() -> io::Result<ExitCode> {
    let named = env::args().skip(1).map(|path| {
        let text = fs::read_to_string(&path)?;
        Ok(TextFile { path, text })
    });
    let mut pages = named.collect::<io::Result<Vec<TextFile>>>()?;
    if pages.is_empty() {
        pages = files::pages(&files::root())?;
    }
    let findings: Vec<_> = pages.iter().flat_map(prose::check).collect();
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
