//! Scrapes as scrapers read them: our own strict reader, and Prometheus's promtool.

use std::io::Write;
use std::process::{Command, Stdio};

use bloomgate_http::listen::Traffic;
use bloomgate_http::metrics::{Form, Metric, Scrape, Value, check, markdown};

use crate::exposition::read;

static LOOKUPS: Metric = Metric::counter("bloomgate_test_lookups_total", "Lookups, by \"outcome\" and C:\\path", "")
    .labels(&["outcome", "table"]);
static WAITED: Metric = Metric::counter("bloomgate_test_waited_seconds_total", "Time spent waiting", "seconds");
static FILL: Metric = Metric::gauge("bloomgate_test_fill_ratio", "Share of bits that are set", "ratio");
static AGE: Metric = Metric::gauge("bloomgate_test_age_seconds", "Age of the filter", "seconds").labels(&["state"]);
static TOOK: Metric =
    Metric::histogram("bloomgate_test_lookup_seconds", "How long lookups took", "seconds").labels(&["of"]);
static TABLE: &[&Metric] = &[&LOOKUPS, &WAITED, &FILL, &AGE, &TOOK];

fn scrape() -> Scrape {
    let mut scrape = Scrape::default();
    scrape.whole(&LOOKUPS, &[("outcome", "cache"), ("table", "a \"b\"\\\n{},=é")], u64::MAX);
    scrape.number(&FILL, &[], 0.5);
    scrape.number(&WAITED, &[], 1.25e-7);
    // The second of a family joins the first, whatever came between.
    scrape.whole(&LOOKUPS, &[("outcome", "source"), ("table", "")], 0);
    for (state, age) in [("new", f64::NAN), ("old", f64::INFINITY), ("odd", -1e300)] {
        scrape.number(&AGE, &[("state", state)], age);
    }
    let counts = vec![3, 0, 2, 1];
    scrape.add(&TOOK, &[("of", "all")], Value::Buckets { bounds: &[0.00001, 0.5, 2.0], counts, sum: 7.5 });
    Traffic::default().collect(&mut scrape);
    scrape
}

#[test]
fn both_forms_are_read_and_mean_what_was_put_in() {
    assert_eq!(check(TABLE), Vec::<String>::new());
    assert_eq!(check(Traffic::TABLE), Vec::<String>::new());
    for form in [Form::Prometheus, Form::OpenMetrics] {
        let text = scrape().write(form);
        let samples = read(&text, form == Form::OpenMetrics).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let value = |name: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let found = samples.iter().find(|(known, have, _)| known == name && *have == labels);
            found.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{text}")).2
        };
        let odd = [("outcome", "cache"), ("table", "a \"b\"\\\n{},=é")];
        assert_eq!(value("bloomgate_test_lookups_total", &odd), u64::MAX as f64);
        assert_eq!(value("bloomgate_test_lookups_total", &[("outcome", "source"), ("table", "")]), 0.0);
        assert_eq!(value("bloomgate_test_waited_seconds_total", &[]), 1.25e-7);
        assert_eq!(value("bloomgate_test_fill_ratio", &[]), 0.5);
        assert!(value("bloomgate_test_age_seconds", &[("state", "new")]).is_nan());
        assert_eq!(value("bloomgate_test_age_seconds", &[("state", "old")]), f64::INFINITY);
        assert_eq!(value("bloomgate_test_age_seconds", &[("state", "odd")]), -1e300);
        let below = ["0.00001", "0.5", "2.0", "+Inf"]
            .map(|bound| value("bloomgate_test_lookup_seconds_bucket", &[("of", "all"), ("le", bound)]));
        assert_eq!(below, [3.0, 3.0, 5.0, 6.0]);
        assert_eq!(value("bloomgate_test_lookup_seconds_count", &[("of", "all")]), 6.0);
        assert_eq!(value("bloomgate_test_lookup_seconds_sum", &[("of", "all")]), 7.5);
        assert_eq!(text.contains("# UNIT bloomgate_test_waited_seconds seconds\n"), form == Form::OpenMetrics);
        assert_eq!(text.contains("# TYPE bloomgate_test_lookups counter\n"), form == Form::OpenMetrics);
        assert_eq!(text.contains("# TYPE bloomgate_test_lookups_total counter\n"), form == Form::Prometheus);
    }
    assert_eq!(markdown(TABLE).lines().count(), 2 + TABLE.len());
    assert_eq!(Scrape::default().write(Form::OpenMetrics), "# EOF\n");
}

#[test]
fn promtool_has_nothing_to_say() {
    let complaints = |text: &str| {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool: scripts/test installs Debian's package prometheus for it");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let text = scrape().write(Form::Prometheus);
    assert_eq!(complaints(&text), (true, String::new()), "{text}");
    // And it does look.
    let (passed, said) = complaints(&text.replace("_lookups_total", "_lookups"));
    assert!(!passed && said.contains("_total"), "{said}");
}
