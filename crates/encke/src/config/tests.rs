use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use clap::{Args as _, Command};
use eventlog::SyncPolicy;

use super::layers::{Layer, Source};
use super::*;

/// The file, the environment and the flags of a configuration.
#[derive(Default)]
struct Given<'a> {
    file: Option<&'a str>,
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

impl Given<'_> {
    fn layers(&self) -> (Layers, Vec<String>) {
        let flags = Flags::<ServeFlags>::augment_args(Command::new("serve"))
            .no_binary_name(true)
            .try_get_matches_from(self.flags)
            .expect("flags are well-formed");
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let (mut layers, mut problems) = Sources::new(None, variables, flags).read();
        if let Some(text) = self.file {
            // As `Sources` does, without a file on disk. The file has the lowest precedence.
            let path = Path::new("encke.toml");
            let mut below = Layers::default();
            let layer = Layer::of_file(path, text, &mut problems);
            below.lay(&Source::File(path.to_owned()), layer);
            below.lay_all(layers);
            layers = below;
        }
        (layers, problems)
    }

    fn resolve(&self) -> Result<Config, Vec<String>> {
        let (layers, problems) = self.layers();
        resolve(&layers, problems)
    }

    /// Returns the only problem.
    fn problem(&self) -> String {
        let problems = self.resolve().expect_err("something is wrong");
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }
}

fn file(text: &str) -> Given<'_> {
    Given {
        file: Some(text),
        ..Given::default()
    }
}

fn flags<'a>(flags: &'a [&'a str]) -> Given<'a> {
    Given {
        flags,
        ..Given::default()
    }
}

#[test]
fn an_empty_configuration_is_the_defaults_of_the_data_path() {
    let config = Given::default().resolve().unwrap();
    let (ours, theirs) = (config.settings, Settings::default());
    assert_eq!(config.addresses.public, ["127.0.0.1:8000".parse().unwrap()]);
    assert_eq!(config.addresses.control.to_string(), "127.0.0.1:8001");
    assert_eq!(config.event_bytes, 65_536);
    assert!(config.tokens.is_empty());
    assert!(ours.workers >= 1);
    assert_eq!(ours.history.map(|limits| limits.bytes), Some(64 << 20));
    let live = LiveSettings {
        buffer_bytes: theirs.live.buffer_bytes,
        ..LiveSettings::clone(&ours.live)
    };
    let all = Settings {
        workers: theirs.workers,
        history: theirs.history,
        live: Arc::new(live),
        ..ours
    };
    assert_eq!(format!("{all:?}"), format!("{theirs:?}"));
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let text = "heartbeat = \"1s\"\nretry = \"1s\"\nstall-timeout = \"1s\"\nprivate-fds = true";
    let given = Given {
        file: Some(text),
        variables: &[("ENCKE_RETRY", "2s"), ("ENCKE_STALL_TIMEOUT", "2s")],
        flags: &["--stall-timeout", "3s", "--private-fds=false"],
    };
    let settings = given.resolve().unwrap().settings;
    let live = settings.live;
    let seconds = [live.heartbeat, live.retry, live.stall_timeout];
    assert_eq!(seconds, [1, 2, 3].map(Duration::from_secs));
    assert!(!settings.private_fds);
}

#[test]
fn the_place_of_the_graph_is_that_of_the_source_with_precedence() {
    let kept = |file: &str, flags: &[&str]| {
        let given = Given {
            file: Some(file),
            variables: &[],
            flags,
        };
        let data = given.resolve().unwrap().data;
        data.map(|path| path.display().to_string())
    };
    let here = |path: &str| Some(path.to_owned());
    assert_eq!(kept("", &[]), here("./encke-data"));
    assert_eq!(kept("data = \"/a\"", &[]), here("/a"));
    assert_eq!(kept("data = \"/a\"", &["--memory"]), None);
    assert_eq!(kept("memory = true", &[]), None);
    assert_eq!(kept("memory = true", &["--data", "/b"]), here("/b"));
    assert_eq!(
        kept("memory = true", &["--memory=false"]),
        here("./encke-data")
    );
    assert_eq!(kept("data = \"/a\"\nmemory = true", &[]), None);
}

#[test]
fn values_of_each_type_are_read_from_each_source() {
    let text = "workers = 3\nprivate-fds = true\nheartbeat = 0\nevent-bytes = 1000\n\
                cors-origin = [\"https://a\", \"https://b\"]";
    let config = file(text).resolve().unwrap();
    assert_eq!((config.settings.workers, config.event_bytes), (3, 1000));
    assert!(config.settings.private_fds && config.settings.live.heartbeat.is_zero());
    assert_eq!(
        config.settings.live.cors_origins,
        ["https://a", "https://b"]
    );

    let variables = &[
        ("ENCKE_PRIVATE_FDS", "1"),
        ("ENCKE_CORS_ORIGIN", "https://a, *"),
    ];
    let config = Given {
        variables,
        ..Given::default()
    }
    .resolve()
    .unwrap();
    assert!(config.settings.private_fds);
    assert_eq!(config.settings.live.cors_origins, ["https://a", "*"]);

    let given = flags(&[
        "--private-fds",
        "--cors-origin",
        "https://a",
        "--cors-origin",
        "null",
    ]);
    let config = given.resolve().unwrap();
    assert!(config.settings.private_fds);
    assert_eq!(config.settings.live.cors_origins, ["https://a", "null"]);
}

#[test]
fn an_unknown_name_is_an_error_that_names_it() {
    let problem = file("hartbeat = \"1s\"").problem();
    assert_eq!(
        problem,
        "`hartbeat` in encke.toml is not a setting; did you mean heartbeat?"
    );
    let variables = &[("ENCKE_WORKRS", "3")];
    let problem = Given {
        variables,
        ..Given::default()
    }
    .problem();
    assert!(problem.contains("ENCKE_WORKRS is unknown; did you mean ENCKE_WORKERS?"));
    assert!(file("[server]\nworkers = 1").problem().contains("`server`"));
}

#[test]
fn variables_of_clients_and_of_orchestrators_are_not_misspelt_settings() {
    let variables = &[
        ("ENCKE_URL", "http://127.0.0.1:8000"),
        ("ENCKE_CONFIG", "x"),
        ("ENCKE_CONTROL", "http://127.0.0.1:9001/"),
        ("ENCKE_PORT", "tcp://10.0.0.1:8000"),
        ("ENCKE_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("ENCKE_SERVICE_HOST", "10.0.0.1"),
        ("PATH", "/bin"),
    ];
    let config = Given {
        variables,
        ..Given::default()
    }
    .resolve()
    .unwrap();
    assert_eq!(config.addresses.control.to_string(), "127.0.0.1:9001");
}

#[test]
fn every_problem_is_reported_at_once_and_says_where_it_is() {
    let given = Given {
        file: Some("workers = \"two\"\nretry = \"3\""),
        variables: &[("ENCKE_EVENT_BYTES", "1")],
        flags: &["--head-timeout", "0"],
    };
    let problems = given.resolve().unwrap_err().join("\n");
    for wrong in [
        "`workers` in encke.toml",
        "`retry` in",
        "ENCKE_EVENT_BYTES",
        "--head-timeout",
    ] {
        assert!(problems.contains(wrong), "{wrong} in {problems}");
    }
    assert!(
        file("workers = ")
            .problem()
            .starts_with("encke.toml is not valid TOML")
    );
}

#[test]
fn an_address_that_other_machines_reach_needs_an_explicit_setting() {
    for address in ["0.0.0.0:8000", "10.0.0.1:8000", "[::]:8000"] {
        let problem = flags(&["--listen", address]).problem();
        assert!(
            problem.contains(address) && problem.contains("--allow-anonymous"),
            "{problem}"
        );
        flags(&["--listen", address, "--allow-anonymous"])
            .resolve()
            .unwrap();
        let problem = flags(&["--control", address]).problem();
        assert!(problem.contains("--control-token-file"), "{problem}");
        flags(&["--control", address, "--control-token", "0123456789abcdef"])
            .resolve()
            .unwrap();
    }
    for address in ["127.1.2.3:8000", "[::1]:8000", "localhost:8000"] {
        flags(&["--listen", address]).resolve().unwrap();
    }
    let problem = flags(&["--listen", "127.0.0.1:8001"]).problem();
    assert!(problem.contains("two listeners"), "{problem}");
    flags(&["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
        .resolve()
        .unwrap();
}

#[test]
fn a_server_may_have_several_addresses() {
    let both = ["127.0.0.1:8000", "[::1]:8000"];
    let listens = |given: Given<'_>| {
        let addresses = given.resolve().unwrap().addresses.public;
        addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let flag = ["--listen", both[0], "--listen", both[1]];
    assert_eq!(listens(flags(&flag)), both);
    assert_eq!(
        listens(file("listen = [\"127.0.0.1:8000\", \"[::1]:8000\"]")),
        both
    );
    assert_eq!(listens(file("listen = \"[::1]:8000\"")), both[1..]);
    let variables = &[("ENCKE_LISTEN", "127.0.0.1:8000, [::1]:8000")];
    let given = Given {
        variables,
        file: Some("listen = \"127.0.0.1:1\""),
        ..Given::default()
    };
    assert_eq!(listens(given), both);
    // The error names only the address that other machines reach.
    let problem = flags(&["--listen", "127.0.0.1:1", "--listen", "0.0.0.0:2"]).problem();
    assert!(
        problem.contains("0.0.0.0:2") && !problem.contains("127.0.0.1:1 "),
        "{problem}"
    );
    for (given, said) in [
        (file("listen = []"), "no public listener"),
        (flags(&["--listen", "::1:8000"]), "[::1]:8000"),
        (
            flags(&["--listen=[::1]:1", "--listen=[::1]:1"]),
            "two listeners have the address [::1]:1",
        ),
    ] {
        let problem = given.problem();
        assert!(problem.contains(said), "{problem}");
    }
}

fn secret(name: &str) -> String {
    format!("{name}-0123456789")
}

fn make_private(path: &str) {
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn tokens_of_a_file_are_added_and_a_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let path = path.to_str().unwrap();
    let entry = "[[token]]\nname = \"a\"\nsecret = \"secret-of-a-0123456789\"\n";
    fs::write(path, format!("{entry}rights = [\"publish\"]\n")).unwrap();
    make_private(path);
    let both = [
        "--control-tokens",
        path,
        "--control-token",
        "one-more-0123456789",
    ];
    let tokens = flags(&both).resolve().unwrap().tokens;
    assert_eq!(tokens.names().collect::<Vec<_>>(), ["control-token", "a"]);

    fs::write(path, entry).unwrap();
    let problem = flags(&["--control-tokens", path]).problem();
    assert!(
        problem.contains("rights") && !problem.contains("secret-of-a"),
        "{problem}"
    );
    for flag in ["--control-tokens", "--control-token-file"] {
        fs::write(path, "0123456789abcdef").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        let problem = flags(&[flag, path]).problem();
        assert!(problem.contains("chmod 600"), "{problem}");
    }
}

#[test]
fn a_token_comes_from_one_place_and_is_never_shown() {
    let folder = std::env::temp_dir().join(format!("encke-token-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("token");
    fs::write(&path, secret("from-file") + "\n").unwrap();
    let path = path.to_str().unwrap();

    make_private(path);
    let known = ["from-file", "from-variable", "from-flag"];
    let token = |given: Given<'_>| {
        let tokens = given.resolve().unwrap().tokens;
        let found = known
            .into_iter()
            .filter(|name| tokens.name_of(&secret(name)).is_some());
        found.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(token(flags(&["--control-token-file", path])), "from-file");
    // The source with precedence counts, whichever of the two settings it has.
    let variables = &[("ENCKE_CONTROL_TOKEN", "from-variable-0123456789")];
    assert_eq!(
        token(Given {
            variables,
            ..Given::default()
        }),
        "from-variable"
    );
    let with_flag = Given {
        variables,
        flags: &["--control-token-file", path],
        file: None,
    };
    assert_eq!(token(with_flag), "from-file");
    let variables = &[("ENCKE_CONTROL_TOKEN_FILE", path)];
    let with_flag = Given {
        variables,
        flags: &["--control-token", "from-flag-0123456789"],
        file: None,
    };
    assert_eq!(token(with_flag), "from-flag");

    let both = [
        "--control-token",
        "s3cret-0123456789",
        "--control-token-file",
        path,
    ];
    assert!(flags(&both).problem().contains("one of them is enough"));
    let problem = flags(&["--control-token", "s3 cret-0123456789"]).problem();
    assert!(!problem.contains("s3 cret"), "{problem}");
    let problem = flags(&["--control-token", "15-bytes-s3cret"]).problem();
    assert!(
        problem.contains("15 bytes") && !problem.contains("s3cret"),
        "{problem}"
    );
    let config = flags(&["--control-token", "s3cret-0123456789"])
        .resolve()
        .unwrap();
    assert!(!format!("{config:?}").contains("s3cret"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_printed_configuration_is_an_equivalent_file() {
    let given = Given {
        file: Some("retry = \"500ms\"\nworkers = 0x3"),
        variables: &[
            ("ENCKE_HEARTBEAT", "1m"),
            ("ENCKE_CONTROL_TOKEN", "s3cret-0123456789"),
        ],
        flags: &[
            "--cors-origin",
            "https://a\"b",
            "--private-fds",
            "--max-connections",
            "0100",
        ],
    };
    let (layers, problems) = given.layers();
    let config = resolve(&layers, problems).unwrap();
    let printed = print(&layers, &config);
    assert!(!printed.contains("s3cret"), "{printed}");
    for origin in [
        "# file encke.toml",
        "# environment ENCKE_HEARTBEAT",
        "# flag --private-fds",
    ] {
        assert!(printed.contains(origin), "{origin} in {printed}");
    }
    let again = file(&printed).resolve().unwrap();
    assert_eq!(
        format!("{:?}", again.settings),
        format!("{:?}", config.settings)
    );
}

#[test]
fn a_reload_takes_reloadable_settings_and_names_the_others() {
    let layers = |given: Given<'_>| given.layers().0;
    let running = layers(file(
        "workers = 2\nlog-level = \"info\"\nuser-timeout = \"9s\"",
    ));
    let newer = layers(file(
        "workers = 3\nlog-level = \"debug\"\nheartbeat = \"20s\"",
    ));
    let files = FileDigests::default();
    let changes = Changes::between((&running, &files), (&newer, &files));
    assert_eq!(changes.reloaded, ["log-level"]);
    // An explicit default is no change, but a value that was removed is one.
    assert_eq!(changes.awaiting_restart, ["workers", "user-timeout"]);

    let mixed = running.with_reloadable(&newer);
    let config = resolve(&mixed, Vec::new()).unwrap();
    assert_eq!(config.log_level, LevelFilter::DEBUG);
    assert_eq!(config.settings.workers, 2);
    assert_eq!(config.settings.user_timeout, Duration::from_secs(9));
    let again = Changes::between((&mixed, &files), (&newer, &files));
    assert_eq!((again.reloaded.len(), again.awaiting_restart.len()), (0, 2));
}

#[test]
fn a_file_with_other_content_is_a_change_of_the_setting_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let path = path.to_str().unwrap();
    fs::write(path, "a-token-of-some-length").unwrap();
    let layers = flags(&["--control-token-file", path]).layers().0;
    let before = FileDigests::of(&layers);
    assert_eq!(before, FileDigests::of(&layers));
    fs::write(path, "another-token-of-length").unwrap();
    let after = FileDigests::of(&layers);
    let changes = Changes::between((&layers, &before), (&layers, &after));
    assert_eq!(changes.to_string().matches("control-token-file").count(), 1);
    assert!(!format!("{after:?}").contains("another"));
}

/// Returns a folder with a secret for HS256 that only its owner can read, and the path of the
/// secret.
fn secret_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let text = path.to_str().unwrap().to_owned();
    (folder, text)
}

#[test]
fn each_kind_of_identity_lets_the_public_listener_leave_loopback() {
    let (_folder, secret) = secret_file();
    for identity in [
        vec!["--tickets"],
        vec!["--jwt-secret-file", &secret],
        vec!["--jwks-url", "https://issuer.example/jwks.json"],
        vec!["--identity-header=X-User", "--trusted-proxy=10.0.0.0/8"],
    ] {
        let flag = [&["--listen", "0.0.0.0:8000"], &identity[..]].concat();
        let config = flags(&flag).resolve().unwrap();
        assert!(
            config.settings.live.policy.requires_identity(),
            "{identity:?}"
        );
    }
    // Trusted proxies alone give clients no identity.
    let problem = flags(&["--listen=0.0.0.0:8000", "--trusted-proxy=10.0.0.0/8"]).problem();
    assert!(problem.contains("--tickets"), "{problem}");
}

#[test]
fn settings_of_identity_without_effect_are_refused() {
    let (folder, secret) = secret_file();
    let open = folder.path().join("open");
    fs::copy(&secret, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let open = open.to_str().unwrap();
    let short = folder.path().join("short");
    fs::write(&short, "too short").unwrap();
    fs::set_permissions(&short, fs::Permissions::from_mode(0o640)).unwrap();
    let short = short.to_str().unwrap();
    for (flag, said) in [
        (vec!["--identity-header", "X-User"], "--trusted-proxy"),
        (
            vec!["--identity-header", "X User", "--trusted-proxy=::1"],
            "--identity-header",
        ),
        (vec!["--trusted-proxy", "10.1.2.3/8"], "10.1.2.3/8"),
        (vec!["--proxy-protocol"], "--trusted-proxy"),
        (vec!["--jwt-issuer", "https://a"], "--jwt-issuer needs keys"),
        (vec!["--jwt-query"], "--jwt-query needs keys"),
        (vec!["--client-publish"], "--client-publish needs keys"),
        (
            vec!["--client-publish", "--tickets"],
            "--client-publish needs keys",
        ),
        (vec!["--jwt-secret-file", open], "chmod 600"),
        (vec!["--jwt-secret-file", short], "32"),
        (vec!["--jwt-key-file", &secret], "PEM"),
        (vec!["--jwt-key-file", "/nowhere"], "/nowhere"),
        (vec!["--jwks-url", "http://issuer.example/"], "https"),
    ] {
        let problem = flags(&flag).problem();
        assert!(problem.contains(said), "{flag:?}: {problem}");
        assert!(!problem.contains("0123456789abcdef"), "{problem}");
    }
    // With keys, each of them is accepted.
    let flag = [
        "--jwt-secret-file",
        &secret,
        "--jwt-issuer=a",
        "--jwt-query",
        "--client-publish",
    ];
    let config = flags(&flag).resolve().unwrap();
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
}

#[test]
fn tokens_that_cross_a_network_without_encryption_cause_a_warning() {
    let warnings = |flag: &[&str]| {
        let config = flags(flag).resolve().unwrap();
        config.addresses.warnings(&config).join(" ")
    };
    assert_eq!(warnings(&["--tickets"]), "");
    let said = warnings(&["--tickets", "--listen=127.0.0.1:1", "--listen=0.0.0.0:2"]);
    assert!(
        said.contains("0.0.0.0:2") && !said.contains("127.0.0.1"),
        "{said}"
    );
    assert_eq!(warnings(&["--listen=0.0.0.0:2", "--allow-anonymous"]), "");
    let control = ["--control=0.0.0.0:1", "--control-token=0123456789abcdef"];
    assert!(warnings(&control).contains("--control-tls"));
    let (_folder, chain, key) = certificate_files();
    let files = ["--tls-cert", &chain, "--tls-key", &key, "--control-tls"];
    assert_eq!(warnings(&[&control[..], &files].concat()), "");
}

/// Returns a folder with a certificate and its key, and their paths.
fn certificate_files() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(&path, text).unwrap();
        make_private(&path);
        path
    };
    let chain = include_bytes!("../../../tls/fixtures/localhost.pem");
    let chain = write("chain", chain);
    let key = include_bytes!("../../../tls/fixtures/localhost.key");
    let key = write("key", key);
    (folder, chain, key)
}

#[test]
fn tls_of_the_control_listener_needs_a_certificate_and_keeps_the_rules_of_tokens() {
    let problem = flags(&["--control-tls"]).problem();
    assert!(
        problem.contains("--control-tls") && problem.contains("--tls-cert"),
        "{problem}"
    );
    let (_folder, chain, key) = certificate_files();
    let files = ["--control-tls", "--tls-cert", &chain, "--tls-key", &key];
    assert!(flags(&files).resolve().unwrap().control_tls);
    // The rules of tokens are the same with TLS.
    let outside = [&files[..], &["--control", "0.0.0.0:1"]].concat();
    assert!(flags(&outside).problem().contains("--control-token-file"));
    let demo = [&files[..], &["--demo"]].concat();
    assert!(flags(&demo).problem().contains("--demo"));
}

#[test]
fn a_history_has_room_for_its_events_or_there_is_none() {
    let history = |given: &[&str]| flags(given).resolve().unwrap().settings.history;
    assert_eq!(history(&["--history-bytes", "0"]), None);
    let limits = history(&["--history-bytes=1GiB", "--history-age", "1h"]);
    let limits = limits.expect("a history");
    assert_eq!((limits.bytes, limits.age_seconds), (1 << 30, Some(3600)));
    let small = flags(&["--history-bytes", "64KiB"]).problem();
    assert!(
        small.ends_with("expected at least 1 MiB, or 0 for no history"),
        "{small}"
    );
    let large = flags(&["--history-bytes=4MiB", "--event-bytes=1MiB"]).problem();
    assert!(
        large.contains("8 times the largest event, 8 MiB"),
        "{large}"
    );
    let age = flags(&["--history-age", "10ms"]).problem();
    assert!(age.contains("from 1s to 365d"), "{age}");
}

#[test]
fn a_directory_of_the_history_needs_a_history_and_is_not_that_of_the_graph() {
    let dir = |given: &[&str]| {
        let given = [&["--history-bytes=64MiB", "--history-dir=h"], given].concat();
        flags(&given).resolve().unwrap().history_dir.unwrap()
    };
    let interval = SyncPolicy::Interval(Duration::from_millis(100));
    assert_eq!(dir(&[]).sync, interval);
    assert_eq!(
        dir(&["--history-sync", "receipt"]).sync,
        SyncPolicy::Receipt
    );
    let never = flags(&["--history-sync", "0s"]).problem();
    assert!(never.contains("from 1ms to 60s, or `receipt`"), "{never}");
    let alone = flags(&["--history-bytes=0", "--history-dir", "h"]).problem();
    assert!(alone.contains("set --history-bytes"), "{alone}");
    let same = ["--history-bytes=64MiB", "--history-dir=h", "--data=h"];
    let same = flags(&same).problem();
    assert!(same.contains("a directory of its own"), "{same}");
}
