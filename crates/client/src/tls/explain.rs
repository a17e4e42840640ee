//! Error texts of failed handshakes, which say what to do.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Returns the TLS error that caused an error of a connection, if one did.
pub fn handshake_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Explains why there is no TLS connection to `peer`, and what to do. `peer` appears in the text.
pub fn explain(peer: &str, error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => explain_certificate(peer, reason),
        Error::InvalidMessage(_) => {
            format!("what listens at {peer} does not speak TLS: is it http:// instead of https://?")
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
            format!("{peer} offers neither TLS 1.3 nor TLS 1.2 with a cipher of today: {error}")
        }
        Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            format!("{peer} has no certificate for this name: check the host of the URL")
        }
        error => format!("no TLS connection to {peer}: {error}"),
    }
}

fn explain_certificate(peer: &str, reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => format!(
            "the certificate of {peer} is not trusted: its issuer is unknown; name the issuer's \
             PEM file with --ca or in SSL_CERT_FILE, or install it on this machine"
        ),
        CertificateError::NotValidForName => format!(
            "the certificate of {peer} is for another name: use the host that it was issued for"
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "the certificate of {peer} is for another name: it is not for {}, but for {}",
            expected.to_str(),
            if presented.is_empty() {
                "no name at all".to_owned()
            } else {
                presented.join(", ")
            }
        ),
        CertificateError::Expired => {
            format!("the certificate of {peer} has expired: renew it on the server")
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {peer} has expired, {} ago: renew it on the server, or correct the \
             clock of this machine",
            span(time.as_secs().saturating_sub(not_after.as_secs()))
        ),
        CertificateError::NotValidYet => {
            format!("the certificate of {peer} is not valid yet: correct the clock of this machine")
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate of {peer} is not valid for another {}: correct the clock of this \
             machine, or issue the certificate anew",
            span(not_before.as_secs().saturating_sub(time.as_secs()))
        ),
        CertificateError::Revoked => {
            format!("the certificate of {peer} is revoked: replace it on the server")
        }
        reason => format!("the certificate of {peer} is not trusted: {reason}"),
    }
}

/// Formats a time of `seconds` in whole days, hours or minutes.
fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        seconds if seconds >= DAY_SECONDS => (seconds / DAY_SECONDS, "day"),
        seconds if seconds >= 3600 => (seconds / 3600, "hour"),
        seconds => (seconds.div_ceil(60), "minute"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}
