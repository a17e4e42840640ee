//! What streams and polls alike are asked for.

use wire::head::Request;
use wire::status::Status;
use wire::target;

use crate::answer::Answer;

/// Media type of a CloudEvent in the JSON event format (RFC 6838; CloudEvents 1.0.2, section 3).
const CLOUD_EVENT: &str = "application/cloudevents+json";

/// Returns whether a request asks to be told who is online.
pub(crate) fn asks_for_presence(request: &Request<'_>, is_kept: bool) -> Result<bool, Answer> {
    let refuse = |reason: &'static str| Err(Answer::error(Status::BAD_REQUEST, reason));
    let asked = target::query_value(request.query, "presence");
    match asked.as_ref().map(|asked| asked.as_deref()) {
        Ok(None | Some("0")) => Ok(false),
        Ok(Some("1")) if is_kept => Ok(true),
        Ok(Some("1")) => refuse(
            "this server does not keep who is online; leave presence out, or start the server \
             with --presence",
        ),
        _ => refuse("presence is 1, to be told who is online, or 0, or is left out"),
    }
}

/// Returns whether the client names the media type of CloudEvents among those it accepts (RFC 9110,
/// section 12.5.1). Wildcards do not count: they fit the default too.
pub(crate) fn accepts_cloud_events(request: &Request<'_>) -> bool {
    let mut ranges = request
        .values("accept")
        .flatten()
        .flat_map(|line| line.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(CLOUD_EVENT));
        is_named && !parts.any(is_weight_of_zero)
    })
}

/// Returns whether a parameter is `q=0`: not acceptable (RFC 9110, section 12.4.2).
fn is_weight_of_zero(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("q")
        && weight
            .trim()
            .parse::<f32>()
            .is_ok_and(|weight| weight <= 0.0)
}
