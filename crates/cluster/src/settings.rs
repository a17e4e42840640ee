//! Settings of the stream: those of a new one, and the requirements on an existing one.
//!
//! Owns which stream can be a log: one that keeps every entry, in order, until its size limit is
//! reached, and that no other program can empty.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, RetentionPolicy};
use replication::ENTRY_BYTES_MAX;

use crate::options::{LogOptions, Name};

/// Format of the entries in the stream. A stream of another format is refused.
const FORMAT: &str = "1";

/// Metadata of the stream.
const FORMAT_KEY: &str = "encke_format";
const CLUSTER_KEY: &str = "encke_cluster";
const EPOCH_KEY: &str = "encke_epoch";

/// Metadata of a stream whose cluster begins with an imported graph.
const IMPORT_KEY: &str = "encke_import";

/// Maximum length of the epoch of a stream, in bytes: every event id contains it.
const EPOCH_BYTES_MAX: usize = 32;

/// Time in which the engine detects messages with the same id. Entries have no id, so a short time
/// suffices.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(1);

/// Returns the name of a cluster's stream.
pub(crate) fn stream_name(cluster: &Name) -> String {
    format!("encke-{cluster}")
}

/// Returns the subject of a cluster's entries.
pub(crate) fn entries_subject(cluster: &Name) -> String {
    format!("encke.{cluster}.log")
}

/// Returns the subject of the heartbeats of all nodes.
pub(crate) fn heartbeats_subject(cluster: &Name) -> String {
    format!("encke.{cluster}.heartbeats")
}

/// Returns the subject of answers to the entries of a node. Names of nodes have no dots.
pub(crate) fn answers_subject(cluster: &Name, node: &str) -> String {
    format!("encke.{cluster}.answers.{node}")
}

/// Returns the subject of the reports of all nodes.
pub(crate) fn reports_subject(cluster: &Name) -> String {
    format!("encke.{cluster}.reports")
}

/// Returns the subject of requests to drain a node. Names of nodes have no dots.
pub(crate) fn drain_subject(cluster: &Name, node: &str) -> String {
    format!("encke.{cluster}.drain.{node}")
}

/// Returns a subject without subscribers.
pub(crate) fn probe_subject(cluster: &Name) -> String {
    format!("encke.{cluster}.probe")
}

/// Returns the name of the bucket for snapshots in the object store.
pub(crate) fn bucket_name(cluster: &Name) -> String {
    format!("encke-{cluster}-snapshots")
}

/// Returns the name of the stream behind that bucket.
pub(crate) fn object_stream_name(cluster: &Name) -> String {
    format!("OBJ_{}", bucket_name(cluster))
}

/// Returns the settings of a new stream.
pub(crate) fn new_stream(cluster: &Name, log: &LogOptions, epoch: &str) -> Config {
    let metadata = [
        (FORMAT_KEY, FORMAT),
        (CLUSTER_KEY, cluster.as_str()),
        (EPOCH_KEY, epoch),
    ];
    Config {
        name: stream_name(cluster),
        description: Some(format!("Log of the Encke cluster {cluster}")),
        subjects: vec![entries_subject(cluster)],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::Old,
        max_bytes: i64::try_from(log.bytes).unwrap_or(i64::MAX),
        max_messages: -1,
        max_messages_per_subject: -1,
        max_message_size: -1,
        max_consumers: -1,
        storage: log.storage,
        num_replicas: log.replicas,
        duplicate_window: DUPLICATE_WINDOW,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        metadata: metadata
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..Config::default()
    }
}

/// Marks a stream whose cluster begins with an imported graph.
pub(crate) fn set_imported(config: &mut Config) {
    let (key, value) = (IMPORT_KEY.to_owned(), FORMAT.to_owned());
    config.metadata.insert(key, value);
}

/// Returns whether the cluster begins with an imported graph. Then a node needs a snapshot, even if
/// the log has its first entry.
pub(crate) fn is_imported(config: &Config) -> bool {
    config.metadata.contains_key(IMPORT_KEY)
}

/// Returns the epoch of a stream; empty if another program created it.
pub(crate) fn epoch(config: &Config) -> &str {
    config.metadata.get(EPOCH_KEY).map_or("", String::as_str)
}

/// Checks an existing stream and returns its epoch.
///
/// # Errors
///
/// A sentence for each setting due to which it cannot be the log of this cluster.
pub(crate) fn check(config: &Config, cluster: &Name) -> Result<String, Vec<String>> {
    let mut problems = Vec::new();
    let mut need = |is_met: bool, problem: String| {
        if !is_met {
            problems.push(problem);
        }
    };
    let metadata = |key| config.metadata.get(key).map(String::as_str);
    let epoch = epoch(config);
    match metadata(CLUSTER_KEY) {
        None => need(false, "another program created it".to_owned()),
        Some(found) => need(
            found == cluster.as_str(),
            format!("it is the log of the cluster {found}"),
        ),
    }
    let format = metadata(FORMAT_KEY).unwrap_or("unknown");
    need(
        format == FORMAT,
        format!("its entries have the format {format}, and this version of Encke reads {FORMAT}"),
    );
    let is_epoch = |byte: u8| byte.is_ascii_alphanumeric();
    need(
        (1..=EPOCH_BYTES_MAX).contains(&epoch.len()) && epoch.bytes().all(is_epoch),
        format!("its metadata has no valid {EPOCH_KEY}"),
    );
    let subject = entries_subject(cluster);
    need(
        config.subjects == [subject.as_str()],
        format!("its subjects are {:?}, not [{subject:?}]", config.subjects),
    );
    need(
        config.retention == RetentionPolicy::Limits,
        format!("its retention is {:?}, not Limits", config.retention),
    );
    need(
        config.discard == DiscardPolicy::Old,
        "it refuses new messages when it is full, instead of discarding old ones".to_owned(),
    );
    need(
        config.max_age.is_zero(),
        format!("it removes entries after {:?}; it must not", config.max_age),
    );
    need(
        config.max_messages <= 0 && config.max_messages_per_subject <= 0,
        "it limits the number of messages; it must not".to_owned(),
    );
    need(
        config.deny_delete && config.deny_purge,
        "entries can be deleted or purged; it must deny both".to_owned(),
    );
    need(
        !config.allow_rollup,
        "it allows messages to roll up older ones; it must not".to_owned(),
    );
    need(
        config.mirror.is_none() && config.sources.is_none() && config.subject_transform.is_none(),
        "it takes messages from other streams or changes their subject; it must not".to_owned(),
    );
    // A writer would resend an entry for ever that the stream refuses.
    let message_bytes = usize::try_from(config.max_message_size).unwrap_or(0);
    need(
        message_bytes == 0 || message_bytes >= ENTRY_BYTES_MAX,
        format!(
            "it accepts messages of at most {message_bytes} bytes, but entries may have \
             {ENTRY_BYTES_MAX}; it must not limit them"
        ),
    );
    need(
        config.max_consumers <= 0,
        format!(
            "it may have at most {} consumers, but each node needs some; it must not limit them",
            config.max_consumers
        ),
    );
    need(
        config.persist_mode != Some(PersistenceMode::Async),
        "it acknowledges entries before they are on disk (its persist_mode is async)".to_owned(),
    );
    need(!config.sealed, "it is sealed".to_owned());
    need(
        !config.no_ack,
        "it acknowledges nothing; it must".to_owned(),
    );
    match problems.is_empty() {
        true => Ok(epoch.to_owned()),
        false => Err(problems),
    }
}

/// Returns a sentence for each limit of an existing stream that differs from the options. The
/// limits of the stream apply, so that they are the same for all nodes.
pub(crate) fn differences(config: &Config, log: &LogOptions) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |option: &str, found: String, wanted: String| {
        if found != wanted {
            differences.push(format!(
                "the log was created with {option} {found}, not {wanted}; change it with `nats \
                 stream edit`"
            ));
        }
    };
    let wanted = i64::try_from(log.bytes).unwrap_or(i64::MAX);
    compare(
        "--log-bytes",
        config.max_bytes.to_string(),
        wanted.to_string(),
    );
    compare(
        "--log-replicas",
        config.num_replicas.to_string(),
        log.replicas.to_string(),
    );
    compare(
        "--log-storage",
        format!("{:?}", config.storage).to_lowercase(),
        format!("{:?}", log.storage).to_lowercase(),
    );
    differences
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream::StorageType;

    use super::*;

    fn cluster() -> Name {
        "prod".parse().unwrap()
    }

    fn made() -> Config {
        new_stream(&cluster(), &LogOptions::default(), "tro8w0000z")
    }

    #[test]
    fn a_new_stream_is_accepted_and_has_the_epoch() {
        assert_eq!(check(&made(), &cluster()), Ok("tro8w0000z".to_owned()));
        assert_eq!(differences(&made(), &LogOptions::default()), [""; 0]);
    }

    #[test]
    fn a_stream_that_could_lose_entries_is_refused() {
        type Spoil = fn(&mut Config);
        let spoils: [(&str, Spoil); 16] = [
            ("subjects", |it| it.subjects.push("other".to_owned())),
            ("retention", |it| it.retention = RetentionPolicy::WorkQueue),
            ("full", |it| it.discard = DiscardPolicy::New),
            ("removes", |it| it.max_age = Duration::from_secs(1)),
            ("number", |it| it.max_messages = 5),
            ("number", |it| it.max_messages_per_subject = 5),
            ("deleted", |it| it.deny_delete = false),
            ("purged", |it| it.deny_purge = false),
            ("roll up", |it| it.allow_rollup = true),
            ("messages of", |it| it.max_message_size = 8 << 10),
            ("messages of", |it| it.max_message_size = (8 << 20) - 1),
            ("consumers", |it| it.max_consumers = 3),
            ("before they are on disk", |it| {
                it.persist_mode = Some(PersistenceMode::Async);
            }),
            ("sealed", |it| it.sealed = true),
            ("acknowledges", |it| it.no_ack = true),
            ("other streams", |it| it.sources = Some(Vec::new())),
        ];
        for (word, spoil) in spoils {
            let mut config = made();
            spoil(&mut config);
            let problems = check(&config, &cluster()).expect_err(word);
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn a_limit_above_all_entries_is_accepted() {
        let mut config = made();
        config.max_message_size = 8 << 20;
        config.persist_mode = Some(PersistenceMode::Default);
        assert!(check(&config, &cluster()).is_ok());
    }

    #[test]
    fn a_stream_of_another_program_cluster_or_format_is_refused() {
        let mut config = made();
        config.metadata.clear();
        let problems = check(&config, &cluster()).expect_err("no metadata");
        assert!(problems[0].contains("another program"), "{problems:?}");

        let other = "test".parse().unwrap();
        let problems = check(&made(), &other).expect_err("another cluster");
        assert!(problems[0].contains("cluster prod"), "{problems:?}");

        for (key, value) in [(FORMAT_KEY, "2"), (EPOCH_KEY, ""), (EPOCH_KEY, "a-b")] {
            let mut config = made();
            config.metadata.insert(key.to_owned(), value.to_owned());
            assert!(check(&config, &cluster()).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn different_limits_are_reported() {
        let log = LogOptions {
            replicas: 1,
            bytes: 1 << 20,
            storage: StorageType::Memory,
        };
        let differences = differences(&made(), &log);
        assert_eq!(differences.len(), 3, "{differences:?}");
        assert!(
            differences[1].contains("--log-replicas 3"),
            "{differences:?}"
        );
    }
}
