//! The stream that is the cluster's log: creation, lookup and checks.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, RequestErrorKind,
};
use async_nats::jetstream::stream::{Config, Info, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use bytes::Bytes;
use replication::{FollowerStatus, StreamSequence};
use tokio::time::timeout;

use crate::connection::REQUEST_TIMEOUT;
use crate::error::JoinError;
use crate::options::{Name, Options};
use crate::settings;

/// Oldest version of the engine: 2.10.20 to 2.10.22 lost whole streams when servers were killed
/// (<https://github.com/nats-io/nats-server/issues/6888>).
const VERSION_MIN: (i64, i64, i64) = (2, 10, 23);

/// Silence after which a follower of the log's leader is considered lost: three of its heartbeats.
/// A leader that was cut off from its followers continues to answer for 10 to 20 s.
pub(crate) const FOLLOWERS_SILENT_MAX: Duration = Duration::from_secs(3);

/// Maximum size of an entry with one event, without its payload, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 4096;

/// Silence after which a consumer is considered dead: four heartbeats, more than a busy server
/// needs.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2);

/// The cluster's log in the engine.
#[derive(Debug, Clone)]
pub(crate) struct LogStream {
    pub(crate) context: Context,
    pub(crate) name: String,
    /// Subject of entries.
    pub(crate) subject: String,
    /// Subject without subscribers, to check whether a server answers.
    pub(crate) probe: String,
    /// Epoch, which identifies this stream in event ids.
    pub(crate) epoch: String,
    /// Whether the cluster begins with an imported graph.
    pub(crate) is_imported: bool,
}

/// State of the log and of the servers that store it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogState {
    /// Sequence of the oldest entry; one above the last if there is none.
    pub first: u64,
    /// Sequence of the latest entry; 0 without one.
    pub last: u64,
    /// Size of all entries, in bytes.
    pub bytes: u64,
    /// Maximum size of the log, in bytes; 0 without a limit.
    pub bytes_max: u64,
    /// Server that leads the log; `None` during an election.
    pub leader: Option<Box<str>>,
    /// Servers that follow the leader.
    pub followers: Vec<FollowerStatus>,
}

impl LogStream {
    /// Opens the stream of the cluster, or creates it with `new_epoch` as its epoch.
    ///
    /// # Errors
    ///
    /// When the engine cannot store a log, or the existing stream cannot be one.
    pub(crate) async fn open(
        client: &Client,
        options: &Options,
        new_epoch: &str,
    ) -> Result<(Self, LogState), JoinError> {
        let context = context(client, options)?;
        let (epoch, info) = match find_log(&context, &options.cluster).await? {
            Some(found) => found,
            None => {
                let config = settings::new_stream(&options.cluster, &options.log, new_epoch);
                checked(create(&context, options, config).await?, &options.cluster)?
            }
        };
        for difference in settings::differences(&info.config, &options.log) {
            tracing::warn!("{difference}");
        }
        let stream = Self {
            context,
            name: settings::stream_name(&options.cluster),
            subject: settings::entries_subject(&options.cluster),
            probe: settings::probe_subject(&options.cluster),
            epoch,
            is_imported: settings::is_imported(&info.config),
        };
        Ok((stream, LogState::of(&info)))
    }

    /// Returns whether the connected server answers, whether or not the log has a leader.
    pub(crate) async fn is_server_there(&self) -> bool {
        let client = self.context.client();
        let probe = client.request(self.probe.clone(), Bytes::new());
        match timeout(SILENCE_MAX, probe).await {
            Ok(Ok(_)) => true,
            // The error that the subject has no subscribers is an answer of the server.
            Ok(Err(error)) => error.kind() == async_nats::RequestErrorKind::NoResponders,
            Err(_) => false,
        }
    }

    /// Returns the state of the log.
    ///
    /// # Errors
    ///
    /// When the engine does not answer, or the stream was deleted and created again.
    pub(crate) async fn state(&self) -> Result<LogState, JoinError> {
        let Some(info) = find(&self.context, &self.name).await? else {
            return Err(JoinError::Request(format!(
                "the stream {} is gone",
                self.name
            )));
        };
        let mut state = LogState::of(&info);
        // A server that is not in a cluster reports no leader.
        if state.leader.is_none() && info.config.num_replicas <= 1 {
            let server = self.context.client().server_info().server_name;
            state.leader = Some(server.into());
        }
        match settings::epoch(&info.config) {
            found if found == self.epoch => Ok(state),
            found if state.has_majority() => Err(JoinError::OtherLog {
                expected: self.epoch.clone(),
                found: found.to_owned(),
            }),
            found => Err(JoinError::Request(format!(
                "a server that is cut off from the others reports that the stream {} has the \
                 epoch {found}",
                self.name
            ))),
        }
    }
}

/// Returns the JetStream context of a server that can store the log.
pub(crate) fn context(client: &Client, options: &Options) -> Result<Context, JoinError> {
    check_server(client, options.event_bytes_max)?;
    let mut context = async_nats::jetstream::new(client.clone());
    context.set_timeout(REQUEST_TIMEOUT);
    Ok(context)
}

/// Checks that the server is new enough and accepts the largest event.
fn check_server(client: &Client, event_bytes: usize) -> Result<(), JoinError> {
    let (major, minor, patch) = VERSION_MIN;
    if !client.is_server_compatible(major, minor, patch) {
        let version = client.server_info().version;
        return Err(JoinError::TooOld { version });
    }
    let message_bytes = client.max_payload();
    if event_bytes.saturating_add(ENTRY_OVERHEAD_BYTES) > message_bytes {
        return Err(JoinError::EventTooLarge {
            event_bytes,
            message_bytes,
        });
    }
    Ok(())
}

/// Returns the log of a cluster and its epoch, if there is one.
///
/// # Errors
///
/// When a stream with its name exists, but cannot be the log.
pub(crate) async fn find_log(
    context: &Context,
    cluster: &Name,
) -> Result<Option<(String, Info)>, JoinError> {
    let found = find(context, &settings::stream_name(cluster)).await?;
    found.map(|info| checked(info, cluster)).transpose()
}

/// Returns a stream and its epoch, if it can be the log of a cluster.
fn checked(info: Info, cluster: &Name) -> Result<(String, Info), JoinError> {
    match settings::check(&info.config, cluster) {
        Ok(epoch) => Ok((epoch, info)),
        Err(problems) => {
            let stream = info.config.name;
            Err(JoinError::Unusable { stream, problems })
        }
    }
}

/// Returns the stream, if there is one.
async fn find(context: &Context, name: &str) -> Result<Option<Info>, JoinError> {
    let found = lookup(context, name).await;
    let found = found.map_err(|error| refusal(name, &error))?;
    Ok(found.map(|stream| stream.cached_info().clone()))
}

/// Returns a stream of any kind, if there is one.
pub(crate) async fn lookup(
    context: &Context,
    name: &str,
) -> Result<Option<Stream>, GetStreamError> {
    match context.get_stream(name).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(reply)
                if reply.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

fn refusal(name: &str, error: &GetStreamError) -> JoinError {
    let reason = error.to_string();
    match error.kind() {
        GetStreamErrorKind::JetStream(reply) if is_without_jetstream(reply.error_code()) => {
            JoinError::NoJetStream(reason)
        }
        GetStreamErrorKind::Request if is_without_responders(error) => {
            JoinError::NoJetStream(reason)
        }
        _ => JoinError::Request(format!(
            "the cluster's engine does not answer for the stream {name}: {reason}"
        )),
    }
}

fn is_without_jetstream(code: ErrorCode) -> bool {
    code == ErrorCode::JETSTREAM_NOT_ENABLED || code == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
}

/// Returns whether no server answered the request, as none has JetStream or none is the leader.
fn is_without_responders(error: &GetStreamError) -> bool {
    let source = std::error::Error::source(error);
    let request = source.and_then(|it| it.downcast_ref::<async_nats::RequestError>());
    request.is_some_and(|it| it.kind() == async_nats::RequestErrorKind::NoResponders)
        || source
            .and_then(|it| it.downcast_ref::<async_nats::jetstream::context::RequestError>())
            .is_some_and(|it| it.kind() == RequestErrorKind::NoResponders)
}

/// Creates the stream. If another node created it at the same time, returns that one.
pub(crate) async fn create(
    context: &Context,
    options: &Options,
    config: Config,
) -> Result<Info, JoinError> {
    let name = config.name.clone();
    let failed = |reason: String| JoinError::Create {
        stream: name.clone(),
        reason,
    };
    match context.create_stream(config).await {
        Ok(stream) => {
            let made = stream.cached_info().clone();
            tracing::info!("created the stream {name}, the log of the cluster");
            Ok(made)
        }
        Err(error) => match error.kind() {
            CreateStreamErrorKind::JetStream(ref reply)
                if reply.error_code() == ErrorCode::STREAM_NAME_EXIST =>
            {
                let found = find(context, &name).await?;
                found.ok_or_else(|| failed("it was created and deleted meanwhile".to_owned()))
            }
            CreateStreamErrorKind::JetStream(ref reply)
                if is_without_jetstream(reply.error_code()) =>
            {
                let reason = reply.to_string();
                Err(JoinError::NoJetStream(reason))
            }
            CreateStreamErrorKind::JetStream(ref reply) => Err(failed(format!(
                "{reply}; it needs {} servers with room for {} bytes each: see --log-replicas and \
                 --log-bytes",
                options.log.replicas, options.log.bytes
            ))),
            _ => Err(failed(error.to_string())),
        },
    }
}

impl LogState {
    pub(crate) fn of(info: &Info) -> Self {
        let cluster = info.cluster.as_ref();
        let followers = cluster.map(|cluster| {
            let followers = cluster.replicas.iter();
            followers
                .map(|replica| FollowerStatus {
                    name: replica.name.as_str().into(),
                    is_current: replica.current && !replica.offline,
                    lag: replica.lag.unwrap_or(0),
                    silent: replica.active,
                })
                .collect()
        });
        Self {
            first: info.state.first_sequence.max(1),
            last: info.state.last_sequence,
            bytes: info.state.bytes,
            bytes_max: u64::try_from(info.config.max_bytes).unwrap_or(0),
            leader: cluster.and_then(|cluster| cluster.leader.as_deref().map(Box::from)),
            followers: followers.unwrap_or_default(),
        }
    }

    /// Returns whether the leader can store entries, as it has contact to a majority of the servers
    /// that store the log, including itself.
    pub(crate) fn has_majority(&self) -> bool {
        let heard = |it: &&FollowerStatus| it.silent <= FOLLOWERS_SILENT_MAX;
        let servers = self.followers.len() + 1;
        let heard = self.followers.iter().filter(heard).count() + 1;
        self.leader.is_some() && 2 * heard > servers
    }

    /// Checks that the log has all entries up to `applied`, which a node has applied.
    pub(crate) fn check_end(&self, applied: u64) -> Result<(), JoinError> {
        match self.last {
            last if last < applied => Err(JoinError::Ahead {
                read: applied,
                last,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the log has the entry after `read`, the last one that a node has read, or ends
    /// there.
    pub(crate) fn check_start(&self, read: StreamSequence) -> Result<(), JoinError> {
        let next = read.next().number();
        if next < self.first {
            return Err(JoinError::Trimmed {
                next,
                first: self.first,
            });
        }
        self.check_end(read.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(silent: &[u64]) -> LogState {
        let follower = |&seconds: &u64| FollowerStatus {
            name: "s".into(),
            is_current: true,
            lag: 0,
            silent: Duration::from_secs(seconds),
        };
        LogState {
            last: 7,
            leader: Some("s0".into()),
            followers: silent.iter().map(follower).collect(),
            ..LogState::default()
        }
    }

    /// A leader that is cut off from its followers reports itself as the leader for 10 to 20 s.
    #[test]
    fn a_leader_without_a_majority_does_not_count() {
        for (silent, expected) in [
            (&[][..], true),
            (&[3, 3], true),
            (&[0, 60], true),
            (&[60, 60], false),
            (&[4], false),
            (&[0, 0, 60, 60], true),
            (&[0, 60, 60, 60], false),
        ] {
            assert_eq!(state(silent).has_majority(), expected, "{silent:?}");
        }
        let leaderless = LogState {
            leader: None,
            ..state(&[0, 0])
        };
        assert!(!leaderless.has_majority());
    }

    #[test]
    fn a_log_that_ends_before_the_applied_entry_is_refused() {
        assert_eq!(state(&[]).check_end(7), Ok(()));
        let lost = JoinError::Ahead { read: 8, last: 7 };
        assert_eq!(state(&[]).check_end(8), Err(lost));
    }
}
