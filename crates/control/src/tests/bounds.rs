//! Bodies, lines and parameters at their bounds, and one byte beyond.

use super::fake::{Fake, ask, run};

#[test]
fn a_line_of_subscriptions_is_bounded() {
    run(async {
        let http = Fake::new().http();
        let spaces = |count: usize| format!("a {}b\nc d\n", " ".repeat(count - 3));
        let path = "/v1/subscriptions";
        let answer = ask(&http, "POST", path, &[], spaces(4096)).await.json();
        assert_eq!(
            (&answer["added"], &answer["failed"]),
            (&2.into(), &0.into())
        );
        let answer = ask(&http, "POST", path, &[], spaces(4097)).await.json();
        assert_eq!(answer["failed"], 1, "{answer}");
        assert!(answer["errors"].to_string().contains("4096"), "{answer}");
        let line = "x".repeat(5000);
        let answer = ask(&http, "PUT", "/v1/subscriptions/a", &[], line).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.text.contains("4096"), "{}", answer.text);
    });
}

#[test]
fn a_page_of_the_history_is_bounded() {
    run(async {
        let http = Fake::new().http();
        let answer = ask(&http, "GET", "/v1/history/x?limit=1001", &[], String::new()).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text.contains("from 1 to 1000"), "{}", answer.text);
    });
}

#[test]
fn a_body_about_identities_is_bounded() {
    run(async {
        let http = Fake::new().http();
        let body = |bytes: usize| format!("{{{}", " ".repeat(bytes - 1));
        for path in ["/v1/tickets", "/v1/revocations"] {
            let answer = ask(&http, "POST", path, &[], body(128 << 10)).await;
            assert_eq!(answer.status, 400, "{}", answer.text);
            let answer = ask(&http, "POST", path, &[], body((128 << 10) + 1)).await;
            assert_eq!(answer.status, 413, "{}", answer.text);
        }
    });
}
