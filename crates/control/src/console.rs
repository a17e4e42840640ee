//! The console: one page for operators, which is a client of the API.
//!
//! Owns the page and what browsers allow it. The page has no data and needs no token: it asks its
//! user for one where the API needs one. Must never have anything in it that a request says.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::problem::method_not_allowed;

/// Where the page is.
const PATH: &str = "/console";

/// The page, with a place for its style and one for its script.
const PAGE: &str = include_str!("console/page.html");
const STYLE: &str = include_str!("console/style.css");

/// The parts of the script, in the order in which they run. They are one scope.
const SCRIPTS: [&str; 7] = [
    include_str!("console/text.js"),
    include_str!("console/api.js"),
    include_str!("console/figures.js"),
    include_str!("console/live.js"),
    include_str!("console/lookup.js"),
    include_str!("console/actions.js"),
    include_str!("console/start.js"),
];

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The page as it is served. Made at the first request.
static CONSOLE: LazyLock<Console> = LazyLock::new(Console::new);

struct Console {
    page: String,
    policy: HeaderValue,
}

impl Console {
    fn new() -> Self {
        let script = SCRIPTS.concat();
        let page = PAGE.replacen("/*style*/", STYLE, 1);
        Self {
            page: page.replacen("/*script*/", &script, 1),
            policy: policy(STYLE, &script),
        }
    }
}

/// Returns the content security policy: this script and this style and no other, requests to this
/// listener only, no frame, and no text that becomes markup (Trusted Types).
fn policy(style: &str, script: &str) -> HeaderValue {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(script),
        hash(style)
    );
    HeaderValue::try_from(policy).expect("hashes in base64 are visible ASCII")
}

/// Returns the hash of an element's text, as a source (CSP Level 3, section 2.3.1).
fn hash(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest))
}

/// Returns the page, beside the routes of the API.
pub(crate) fn routes() -> Router {
    Router::new()
        .route(PATH, get(page))
        .method_not_allowed_fallback(method_not_allowed)
}

/// `GET /console`
async fn page() -> Response {
    let fields = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (CONTENT_SECURITY_POLICY, CONSOLE.policy.clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (OPENER_POLICY, HeaderValue::from_static("same-origin")),
        (RESOURCE_POLICY, HeaderValue::from_static("same-origin")),
    ];
    (fields, CONSOLE.page.as_str()).into_response()
}
