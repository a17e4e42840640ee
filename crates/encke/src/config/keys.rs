//! Every setting of `encke serve`, once: its name, its default, its help.
//!
//! Flags, environment variables, the file and the printed configuration are all made of this table.
//! Must never say what a value means: that is [`Config`](super::Config)'s.

use clap::{Arg, ArgAction};

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// On or off.
    Switch,
    /// A whole number.
    Number,
    /// Any text; the string is its name in the help.
    Text(&'static str),
    /// A path. One in the file or the environment is relative to where the server is started.
    Path,
    /// Several texts.
    List(&'static str),
}

/// Default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// This text, as if the user had written it.
    Is(&'static str),
    /// A value found on the machine; the string describes it.
    Found(&'static str),
    /// No value; the string describes the effect.
    Unset(&'static str),
}

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name in the file and, after `--`, on the command line.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) default: Otherwise,
    /// Whether its value must not be printed.
    pub(crate) secret: bool,
    help: &'static str,
}

const fn key(name: &'static str, shape: Shape, default: Otherwise, help: &'static str) -> Key {
    Key {
        name,
        shape,
        default,
        secret: false,
        help,
    }
}

use Otherwise::{Found, Is, Unset};
use Shape::{List, Number, Path, Switch, Text};

/// All settings, in the order in which they are printed.
pub(crate) const KEYS: &[Key] = &[
    key(
        "listen",
        Text("ADDRESS"),
        Is("127.0.0.1:8000"),
        "Address where clients connect; port 0 takes a free port",
    ),
    key(
        "control",
        Text("ADDRESS"),
        Is("127.0.0.1:8001"),
        "Address where publishers and operators connect",
    ),
    key(
        "allow-anonymous",
        Switch,
        Is("false"),
        "Allow a public listener without authentication: every client can read every id",
    ),
    Key {
        secret: true,
        ..key(
            "control-token",
            Text("TOKEN"),
            Unset("no token needed"),
            "Token that control requests must send. A file or ENCKE_CONTROL_TOKEN is safer, \
             because other users of the machine can see command lines",
        )
    },
    key(
        "control-token-file",
        Path,
        Unset("no file"),
        "File with the control token",
    ),
    key(
        "demo",
        Switch,
        Is("false"),
        "Let the page at / publish and subscribe, to try the server: only for browsers on this \
         machine that connect without a proxy, and only without a control token",
    ),
    key(
        "cors-origin",
        List("ORIGIN"),
        Unset("none"),
        "Web origin whose pages may read streams; `*` for all; may be repeated",
    ),
    key(
        "data",
        Text("DIR"),
        Is("./encke-data"),
        "Directory that stores the subscriptions; created if it does not exist",
    ),
    key(
        "memory",
        Switch,
        Is("false"),
        "Keep subscriptions in memory only; they are lost when the server ends",
    ),
    key(
        "workers",
        Number,
        Found("one for each core"),
        "Number of worker threads",
    ),
    key(
        "private-fds",
        Switch,
        Is("false"),
        "Give each worker a descriptor table of its own, so that the limit on open files holds for \
         each",
    ),
    key(
        "max-connections",
        Number,
        Unset("no limit"),
        "Simultaneous connections; further ones are answered with 503",
    ),
    key(
        "max-connections-per-address",
        Number,
        Unset("no limit"),
        "Simultaneous connections from one IPv4 address or one IPv6 /64 network; further ones are \
         answered with 503",
    ),
    key("event-bytes", Text("SIZE"), Is("64KiB"), "Largest event"),
    key(
        "backlog-bytes",
        Text("SIZE"),
        Is("256KiB"),
        "Close a session when more than this many bytes wait for its full socket",
    ),
    key(
        "stall-timeout",
        Text("TIME"),
        Is("10s"),
        "Close a session whose full socket accepts no data for this long",
    ),
    key(
        "head-timeout",
        Text("TIME"),
        Is("10s"),
        "Time limit for the head of a request to arrive",
    ),
    key(
        "heartbeat",
        Text("TIME"),
        Is("25s"),
        "Interval of heartbeats to an idle session; 0 for none",
    ),
    key(
        "retry",
        Text("TIME"),
        Is("3s"),
        "Reconnect delay that is sent to clients (`retry:`)",
    ),
    key(
        "user-timeout",
        Text("TIME"),
        Is("30s"),
        "Close a connection whose peer acknowledges no data for this long (TCP_USER_TIMEOUT)",
    ),
    key(
        "drain-timeout",
        Text("TIME"),
        Is("10s"),
        "Time limit for the server to shut down",
    ),
    key(
        "drain-spread",
        Text("TIME"),
        Is("60s"),
        "At shutdown, spread the reconnects of clients over this time",
    ),
    key(
        "erlang-name",
        Text("NODE"),
        Unset("no Erlang node"),
        "Join an Erlang cluster as the node of this name, like encke@127.0.0.1",
    ),
    key(
        "erlang-cookie-file",
        Path,
        Unset("~/.erlang.cookie"),
        "File with the cookie of the Erlang cluster; must be readable by its owner only",
    ),
    key(
        "erlang-listen",
        Text("ADDRESS"),
        Is("127.0.0.1:0"),
        "Address where Erlang nodes connect; port 0 takes a free port",
    ),
    key(
        "erlang-connect",
        List("NODE"),
        Unset("none"),
        "Erlang node to connect to and to stay connected with; may be repeated",
    ),
    key(
        "erlang-epmd-port",
        Number,
        Unset("ERL_EPMD_PORT, or 4369"),
        "Port of epmd, where Erlang nodes look up each other's ports",
    ),
    key(
        "erlang-start-epmd",
        Switch,
        Is("false"),
        "Start epmd if it does not answer",
    ),
    key(
        "erlang-tick-time",
        Text("TIME"),
        Is("60s"),
        "Disconnect an Erlang node after this long without data; the same in all nodes \
         (net_ticktime)",
    ),
    key(
        "log-format",
        Text("FORMAT"),
        Is("text"),
        "Format of the log on standard error: text or json",
    ),
    key(
        "log-level",
        Text("LEVEL"),
        Is("info"),
        "Log level: off, error, warn, info, debug or trace",
    ),
    key(
        "ports-file",
        Path,
        Unset("no file"),
        "When ready, write the addresses and the process id to this file, as JSON",
    ),
];

impl Key {
    /// The setting of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("ENCKE_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// Its flag.
    pub(super) fn argument(&self) -> Arg {
        let default = match self.default {
            Is(_) if self.shape == Switch => String::new(),
            Is(text) | Found(text) => format!(" [default: {text}]"),
            Unset(_) => String::new(),
        };
        let argument = Arg::new(self.name)
            .long(self.name)
            .help(format!("{}{default}", self.help));
        // If a flag is repeated, the last one counts: scripts append to the flags they were given.
        let single = argument.clone().overrides_with(self.name);
        match self.shape {
            // `--private-fds=false` overrides the file.
            Shape::Switch => single
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Shape::Number => single.value_name("N"),
            Shape::Text(name) => single.value_name(name),
            Shape::Path => single.value_name("FILE"),
            Shape::List(name) => argument.value_name(name).action(ArgAction::Append),
        }
    }
}

/// The name among `names` that a misspelt one most likely meant.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase().replace('_', "-");
    names
        .map(|name| {
            let spelt = name.to_ascii_lowercase().replace('_', "-");
            (strsim::levenshtein(&wrong, &spelt), name)
        })
        .min()
        // Farther than a third of the word is another word.
        .filter(|&(distance, name)| distance <= name.len().div_ceil(3))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_one_meant() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("hartbeat", names()), Some("heartbeat"));
        assert_eq!(nearest("backlog_bytes", names()), Some("backlog-bytes"));
        assert_eq!(nearest("worker", names()), Some("workers"));
        assert_eq!(nearest("zzz", names()), None);
    }

    #[test]
    fn names_and_variables_differ_from_each_other() {
        let mut variables: Vec<_> = KEYS.iter().map(Key::variable).collect();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), KEYS.len());
        assert_eq!(
            Key::find("private-fds").unwrap().variable(),
            "ENCKE_PRIVATE_FDS"
        );
    }
}
