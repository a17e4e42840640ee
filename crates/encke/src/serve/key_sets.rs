//! Key sets of issuers, which are fetched from the addresses of the configuration.
//!
//! Must never put keys into the policy whose address is no longer configured.

use std::sync::Arc;
use std::time::Duration;

use auth::{KeySet, Policy};
use control::{JwksFetcher, JwksMetrics};
use parking_lot::Mutex;
use server::{Handle, LiveSettings};
use webhook::outside::OutsideUrl;

/// Time for which a start or a reload waits for new key sets, so that the first clients are not
/// refused for lack of keys. It continues without key sets that take longer.
const FIRST_FETCH_WAIT: Duration = Duration::from_secs(3);

/// Owner of the fetcher of key sets. A reload replaces the fetcher.
pub(super) struct KeySets {
    fetcher: Arc<Mutex<Option<Arc<JwksFetcher>>>>,
    urls: Vec<OutsideUrl>,
    server: Handle,
    metrics: JwksMetrics,
}

impl KeySets {
    /// Returns a state without a fetcher.
    pub(super) fn new(server: Handle, metrics: JwksMetrics) -> Self {
        let fetcher: Arc<Mutex<Option<Arc<JwksFetcher>>>> = Arc::default();
        let for_workers = Arc::clone(&fetcher);
        server.fetch_keys_with(Box::new(move |done| match &*for_workers.lock() {
            Some(fetcher) => fetcher.fetch(done),
            None => done(),
        }));
        Self {
            fetcher,
            urls: Vec::new(),
            server,
            metrics,
        }
    }

    /// Fetches from `urls` from now on, and waits for the keys of new ones for 3 s at most. The
    /// policy of the server must have a key set for each.
    pub(super) fn set_urls(&mut self, urls: &[OutsideUrl]) {
        if self.urls == urls {
            return;
        }
        let server = self.server.clone();
        let changed = move |url: &OutsideUrl, keys: Arc<KeySet>| {
            server.reload(|live| with_fetched(live, &url.as_written(), keys));
        };
        // The old fetcher's threads would not find their addresses in the policy any more.
        *self.fetcher.lock() = None;
        self.urls = urls.to_vec();
        if urls.is_empty() {
            return;
        }
        match JwksFetcher::start(urls.to_vec(), Box::new(changed)) {
            Ok(fetcher) => {
                let fetcher = Arc::new(fetcher);
                self.metrics.show(&fetcher);
                *self.fetcher.lock() = Some(Arc::clone(&fetcher));
                fetcher.wait_for_first(FIRST_FETCH_WAIT);
            }
            Err(error) => {
                // Cleared, so that the next reload tries again.
                self.urls.clear();
                tracing::error!("key sets cannot be fetched: {error}");
            }
        }
    }
}

/// Returns the settings with a fetched key set, if its address is still configured. A reload may
/// have removed it during the fetch.
fn with_fetched(live: &LiveSettings, name: &str, keys: Arc<KeySet>) -> LiveSettings {
    let mut live = live.clone();
    if live.policy.keys(name).is_some() {
        live.policy = Arc::new(Policy::clone(&live.policy).with_keys(name, keys));
    }
    live
}

/// Copies the key sets that were fetched for the running policy to `newer`, which has an empty one
/// for each address.
pub(super) fn keep_fetched(running: &Policy, newer: &mut LiveSettings, urls: &[OutsideUrl]) {
    let mut policy = Policy::clone(&newer.policy);
    for name in urls.iter().map(OutsideUrl::as_written) {
        if let Some(keys) = running.keys(&name) {
            policy = policy.with_keys(&name, Arc::clone(keys));
        }
    }
    newer.policy = Arc::new(policy);
}

#[cfg(test)]
mod tests {
    use webhook::outside::UrlErrors;

    use super::*;

    const URL: &str = "https://issuer.example/jwks.json";

    fn keys(secret: &str) -> Arc<KeySet> {
        Arc::new(KeySet::from_secret(secret.repeat(32).as_bytes()).unwrap())
    }

    fn settings(policy: Policy) -> LiveSettings {
        LiveSettings {
            policy: Arc::new(policy),
            ..LiveSettings::default()
        }
    }

    #[test]
    fn keys_of_an_address_that_is_no_longer_configured_do_not_enter_the_policy() {
        let live = settings(Policy::default().with_keys(URL, Arc::default()));
        let live = with_fetched(&live, URL, keys("a"));
        assert_eq!(live.policy.keys(URL), Some(&keys("a")));
        let without = with_fetched(&settings(Policy::default()), URL, keys("a"));
        assert_eq!(without.policy.keys(URL), None);
        assert!(!without.policy.requires_identity());
    }

    #[test]
    fn a_reload_keeps_the_keys_that_were_fetched() {
        let urls: Vec<OutsideUrl> = vec![OutsideUrl::parse(URL, &UrlErrors::OF_KEY_SETS).unwrap()];
        let running = Policy::default().with_keys(URL, keys("a"));
        let mut newer = settings(Policy::default().with_keys(URL, Arc::default()));
        keep_fetched(&running, &mut newer, &urls);
        assert_eq!(newer.policy.keys(URL), Some(&keys("a")));
        // The keys of an address that was removed are not copied.
        let mut newer = settings(Policy::default());
        keep_fetched(&running, &mut newer, &[]);
        assert_eq!(newer.policy.keys(URL), None);
    }
}
