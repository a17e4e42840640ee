//! Dependencies: which crates and libraries each crate may depend on.
//!
//! Dev-dependencies do not count, because a test may compare a crate with any other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::Finding;

/// Rule for the dependencies of a crate.
struct Rule {
    name: &'static str,
    /// Crates of the workspace that may be in its manifest.
    uses: &'static [&'static str],
    /// Libraries that must not be in its manifest.
    not_named: &'static [&'static [&'static str]],
    /// Libraries that must not be among its direct or indirect dependencies.
    not_reached: &'static [&'static [&'static str]],
}

/// Async runtimes, and libraries that need one.
const ASYNC: &[&str] = &[
    "async-std",
    "axum",
    "futures-executor",
    "hyper",
    "hyper-util",
    "smol",
    "tokio",
    "tower",
];

/// HTTP libraries.
const HTTP: &[&str] = &["axum", "http", "httparse", "hyper", "ureq"];

/// Libraries of system calls.
const SYSTEM: &[&str] = &["libc", "mio", "nix", "rustix", "socket2"];

/// Libraries of sockets. Forbidden to crates that use the kernel through `reactor`.
const SOCKETS: &[&str] = &["libc", "mio", "nix", "socket2"];

/// Libraries of threads and logs.
const THREADS: &[&str] = &["crossbeam", "parking_lot", "rayon", "tracing"];

/// Rules for all crates of the workspace, in the order of their dependencies.
const RULES: &[Rule] = &[
    Rule {
        name: "reactor",
        uses: &[],
        not_named: &[],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "wire",
        uses: &[],
        not_named: &[],
        not_reached: &[ASYNC, SYSTEM, THREADS],
    },
    Rule {
        name: "auth",
        uses: &[],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC, HTTP, THREADS],
    },
    Rule {
        name: "tls",
        uses: &[],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC, HTTP, THREADS],
    },
    Rule {
        name: "nkeys",
        uses: &[],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC, HTTP, THREADS],
    },
    Rule {
        name: "datadir",
        uses: &[],
        not_named: &[SOCKETS, THREADS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "graph",
        uses: &["datadir", "simulated"],
        not_named: &[SOCKETS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "history",
        uses: &["graph"],
        not_named: &[SYSTEM, THREADS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "presence",
        uses: &["graph"],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "replication",
        uses: &["graph", "history"],
        not_named: &[SYSTEM, THREADS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "router",
        uses: &["graph", "history", "reactor"],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "eventlog",
        uses: &["datadir", "graph", "history", "router", "simulated"],
        not_named: &[SOCKETS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "server",
        uses: &[
            "auth",
            "graph",
            "history",
            "presence",
            "reactor",
            "router",
            "tls",
            "wire",
            "simulated",
        ],
        not_named: &[SOCKETS],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "erlang",
        uses: &[
            "graph",
            "history",
            "presence",
            "reactor",
            "replication",
            "router",
            "server",
        ],
        not_named: &[SOCKETS, HTTP],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "proxy",
        uses: &["reactor", "wire", "simulated"],
        not_named: &[SOCKETS],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "webhook",
        uses: &["graph", "wire"],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC],
    },
    // Only these may use an async runtime.
    Rule {
        name: "cluster",
        uses: &["graph", "history", "presence", "replication", "router"],
        not_named: &[SYSTEM, HTTP],
        not_reached: &[],
    },
    Rule {
        name: "control",
        uses: &[
            "auth",
            "graph",
            "history",
            "presence",
            "reactor",
            "replication",
            "router",
            "server",
            "tls",
            "webhook",
            "wire",
        ],
        not_named: &[],
        not_reached: &[],
    },
    Rule {
        name: "machine",
        uses: &[],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    // A client that shared code with the server would share its bugs.
    Rule {
        name: "client",
        uses: &["machine"],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "recorder",
        uses: &["machine"],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "load",
        uses: &["cli", "client", "machine", "recorder"],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    // It measures another process.
    Rule {
        name: "bench",
        uses: &["cli", "client", "load", "machine", "recorder"],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "cli",
        uses: &["client", "machine"],
        not_named: &[ASYNC],
        not_reached: &[ASYNC],
    },
    Rule {
        name: "encke-proxy",
        uses: &["cli", "control", "machine", "proxy", "reactor"],
        not_named: &[ASYNC],
        not_reached: &[],
    },
    Rule {
        name: "encke-lab",
        uses: &[
            "bench", "cli", "client", "graph", "load", "machine", "recorder",
        ],
        not_named: &[],
        not_reached: &[ASYNC],
    },
    // What production runs links no tool that measures it.
    Rule {
        name: "encke",
        uses: &[
            "auth",
            "cli",
            "client",
            "cluster",
            "control",
            "erlang",
            "eventlog",
            "graph",
            "history",
            "machine",
            "presence",
            "reactor",
            "replication",
            "router",
            "server",
            "tls",
            "webhook",
        ],
        not_named: &[ASYNC],
        not_reached: &[],
    },
    // Used by tests alone, so no row has it.
    Rule {
        name: "scheduled",
        uses: &[],
        not_named: &[SYSTEM],
        not_reached: &[ASYNC],
    },
    // Behind the feature `sim` of others, which the tests of `sim` alone ask for.
    Rule {
        name: "simulated",
        uses: &["reactor"],
        not_named: &[SOCKETS],
        not_reached: &[ASYNC, HTTP],
    },
    Rule {
        name: "sim",
        uses: &[],
        not_named: &[],
        not_reached: &[ASYNC, HTTP, SYSTEM, THREADS],
    },
    Rule {
        name: "tidy",
        uses: &[],
        not_named: &[ASYNC, SYSTEM],
        not_reached: &[],
    },
];

/// The parts of the output of `cargo metadata` that are used here.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// `dev` or `build`; `None` for a normal dependency.
    kind: Option<String>,
}

impl Dependency {
    fn is_for_tests_alone(&self) -> bool {
        let mut kinds = self.dep_kinds.iter();
        kinds.all(|kind| kind.kind.as_deref() == Some("dev"))
    }
}

/// Direct dependencies of each package, by id, without dev-dependencies.
type Edges<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns a finding for each dependency that the rules forbid, each crate without a rule, and each
/// rule without a crate.
pub fn check(metadata: &Metadata) -> Vec<Finding> {
    let packages = metadata.packages.iter();
    let names: BTreeMap<&str, &str> = packages
        .map(|package| (package.id.as_str(), package.name.as_str()))
        .collect();
    let name = |id: &str| names.get(id).copied().unwrap_or_default();
    let nodes = metadata.resolve.nodes.iter();
    let edges: Edges<'_> = nodes
        .map(|node| {
            let deps = node.deps.iter().filter(|dep| !dep.is_for_tests_alone());
            (node.id.as_str(), deps.map(|dep| dep.pkg.as_str()).collect())
        })
        .collect();
    let members = &metadata.workspace_members;
    let mut findings = Vec::new();
    for member in members {
        let Some(rule) = RULES.iter().find(|rule| rule.name == name(member)) else {
            let unknown = "is not in the table of crates: add it to `RULES` in \
                           harness/tidy/src/dependencies.rs and to docs/ARCHITECTURE.md";
            findings.push(Finding::new(name(member), unknown));
            continue;
        };
        for &direct in edges.get(member.as_str()).into_iter().flatten() {
            let is_member = members.contains(direct);
            let direct = name(direct);
            if is_member && !rule.uses.contains(&direct) {
                let message = format!("must not depend on `{direct}`");
                findings.push(Finding::new(rule.name, message));
            }
            if rule.not_named.iter().any(|list| list.contains(&direct)) {
                let message = format!("must not name `{direct}` among its dependencies");
                findings.push(Finding::new(rule.name, message));
            }
        }
        for (reached, through) in reach(member, &edges) {
            let forbidden = rule.not_reached.iter();
            if forbidden
                .flat_map(|list| list.iter())
                .any(|&it| it == name(reached))
            {
                let path = through.iter().map(|&id| name(id)).collect::<Vec<_>>();
                let message = format!(
                    "must not reach `{}`, as by {}",
                    name(reached),
                    path.join(" -> ")
                );
                findings.push(Finding::new(rule.name, message));
            }
        }
    }
    for rule in RULES {
        if !members.iter().any(|member| name(member) == rule.name) {
            let message = "is in the table of crates, but not in the workspace";
            findings.push(Finding::new(rule.name, message));
        }
    }
    findings
}

/// Returns all that `from` depends on, each with a path that leads to it.
fn reach<'a>(from: &'a str, edges: &Edges<'a>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut reached = BTreeMap::new();
    let mut unexplored = vec![vec![from]];
    while let Some(path) = unexplored.pop() {
        let last = path.last().and_then(|&last| edges.get(last));
        for &next in last.into_iter().flatten() {
            if !reached.contains_key(next) {
                let longer: Vec<_> = path.iter().copied().chain([next]).collect();
                reached.insert(next, longer.clone());
                unexplored.push(longer);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the metadata of all crates in `RULES` without dependencies, and of `more`: a name, a
    /// dependency, its kind.
    fn workspace(members: &[&str], more: &[(&str, &str, Option<&str>)]) -> Metadata {
        let known = RULES.iter().map(|rule| rule.name);
        let members: BTreeSet<&str> = known.chain(members.iter().copied()).collect();
        let mut names = members.clone();
        names.extend(more.iter().flat_map(|&(from, to, _)| [from, to]));
        let nodes = names.iter().map(|&name| {
            let deps = more.iter().filter(|(from, ..)| *from == name);
            let deps = deps.map(|(_, to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]}));
            json!({"id": name, "deps": deps.collect::<Vec<_>>()})
        });
        let packages = names.iter().map(|name| json!({"id": name, "name": name}));
        let metadata = json!({
            "packages": packages.collect::<Vec<_>>(),
            "workspace_members": members,
            "resolve": {"nodes": nodes.collect::<Vec<_>>()},
        });
        serde_json::from_value(metadata).unwrap()
    }

    fn found(members: &[&str], more: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let findings = check(&workspace(members, more));
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_crate_uses_only_the_crates_that_its_row_names() {
        assert_eq!(found(&[], &[("server", "wire", None)]), [""; 0]);
        let proxy = found(&[], &[("proxy", "server", None)]);
        assert_eq!(proxy, ["proxy: must not depend on `server`"]);
        let control = found(&[], &[("control", "proxy", Some("build"))]);
        assert_eq!(control, ["control: must not depend on `proxy`"]);
    }

    #[test]
    fn a_library_is_refused_where_it_is_named() {
        let router = found(&[], &[("router", "rustix", None)]);
        assert_eq!(
            router,
            ["router: must not name `rustix` among its dependencies"]
        );
    }

    #[test]
    fn a_runtime_is_found_behind_other_libraries() {
        let more = [
            ("server", "pool", None),
            ("pool", "queue", None),
            ("queue", "tokio", None),
        ];
        assert_eq!(
            found(&[], &more),
            ["server: must not reach `tokio`, as by server -> pool -> queue -> tokio"]
        );
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        let more = [
            ("wire", "tokio", Some("dev")),
            ("wire", "server", Some("dev")),
        ];
        assert_eq!(found(&[], &more), [""; 0]);
    }

    #[test]
    fn a_new_crate_needs_a_row_and_a_row_a_crate() {
        let new = found(&["stranger"], &[]);
        assert_eq!(new.len(), 1);
        assert!(new[0].starts_with("stranger: is not in the table of crates: add it"));
        let mut metadata = workspace(&[], &[]);
        metadata.workspace_members.remove("wire");
        let findings = check(&metadata);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].place, "wire");
    }
}
