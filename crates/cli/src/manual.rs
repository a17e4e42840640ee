//! Completion scripts and manual pages, generated from the definition of a command line.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell that reads the script
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// The command whose page is printed; without one, the page of the program
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write the page of every command into this directory instead
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the completion script of `program`.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn completions(mut program: Command, arguments: &CompletionsArguments) -> Result<(), Failure> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    print(&script)
}

/// Prints a manual page of `program`, or writes all of them to a directory.
///
/// # Errors
///
/// When there is no such command, or the pages cannot be written.
pub fn man(program: Command, arguments: &ManArguments) -> Result<(), Failure> {
    let mut root = program.disable_help_subcommand(true);
    // Gives subcommands their full names, such as `encke-graph-check`.
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
    let program = root.get_name().to_owned();
    let mut command = root;
    for word in words {
        command = command.find_subcommand(word).cloned().ok_or_else(|| {
            Failure::misused(format_args!(
                "`{program} {}` is not a command; see {program} --help",
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
