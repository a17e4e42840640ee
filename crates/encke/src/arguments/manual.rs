//! `encke completions` and `encke man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  encke completions bash > /etc/bash_completion.d/encke
  encke completions zsh > ~/.zfunc/_encke              # with ~/.zfunc in $fpath
  encke completions fish > ~/.config/fish/completions/encke.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  encke man publish | man -l -
  encke man --output /usr/local/share/man/man1";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell that reads the script
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The command whose page is printed, like `publish` or `friends load`; without one, the page
    /// of encke itself
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the page of every command into this directory instead
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}
