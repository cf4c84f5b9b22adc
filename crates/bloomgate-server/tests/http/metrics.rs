//! Metrics of a server that keeps its filters: the whole table, what is estimated of large filters, and the cap on labels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_server::Settings;
use bloomgate_server::engine::Limits;
use bloomgate_server::http::metrics::table;
use bloomgate_server::store::{FaultyDisk, Fsync, RealDisk};
use serde_json::json;

use crate::harness::{Client, Running, settings};

/// A walk over all filters is taken every ten seconds.
const SOON: Duration = Duration::from_secs(30);

/// The value behind a metric and its labels.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
    line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// What is told once it has a line.
fn scraped_with(client: &mut Client, line: &str) -> String {
    let begun = Instant::now();
    loop {
        let text = client.get("/metrics").is(200).text().to_owned();
        if text.lines().any(|known| known == line) {
            return text;
        }
        assert!(begun.elapsed() < SOON, "{line} is not in\n{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_whole_table_is_told_by_a_server_that_keeps_its_filters() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { max_memory: 64 << 20, ..settings().limits };
    let kept = Settings {
        data: Some(folder.path().to_path_buf()),
        fsync: Fsync::Always,
        limits,
        alert_webhook: Some("http://127.0.0.1:9/hook".parse().unwrap()),
        ..settings()
    };
    let running = Running::start_with(kept);
    let mut client = running.client();
    assert_eq!(running.resp(&["BG.NAMESPACE SET shop PREFIX shop:", "BF.RESERVE shop:f 0.01 1000"]), ["+OK"; 2]);
    let keys: Vec<String> = (0..1_000).map(|number| format!("key-{number}")).collect();
    client.json("POST", "/v1/filters/shop:f/add", &json!({"keys": keys})).is(200);
    client.json("POST", "/v1/filters/shop:f/check", &json!({"keys": keys})).is(200);
    let before = client.get("/metrics").is(200);
    let log_before = value(before.text(), "bloomgate_log_bytes");
    assert!((1_200.0..16_000.0).contains(&log_before), "the bits of a thousand keys, not their digests: {log_before}");
    assert!(value(before.text(), "bloomgate_fsyncs_total") >= 1.0);
    assert!(value(before.text(), "bloomgate_fsync_slowest_seconds") > 0.0);
    assert_eq!(value(before.text(), "bloomgate_fsync_lag_seconds"), 0.0, "everything that was answered is synced");
    assert_eq!(running.resp(&["SAVE"]), ["+OK"]);
    // It probes the filter, so that there is a measured rate.
    running.resp(&["BG.STATS shop:f"]);
    // Of a thousand keys one or two meet only bits that are set already: those are not new.
    let items = value(before.text(), "bloomgate_filter_items{filter=\"shop:f\"}");
    assert!((980.0..=1_000.0).contains(&items), "{items}");
    let text = scraped_with(&mut client, &format!("bloomgate_namespace_items{{namespace=\"shop\"}} {items}"));
    for metric in table() {
        assert!(text.contains(&format!("# TYPE {} ", metric.name)), "{} is not told:\n{text}", metric.name);
        let has_value = text.lines().any(|line| {
            line.strip_prefix(metric.name)
                .is_some_and(|rest| rest.starts_with([' ', '{']) || rest.starts_with("_count"))
        });
        assert!(has_value, "{} has no value", metric.name);
    }
    assert!(value(&text, "bloomgate_log_bytes") < log_before, "a snapshot begins a new log");
    assert!(value(&text, "bloomgate_snapshot_age_seconds") < 60.0);
    assert_eq!(value(&text, "bloomgate_snapshot_failed"), 0.0);
    assert_eq!(value(&text, "bloomgate_memory_budget_bytes"), f64::from(64 << 20));
    let bytes = value(&text, "bloomgate_filter_bytes{filter=\"shop:f\"}");
    let used = value(&text, "bloomgate_memory_used_bytes");
    assert!(bytes > 1_000.0 && used > bytes && used < f64::from(64 << 20), "{bytes} of {used}");
    let of_space = value(&text, "bloomgate_namespace_memory_bytes{namespace=\"shop\"}");
    assert!(of_space > bytes && of_space <= used, "{bytes} in {of_space} in {used}");
    let rate = |name: &str| value(&text, &format!("bloomgate_filter_rate_{name}_ratio{{filter=\"shop:f\"}}"));
    assert_eq!(rate("asked"), 0.01);
    for name in ["expected", "estimated", "measured"] {
        assert!((0.002..0.0125).contains(&rate(name)), "{name}: {}", rate(name));
    }
    let fill = value(&text, "bloomgate_filter_fill_ratio{filter=\"shop:f\"}");
    assert!((0.2..0.7).contains(&fill), "{fill}");
    assert_eq!(value(&text, "bloomgate_namespace_capacity{namespace=\"shop\"}"), 1_000.0);
    assert!(value(&text, "bloomgate_namespace_commands_total{namespace=\"shop\"}") >= 4.0);
    assert_eq!(value(&text, "bloomgate_filters_over_capacity"), 0.0);
    assert!((0.9..=1.0).contains(&value(&text, "bloomgate_filter_worst_used_ratio")));
    running.stop();
}

/// How long writes have been waiting for a disk that does not end its syncs, and nothing once it has.
#[test]
fn writes_that_wait_for_the_disk_are_told_by_how_long_they_do() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(RealDisk);
    let kept = Settings { data: Some(folder.path().to_path_buf()), fsync: Fsync::Always, ..settings() };
    let running = Running::start_on(Arc::new(disk.clone()), kept);
    assert_eq!(running.resp(&["BF.RESERVE f 0.01 1000"]), ["+OK"]);
    let mut client = running.client();
    let mut lag = || value(client.get("/metrics").is(200).text(), "bloomgate_fsync_lag_seconds");
    assert_eq!(lag(), 0.0);
    disk.hold_syncs(true);
    let mut writes = running.client();
    writes.put_raw(b"PUT /v1/filters/f/keys/alice HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    for least in [0.1, 0.5] {
        let begun = Instant::now();
        while lag() < least {
            assert!(begun.elapsed() < SOON, "nothing waits for {least} s");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    disk.hold_syncs(false);
    writes.answer(false).is(200);
    assert_eq!(lag(), 0.0);
    running.stop();
}

/// 104 filters and as many namespaces: 100 of each have lines of their own, the other namespaces one together, and the
/// smallest filter, which has no line, is counted as overfull all the same.
#[test]
fn labels_are_bounded_and_nobody_is_forgotten() {
    let running = Running::start();
    let mut client = running.client();
    for number in 0..103 {
        let name = format!("tenant-{number:03}");
        let lines = [
            format!("BG.NAMESPACE SET {name} PREFIX {name}:"),
            format!("BG.CREATE {name}:f KIND blocked CAPACITY 1000 RATE 0.01"),
            format!("BF.ADD {name}:f a"),
            format!("BF.ADD {name}:f b"),
            format!("BF.EXISTS {name}:f a"),
        ];
        let replies = running.resp(&lines.each_ref().map(|line| &**line));
        assert_eq!(replies, ["+OK", "+OK", ":1", ":1", ":1"].map(str::to_owned), "{name}");
    }
    let tight = "BG.CREATE tight KIND blocked CAPACITY 20 RATE 0.01 ONFULL goon";
    let items: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    running.resp(&[tight, &format!("BF.MADD tight {}", items.join(" "))]);
    // 2 MiB, nothing in it: its rate is estimated from some of its lines.
    running.resp(&["BG.CREATE large KIND blocked CAPACITY 2000000 RATE 0.01"]);
    let text = scraped_with(&mut client, "bloomgate_filters_over_capacity 1");
    assert!(value(&text, "bloomgate_filter_worst_used_ratio") > 2.0);
    let lines = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(lines("bloomgate_filter_items{"), 100);
    assert_eq!(lines("bloomgate_filter_items{filter=\"tight\"}"), 0, "it is smaller than a hundred others");
    assert!(value(&text, "bloomgate_filter_bytes{filter=\"large\"}") > f64::from(1 << 20));
    assert_eq!(value(&text, "bloomgate_filter_rate_estimated_ratio{filter=\"large\"}"), 0.0);
    assert_eq!(value(&text, "bloomgate_namespaces"), 103.0);
    assert_eq!(lines("bloomgate_namespace_filters{"), 101);
    assert_eq!(lines("bloomgate_namespace_filters{namespace=\"tenant-099\"}"), 1);
    assert_eq!(lines("bloomgate_namespace_filters{namespace=\"tenant-100\"}"), 0);
    let others = |name: &str| value(&text, &format!("bloomgate_namespace_{name}{{namespace=\"(others)\"}}"));
    let first = |name: &str| value(&text, &format!("bloomgate_namespace_{name}{{namespace=\"tenant-000\"}}"));
    assert_eq!(
        (first("filters"), first("items"), first("capacity"), first("commands_total")),
        (1.0, 2.0, 1_000.0, 4.0)
    );
    for name in ["filters", "items", "capacity", "commands_total", "memory_bytes"] {
        assert_eq!(others(name), 3.0 * first(name), "{name}");
    }
    let answered = |answer: &str| {
        value(&text, &format!("bloomgate_namespace_lookups_total{{namespace=\"(others)\",answer=\"{answer}\"}}"))
    };
    assert_eq!((answered("maybe"), answered("no")), (3.0, 0.0));
    let added = "bloomgate_namespace_adds_total{namespace=\"(others)\",result=\"new\"}";
    assert_eq!(value(&text, added), 6.0);
    // The alert names it, though no series does.
    let alerts = client.get("/v1/alerts").is(200).json();
    assert_eq!(
        (&alerts["alerts"][0]["name"], &alerts["alerts"][0]["filter"]),
        (&json!("BloomgateOverCapacity"), &json!("tight"))
    );
    running.stop();
}

/// Whoever may make filters may call them anything: two series that are alike would spoil the whole scrape.
#[test]
fn filters_whose_names_are_told_alike_have_series_of_their_own() {
    let running = Running::start();
    let mut client = running.client();
    let begin = "x".repeat(140);
    // The last two look like what is told of the others: theirs is the first number.
    for name in [format!("{begin}a"), format!("{begin}b"), "%FF".into(), "%FE".into(), "%EF%BF%BD%E2%80%A61".into()] {
        client.put(&format!("/v1/filters/{name}/keys/k")).is(404);
        let file = {
            let wish = json!({"name": "made", "kind": "blocked", "capacity": 50_000});
            client.json("POST", "/v1/filters", &wish).is(201);
            client.get("/v1/filters/made/snapshot").is(200).body
        };
        let kind = [("content-type", "application/vnd.bloomgate.filter")];
        client.send("PUT", &format!("/v1/filters/{name}/snapshot"), &kind, &file).is(201);
        client.delete("/v1/filters/made").is(204);
    }
    let text = client.get("/metrics").is(200).text().to_owned();
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        assert!(seen.insert(series), "{series} is there twice");
    }
    let told = seen.iter().filter(|series| series.starts_with("bloomgate_filter_items{")).count();
    assert_eq!(told, 5, "{seen:#?}");
    running.stop();
}

/// The thread that a running server starts visits its filters by itself: nobody asks for BG.STATS here.
#[test]
fn a_running_server_probes_its_filters_by_itself() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 2_000, "rate": 0.05}))
        .is(201);
    let keys: Vec<String> = (0..2_000).map(|number| format!("key-{number}")).collect();
    client.json("POST", "/v1/filters/f/add", &json!({"keys": keys})).is(200);
    let begun = Instant::now();
    let text = loop {
        let text = client.get("/metrics").is(200).text().to_owned();
        // 16 visits of 256 keys each: 5 % is known to a twentieth of itself or so.
        if value(&text, "bloomgate_probes_total") >= 4_096.0 && text.contains("bloomgate_filter_score{filter=\"f\"}") {
            break text;
        }
        assert!(begun.elapsed() < SOON, "nobody looks at the filter:\n{text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let measured = value(&text, "bloomgate_filter_rate_measured_ratio{filter=\"f\"}");
    assert!((0.02..0.09).contains(&measured), "{measured}");
    assert_eq!(value(&text, "bloomgate_lookups_total{answer=\"no\"}"), 0.0, "probes are no lookups");
    let info = client.json("POST", "/v1/command", &json!({"argv": ["INFO", "watch"]})).is(200).json();
    let rounds = info["reply"].as_str().unwrap().lines().find_map(|line| line.strip_prefix("probe_rounds:"));
    assert!(rounds.is_some_and(|rounds| rounds.trim() != "0"), "{info}");
    running.stop();
}
