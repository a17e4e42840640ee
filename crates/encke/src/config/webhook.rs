//! Settings of the webhook.

use std::path::Path;

use ::webhook::outside::{OutsideUrl, UrlErrors};
use ::webhook::{Authorities, EventTypes, Secret, Settings};
use cli::files::read_public;
use cli::secret::read_private_text;

use super::reader::{Reader, known};
use super::values::timeout;

/// Settings of files that have no effect without a webhook.
const NEEDING_URL: [&str; 2] = ["webhook-secret-file", "webhook-ca"];

/// Settings of a webhook.
#[derive(Debug, Clone)]
pub(crate) struct WebhookConfig {
    pub(crate) settings: Settings,
    pub(crate) types: EventTypes,
}

impl Reader<'_> {
    /// Reads the settings of the webhook, if it is configured.
    pub(super) fn webhook(&mut self) -> Option<WebhookConfig> {
        let is_set = |reader: &Self, name| reader.layers.get(known(name)).is_some();
        let has_url = is_set(self, "webhook-url");
        let url = self.find("webhook-url", |text| {
            OutsideUrl::parse(text, &UrlErrors::OF_RECEIVERS).map_err(str::to_owned)
        });
        let secrets = self.find("webhook-secret-file", |path| {
            let text = read_private_text(Path::new(path))?;
            Secret::parse_all(&text).map_err(|wrong| format!("the file {path}: {wrong}"))
        });
        let types = self.get("webhook-events", |text| text.parse::<EventTypes>());
        let authorities = self.find("webhook-ca", |path| {
            let pem = read_public(Path::new(path))?;
            Authorities::from_pem(&pem).map_err(|wrong| format!("the file {path}: {wrong}"))
        });
        let (timeout, give_up) = (
            self.get("webhook-timeout", timeout),
            self.get("webhook-give-up", timeout),
        );
        if !has_url {
            for name in NEEDING_URL {
                if is_set(self, name) {
                    self.problem(format!(
                        "--{name} needs --webhook-url, the address that events are sent to"
                    ));
                }
            }
            return None;
        }
        if !is_set(self, "webhook-secret-file") {
            self.problem(
                "--webhook-url needs --webhook-secret-file, the secret by which its receiver knows \
                 that requests are of this server",
            );
        }
        Some(WebhookConfig {
            settings: Settings {
                url: url?,
                secrets: secrets?,
                authorities,
                timeout,
                give_up,
            },
            types,
        })
    }
}
