//! What is wrong is told by `/v1/alerts`, in the stream of events and to the webhook, and counted by `/metrics`.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bloomgate::foreign::RedisBloom;
use bloomgate::{Contract, Digest};
use bloomgate_server::Settings;
use bloomgate_server::settings::table;
use bloomgate_server::store::{
    FaultyDisk, Folder, Fsync, Kind, Manifest, RealDisk, Trouble, read_manifest, write_manifest,
};
use serde_json::{Value, json};

use crate::events::Stream;
use crate::harness::{PATIENCE, Running, settings};

/// Alerts are looked for every ten seconds, and filters are visited in between.
const SOON: Duration = Duration::from_secs(60);

/// A receiver of alerts: its URL, and what it hears.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (hear, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
            let message = loop {
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0, "a request that is not whole");
                bytes.extend_from_slice(&piece[..read]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                if let Ok(message) = serde_json::from_slice::<Value>(&bytes[end + 4..]) {
                    break message;
                }
            };
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            if hear.send(message).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

/// Waits until `/v1/alerts` has all of these, and looks that the others who are to be told are told the same.
fn all_are_told(running: &Running, heard: &Receiver<Value>, wanted: &[(&str, &str)]) -> Value {
    let mut client = running.client();
    let has = |alerts: &Value, (name, severity): (&str, &str)| {
        alerts.as_array().unwrap().iter().any(|alert| alert["name"] == name && alert["severity"] == severity)
    };
    let begun = Instant::now();
    let told = loop {
        let told = client.get("/v1/alerts").is(200).json();
        if wanted.iter().all(|&one| has(&told["alerts"], one)) {
            break told;
        }
        assert!(begun.elapsed() < SOON, "{wanted:?} are not all in {told}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let event = Stream::open(running, None).next("alerts", |_| true).unwrap();
    assert!(wanted.iter().all(|&one| has(&event["alerts"], one)), "{event}");
    let mut missing: Vec<(&str, &str)> = wanted.to_vec();
    while !missing.is_empty() {
        let message = heard.recv_timeout(SOON).unwrap_or_else(|_| panic!("the webhook is not told of {missing:?}"));
        let is_told = |(name, severity): (&str, &str)| {
            message["alerts"].as_array().unwrap().iter().any(|alert| {
                let labels = &alert["labels"];
                alert["status"] == "firing" && labels["alertname"] == name && labels["severity"] == severity
            })
        };
        missing.retain(|&one| !is_told(one));
    }
    told["alerts"].clone()
}

/// The images of a folder, the smallest first.
fn images(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("image-")).collect();
    found.sort_by_key(|path| path.metadata().unwrap().len());
    found
}

/// The last snapshot of a folder was made so long ago.
fn age(folder: &Path, by: Duration) {
    let folder = Folder::open(folder, Arc::new(RealDisk)).unwrap();
    let Manifest { version, replay_after, mut sections } = read_manifest(&folder).unwrap().unwrap();
    let then = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - by;
    sections[..8].copy_from_slice(&(then.as_millis() as u64).to_le_bytes());
    write_manifest(&folder, &Manifest { version, replay_after, sections }).unwrap();
}

/// A filter of RedisBloom's with keys chosen against its public hash: of 24 candidates the one that sets the most new bits.
fn poisoned(keys: usize) -> Vec<(i64, Vec<u8>)> {
    let mut filter = RedisBloom::builder().items(keys as u64).rate(0.01).nonscaling().build().unwrap();
    let link = filter.shape().links()[0];
    let (bits, hashes) = (link.bits(), u64::from(link.hashes()));
    let hash = Contract::murmur64a_pair();
    let mut copy = vec![false; bits as usize];
    let places = |key: &str| {
        let Digest { lo, hi } = hash.digest(key.as_bytes()).unwrap();
        (0..hashes).map(move |at| (lo.wrapping_add(hi.wrapping_mul(at)) % bits) as usize)
    };
    for number in 0..keys {
        let candidates = (0..24).map(|candidate| format!("{number}-{candidate}"));
        let best = candidates.max_by_key(|key| places(key).filter(|&at| !copy[at]).count()).unwrap();
        places(&best).for_each(|at| copy[at] = true);
        filter.insert(best.as_bytes()).unwrap();
    }
    filter.to_chunks().unwrap()
}

/// Gives a command of any bytes over RESP; the first line of the reply.
fn say(running: &Running, words: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(running.resp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sent = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        sent.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        sent.extend_from_slice(word);
        sent.extend_from_slice(b"\r\n");
    }
    stream.write_all(&sent).unwrap();
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).lines().next().unwrap().to_owned()
}

/// A file of another server lies in the folder, so a filter lacks its secret; another file is damaged, so no snapshot is made, the
/// last one is two days old, and the log is long; and somebody has poisoned a filter that was imported, which the watch finds by itself.
#[test]
fn a_missing_secret_snapshots_that_fail_and_age_and_poisoning_are_told() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&other, &folder] {
        let running = Running::start_in(folder.path(), Fsync::Never);
        assert_eq!(running.resp(&["BF.RESERVE big 0.01 200000", "SAVE"]), ["+OK"; 2]);
        running.stop();
    }
    // A copy of 1.4 MiB has a file that only the log knows: damaged, it is in no snapshot, and none is made without it.
    let running = Running::start_in(folder.path(), Fsync::Never);
    let made = running.resp(&["BF.RESERVE large 0.01 1200000", "BF.ADD large x", "COPY large secret-orders"]);
    assert_eq!(made, ["+OK", ":1", ":1"]);
    running.stop();
    let found = images(folder.path());
    assert_eq!((found.len(), images(other.path()).len()), (2, 1));
    std::fs::copy(&images(other.path())[0], &found[0]).unwrap();
    // The other one is damaged: whatever it is called, it lacks no secret.
    let mut bytes = std::fs::read(&found[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&found[1], bytes).unwrap();
    age(folder.path(), Duration::from_secs(2 * 86_400));

    let (url, heard) = receiver();
    let kept =
        Settings { data: Some(folder.path().to_path_buf()), alert_webhook: Some(url.parse().unwrap()), ..settings() };
    let running = Running::start_with(kept);
    assert!(running.resp(&["SAVE"])[0].contains("unavailable"), "no snapshot is made of what cannot be read");
    for (iterator, data) in poisoned(2_000) {
        let loaded = say(&running, &[b"BF.LOADCHUNK", b"theirs", iterator.to_string().as_bytes(), &data]);
        assert_eq!(loaded, "+OK");
    }
    // 300 times 0.9 MiB of log: more than 256 MiB.
    assert_eq!(running.resp(&["BG.CREATE donor KIND blocked CAPACITY 650000 RATE 0.01"]), ["+OK"]);
    let copies: Vec<&str> = vec!["COPY donor copy REPLACE"; 330];
    assert!(running.resp(&copies).iter().all(|reply| reply == ":1"));

    let wanted = [
        ("BloomgateSecretMissing", "critical"),
        ("BloomgateSnapshotFailed", "warning"),
        ("BloomgateSnapshotTooOld", "warning"),
        ("BloomgatePoisoning", "critical"),
    ];
    let alerts = all_are_told(&running, &heard, &wanted);
    let of = |name: &str| alerts.as_array().unwrap().iter().find(|alert| alert["name"] == name).unwrap();
    assert_eq!(of("BloomgateSecretMissing")["summary"], "1 filter cannot answer without a secret");
    assert_eq!(of("BloomgateSecretMissing")["runbook"], "/runbook#secret-missing");
    let failed = of("BloomgateSnapshotFailed");
    assert!(failed["summary"].as_str().unwrap().contains("is unavailable, so no snapshot is made"), "{failed}");
    assert!(of("BloomgateSnapshotTooOld")["summary"].as_str().unwrap().contains("48 hours old"), "{alerts}");
    assert_eq!(of("BloomgatePoisoning")["filter"], "theirs");
    let mut client = running.client();
    let scraped = client.get("/metrics").is(200);
    for line in [
        "\nbloomgate_filters_unavailable{reason=\"secret\"} 1\n",
        "\nbloomgate_filters_unavailable{reason=\"other\"} 1\n",
        "\nbloomgate_snapshot_failed 1\n",
    ] {
        assert!(scraped.text().contains(line), "{line} is not in {}", scraped.text());
    }
    // Whoever deletes what cannot answer has none that lacks a secret, and snapshots again.
    assert_eq!(running.resp(&["DEL big", "DEL secret-orders", "SAVE"]), [":1", ":1", "+OK"]);
    assert!(client.get("/metrics").text().contains("\nbloomgate_filters_unavailable{reason=\"secret\"} 0\n"));
    running.stop();
}

#[test]
fn a_store_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(RealDisk);
    let (url, heard) = receiver();
    let kept = Settings {
        data: Some(folder.path().to_path_buf()),
        fsync: Fsync::Always,
        alert_webhook: Some(url.parse().unwrap()),
        ..settings()
    };
    let running = Running::start_on(Arc::new(disk.clone()), kept);
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100})).is(201);
    // No space left on the device.
    disk.plan(Trouble { from: 1, steps: u64::MAX, errno: 28, torn: false, steps_of: Kind::Change });
    client.put("/v1/filters/f/keys/lost").problem(503, "read-only");
    let alerts = all_are_told(&running, &heard, &[("BloomgateStoreReadOnly", "critical")]);
    assert!(alerts[0]["summary"].as_str().unwrap().starts_with("writes are refused: "), "{alerts}");
    // It ends by itself, and that is told too.
    disk.heal();
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(message["alerts"][0]["status"], "resolved", "{message}");
    assert_eq!(client.get("/v1/alerts").is(200).json(), json!({"alerts": []}));
    running.stop();
}

/// Connections to an address that say this, as many as are no accident; each until the server ends it.
fn strangers(to: SocketAddr, bytes: &[u8]) {
    let streams: Vec<TcpStream> = (0..101)
        .map(|_| {
            let mut stream = TcpStream::connect(to).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            // One that is refused may be closed already.
            let _ = stream.write_all(bytes);
            stream
        })
        .collect();
    for mut stream in streams {
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is served for ever");
    }
}

/// Waits until an alert of this name says all of these.
fn told_of(running: &Running, name: &str, says: &[&str]) {
    let (mut client, begun) = (running.client(), Instant::now());
    loop {
        let told = client.get("/v1/alerts").is(200).json();
        let one = told["alerts"].as_array().unwrap().iter().find(|alert| alert["name"] == name).cloned();
        let summary = one.as_ref().and_then(|alert| alert["summary"].as_str()).unwrap_or_default();
        if one.is_some() && says.iter().all(|words| summary.contains(words)) {
            return;
        }
        assert!(begun.elapsed() < SOON, "{name} does not say {says:?} in {told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// More clients than may be, requests that never end, and guesses at a password.
#[test]
fn an_attack_is_told() {
    let (url, heard) = receiver();
    let running = Running::start_with(Settings {
        request_deadline: Duration::from_millis(200),
        alert_webhook: Some(url.parse().unwrap()),
        ..settings()
    });
    // A hundred of a sort are none: the one more comes at the end.
    assert_eq!(running.resp(&["ACL SETUSER ann on >long-and-random +@read"]), ["+OK"]);
    let guesses: Vec<String> = (0..101).map(|number| format!("AUTH ann guess-{number}")).collect();
    let guesses: Vec<&str> = guesses.iter().map(|guess| &**guess).collect();
    assert!(running.resp(&guesses[..100]).iter().all(|reply| reply.starts_with("-WRONGPASS")));
    strangers(running.resp, b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf");
    told_of(&running, "BloomgateUnderAttack", &["five minutes: 101 clients ended by a limit"]);
    let mut only = BufReader::new(TcpStream::connect(running.resp).unwrap());
    only.get_mut().write_all(b"CONFIG SET max-clients 1\r\n").unwrap();
    only.read_line(&mut String::new()).unwrap();
    strangers(running.resp, b"");
    only.get_mut().write_all(b"CONFIG SET max-clients 1000\r\n").unwrap();
    only.read_line(&mut String::new()).unwrap();
    running.resp(&guesses[100..]);
    let alerts = all_are_told(&running, &heard, &[("BloomgateUnderAttack", "warning")]);
    assert_eq!(alerts[0]["runbook"], "/runbook#under-attack");
    told_of(
        &running,
        "BloomgateUnderAttack",
        &["101 logins failed", "clients refused", "101 clients ended by a limit"],
    );
    let text = running.client().get("/metrics").is(200).text().to_owned();
    for line in [
        "bloomgate_logins_failed_total 101",
        "bloomgate_clients_rejected_total 101",
        "bloomgate_clients_cut_total{reason=\"slow\"} 101",
        "bloomgate_clients_cut_total{reason=\"guest\"} 0",
        "bloomgate_client_memory_used_bytes 0",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
    }
    running.stop();
}

/// Noise for both ports of TLS, and nobody who logs in.
#[test]
fn an_attack_on_tls_and_by_guests_is_told() {
    let (folder, (url, heard)) = (tempfile::tempdir().unwrap(), receiver());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sealed = Settings {
        tls: Some(free),
        http_tls: true,
        tls_cert: Some(cert),
        tls_key: Some(key),
        request_deadline: Duration::from_millis(200),
        alert_webhook: Some(url.parse().unwrap()),
        ..settings()
    };
    table::set(&mut sealed, "password", "sesame").unwrap();
    let running = Running::start_with(sealed);
    for address in [free, running.http] {
        strangers(address, b"*1\r\n$4\r\nPING\r\n");
    }
    strangers(running.resp, b"");
    let all = ["101 clients ended by a limit", "101 TLS handshakes failed", "101 HTTP connections turned away"];
    let begun = Instant::now();
    // Its sentence may be of a look between two of them; then INFO has to tell of the rest.
    let message = heard.recv_timeout(SOON).unwrap();
    let alert = &message["alerts"][0];
    assert_eq!(alert["labels"]["alertname"], "BloomgateUnderAttack", "{message}");
    let said = alert["annotations"]["summary"].as_str().unwrap();
    assert!(all.iter().any(|words| said.contains(words)), "{said}");
    let mut client = BufReader::new(TcpStream::connect(running.resp).unwrap());
    client.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    client.get_mut().write_all(b"AUTH sesame\r\nINFO stats\r\nQUIT\r\n").unwrap();
    let mut info = String::new();
    client.read_to_string(&mut info).unwrap();
    for line in ["connections_cut_guests:101\r\n", "tls_handshakes_failed:101\r\n", "connections_cut_idle:0\r\n"] {
        assert!(info.contains(line), "{line} is not in {info}, {:?} later", begun.elapsed());
    }
    running.stop_as(Some("sesame"));
}

#[test]
fn memory_that_is_nearly_spent_is_told_and_whose_it_is() {
    let (url, heard) = receiver();
    let running = Running::start_with(Settings { alert_webhook: Some(url.parse().unwrap()), ..settings() });
    let declared = ["BG.NAMESPACE SET free PREFIX free:", "BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 100MB"];
    assert_eq!(running.resp(&declared), ["+OK"; 2]);
    let make = |name: &str| format!("BG.CREATE {name} KIND blocked CAPACITY 300000 RATE 0.01");
    assert_eq!(running.resp(&[&make("free:f"), &make("shop:f")]), ["+OK"; 2]);
    let mut client = running.client();
    let mut metric = |series: &str| -> u64 {
        let text = client.get("/metrics").is(200).text().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap_or_else(|| panic!("{series} is not in {text}")).parse().unwrap()
    };
    let (used, of_shop) =
        (metric("bloomgate_memory_used_bytes"), metric("bloomgate_namespace_memory_bytes{namespace=\"shop\"}"));
    assert!(of_shop > 300_000 && used >= 2 * of_shop, "{of_shop} of {used}");
    let limit = |percent: u64| {
        let lines = [
            format!("CONFIG SET max-memory {}", used * 100 / percent),
            format!("BG.NAMESPACE SET shop MAXMEMORY {}", of_shop * 100 / percent),
        ];
        assert_eq!(running.resp(&lines.each_ref().map(|line| &**line)), ["+OK"; 2]);
    };
    // Four fifths are not nearly all, whenever it is looked; 0 for no limit never is.
    limit(80);
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(running.client().get("/v1/alerts").is(200).json(), json!({"alerts": []}));
    limit(95);
    let wanted = [("BloomgateMemoryNearlySpent", "warning"), ("BloomgateNamespaceNearlyFull", "warning")];
    all_are_told(&running, &heard, &wanted);
    let most = format!("bytes of the {} they may have (max-memory)", used * 100 / 95);
    told_of(&running, "BloomgateMemoryNearlySpent", &["filters take", &most]);
    let most = format!("bytes of {}", of_shop * 100 / 95);
    told_of(&running, "BloomgateNamespaceNearlyFull", &["may have is taken: shop has", &most]);
    // What it says comes true, and it ends when there is room again.
    let refused = &running.resp(&[&make("shop:g")])[0];
    assert!(refused.starts_with("-ERR Insufficient memory"), "{refused}");
    assert_eq!(running.resp(&["CONFIG SET max-memory 1GB", "BG.NAMESPACE SET shop MAXMEMORY 100MB"]), ["+OK"; 2]);
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(message["status"], "resolved", "{message}");
    running.stop();
}
