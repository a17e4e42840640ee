//! `encke completions` and `encke man`: completion scripts and manual pages, generated from the
//! definition of the command line.

use std::io::{self, Write};

use clap::{Command, CommandFactory};

use crate::arguments::{Arguments, CompletionsArguments, ManArguments};
use crate::failure::Failure;

/// Prints a completion script.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "encke",
        &mut script,
    );
    print(&script)
}

/// Prints a manual page, or writes all of them to a directory.
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    // Gives subcommands their full names, such as `encke-friends-load`.
    root.build();
    if let Some(directory) = &arguments.output {
        return clap_mangen::generate_to(root, directory).map_err(|error| {
            let path = directory.display();
            Failure::failed(format_args!(
                "the manual pages cannot be written to {path}: {error}"
            ))
        });
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(find(root, &arguments.command)?)
        .render(&mut page)
        .map_err(Failure::failed)?;
    print(&page)
}

/// Returns the command whose name is `words`.
fn find(root: Command, words: &[String]) -> Result<Command, Failure> {
    let mut command = root;
    for word in words {
        command = command.find_subcommand(word).cloned().ok_or_else(|| {
            Failure::misused(format_args!(
                "`encke {}` is not a command; see encke --help",
                words.join(" ")
            ))
        })?;
    }
    Ok(command)
}

/// Writes to standard output. It is a success if the reader has closed it.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(
            format_args!("standard output cannot be written to: {error}"),
        )),
        _ => Ok(()),
    }
}
