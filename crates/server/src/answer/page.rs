//! The page at `/`, and the fields of the answer with it.

use std::sync::LazyLock;

/// The page at `/`.
const PAGE: &str = include_str!("../page.html");

/// Element of the page that says whether it is kept who is online.
const PRESENCE_OFF: &str = r#"<meta name="presence" content="">"#;

/// [`PRESENCE_OFF`] where it is kept.
const PRESENCE_ON: &str = r#"<meta name="presence" content="on">"#;

/// The page of a server that keeps who is online.
static PAGE_WITH_PRESENCE: LazyLock<String> =
    LazyLock::new(|| PAGE.replace(PRESENCE_OFF, PRESENCE_ON));

/// Content security policy of the page: nothing but itself and the client may act in it, and
/// nothing may frame it.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

pub(super) const fn page_fields(policy: &str) -> [(&str, &str); 4] {
    [
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ]
}

/// Returns the page of a server that keeps who is online, or does not.
pub(crate) fn page_of(is_presence_kept: bool) -> &'static str {
    match is_presence_kept {
        true => &PAGE_WITH_PRESENCE,
        false => PAGE,
    }
}

pub(super) const PAGE_FIELDS: &[(&str, &str)] = &page_fields(PAGE_POLICY);
