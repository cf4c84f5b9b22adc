//! What a gate tells a filter behind the Redis protocol: digests under its own secret and no keys, so that keys which were
//! chosen against the server's hash, if that is one that everybody knows, are keys like any others.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate::foreign::RedisBloom;
use bloomgate_gate::filters::resp::RespFilters;
use bloomgate_gate::{Gate, Key, Outcome, State, Writers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::filter_server::FilterServer;
use crate::memory_source::{MemorySource, row_of};

/// What every key here begins with, and nothing else that is sent.
const MARK: &str = "sku~";
const RATE: f64 = 0.05;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{MARK}{number}")).collect()
}

/// A hash that everybody knows.
#[derive(Clone, Copy, Debug)]
enum Public {
    Xxh3,
    RedisBloom,
}

impl Public {
    /// Makes an empty filter that hashes so, as somebody would who made it by hand, or whose server is RedisBloom.
    fn make(self, client: &mut redis::Connection, name: &[u8], capacity: u64, rate: f64) {
        match self {
            Self::Xxh3 => {
                let mut make = redis::cmd("BG.CREATE");
                make.arg(name).arg("KIND").arg("scalable").arg("CAPACITY").arg(capacity).arg("RATE").arg(rate);
                make.arg("HASH").arg("xxh3").exec(client).unwrap();
            }
            Self::RedisBloom => {
                let empty = RedisBloom::builder().items(capacity).rate(rate).build().unwrap();
                for (iterator, data) in empty.to_chunks().unwrap() {
                    redis::cmd("BF.LOADCHUNK").arg(name).arg(iterator).arg(&*data).exec(client).unwrap();
                }
            }
        }
    }
}

/// Stands between a gate and its server and writes down every byte; may make each filter itself, of a public hash, before the
/// server is asked to, which then says that there is one already.
struct Wiretap {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    /// Capacity and rate of the last filter that was made.
    asked: Arc<Mutex<Option<(u64, f64)>>>,
}

impl Wiretap {
    async fn start(server: &FilterServer, public: Option<Public>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (heard, asked): (Arc<Mutex<Vec<u8>>>, Arc<Mutex<_>>) = Default::default();
        let tap = Self { address: listener.local_addr().unwrap(), heard: heard.clone(), asked: asked.clone() };
        let (to, url) = (server.address, server.url());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = TcpStream::connect(to).await.unwrap().into_split();
                let (heard_back, heard, asked, url) = (heard.clone(), heard.clone(), asked.clone(), url.clone());
                tokio::spawn(async move {
                    let mut bytes = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                        heard_back.lock().unwrap().extend(&bytes[..count]);
                        if to_client.write_all(&bytes[..count]).await.is_err() {
                            return;
                        }
                    }
                });
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    while let Ok(1..) = from_client.read_buf(&mut bytes).await {
                        while let Some((words, length)) = command(&bytes) {
                            if words[0] == b"BF.RESERVE" {
                                let number = |at: usize| std::str::from_utf8(words[at]).unwrap();
                                let (rate, capacity) = (number(2).parse().unwrap(), number(3).parse().unwrap());
                                *asked.lock().unwrap() = Some((capacity, rate));
                                if let Some(public) = public {
                                    let mut direct = redis::Client::open(&*url).unwrap().get_connection().unwrap();
                                    public.make(&mut direct, words[1], capacity, rate);
                                }
                            }
                            heard.lock().unwrap().extend(&bytes[..length]);
                            if to_server.write_all(&bytes[..length]).await.is_err() {
                                return;
                            }
                            bytes.drain(..length);
                        }
                    }
                });
            }
        });
        tap
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    fn has_heard(&self, what: &str) -> bool {
        self.heard.lock().unwrap().windows(what.len()).any(|bytes| bytes == what.as_bytes())
    }
}

/// The first command of these bytes and how long it is, once all of it is there.
fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let line = |from: usize| -> Option<(usize, usize)> {
        let end = from + bytes.get(from..)?.iter().position(|&byte| byte == b'\n')?;
        let number = std::str::from_utf8(&bytes[from + 1..end - 1]).unwrap().parse().unwrap();
        Some((number, end + 1))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, from) = line(at)?;
        words.push(bytes.get(from..from + length)?);
        at = from + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

async fn gate(source: &Arc<MemorySource>, url: &str) -> Gate {
    let filters = RespFilters::connect(url, "gate", Duration::from_secs(5)).await.unwrap();
    let builder = Gate::builder(source.clone()).writers(Writers::Sole).rate(RATE).headroom(1.0).least_keys(1);
    builder.audit_share(0.0).rebuild_every(None).remote_filter(filters).build().unwrap()
}

fn keys(names: &[String]) -> Vec<Key> {
    names.iter().map(|name| Key::from(name.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_leaves_the_process() {
    let server = FilterServer::start();
    let tap = Wiretap::start(&server, None).await;
    let source = MemorySource::with(names(3_000));
    let gate = gate(&source, &tap.url()).await;
    gate.rebuild().await.unwrap();
    for name in names(4_000).iter().skip(2_990).take(20) {
        gate.get(&Key::from(name.as_str())).await.unwrap();
    }
    gate.get_many(&keys(&names(5_000))).await.unwrap();
    gate.put(Key::from("sku~new"), row_of("new")).await.unwrap();
    assert!(gate.get(&Key::from("sku~new")).await.unwrap().row.is_some());
    gate.delete(&Key::from("sku~new")).await.unwrap();
    gate.explain(&Key::from("sku~7")).await.unwrap();
    gate.rebuild().await.unwrap();
    for what in ["BF.RESERVE", "BF.INSERT", "BF.MEXISTS", "RENAME"] {
        assert!(tap.has_heard(what), "{what} passed here");
    }
    assert!(!tap.has_heard(MARK), "a key passed here");
    // It would have been heard.
    let mut open = redis::Client::open(tap.url()).unwrap().get_connection().unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        redis::cmd("BF.EXISTS").arg("gate").arg("sku~7").query::<bool>(&mut open).unwrap()
    });
    asked.await.unwrap();
    assert!(tap.has_heard("sku~7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_chosen_against_a_public_hash_get_through_no_more_often_than_others() {
    for public in [Public::Xxh3, Public::RedisBloom] {
        let server = FilterServer::start();
        let tap = Wiretap::start(&server, Some(public)).await;
        let products = names(20_000);
        let source = MemorySource::with(products.clone());
        let gate = gate(&source, &tap.url()).await;
        gate.rebuild().await.unwrap();
        let (capacity, rate) = tap.asked.lock().unwrap().unwrap();
        assert!(capacity >= 20_000 && rate == RATE, "{capacity} at {rate}");

        // Who knows the hash and the products makes the same filter at home, twice, and looks for keys that it takes for its
        // own: the other one takes them too.
        let mut client = server.client();
        let mut fill = |name: &str| {
            public.make(&mut client, name.as_bytes(), capacity, rate);
            for some in products.chunks(1_000) {
                redis::cmd("BF.INSERT").arg(name).arg("NOCREATE").arg("ITEMS").arg(some).exec(&mut client).unwrap();
            }
        };
        fill("home");
        fill("proof");
        let mut client = server.client();
        let mut has = |name: &str, keys: &[String]| -> Vec<bool> {
            let ask = |some: &[String], client: &mut redis::Connection| -> Vec<bool> {
                redis::cmd("BF.MEXISTS").arg(name).arg(some).query(client).unwrap()
            };
            keys.chunks(1_000).flat_map(|some| ask(some, &mut client)).collect()
        };
        let mut chosen = Vec::new();
        for round in 0..500 {
            let tried: Vec<String> = (0..1_000).map(|number| format!("{MARK}tried-{round}-{number}")).collect();
            let hits = has("home", &tried);
            chosen.extend(std::iter::zip(tried, hits).filter(|(_, hit)| *hit).map(|(key, _)| key));
        }
        assert!(chosen.len() > 3_000, "{} of 500,000", chosen.len());
        chosen.truncate(10_000);
        assert!(has("proof", &chosen).iter().all(|&hit| hit), "the hash is public");

        let answers = gate.get_many(&keys(&chosen)).await.unwrap();
        let through = answers.iter().filter(|answer| answer.outcome != Outcome::AbsentByFilter).count();
        let share = through as f64 / chosen.len() as f64;
        assert!(share <= 1.05 * RATE, "{public:?}: {through} of {} were let through", chosen.len());
        assert!(through > 0, "it is a filter, and not a list");
        let known = gate.get_many(&keys(&products[..1_000])).await.unwrap();
        assert!(known.iter().all(|answer| answer.row.is_some()));
    }
}

/// As a gate of an earlier version left it, or makes it while this one runs: with the keys themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_raw_keys_is_never_believed() {
    let server = FilterServer::start();
    let products = names(2_000);
    let source = MemorySource::with(products.clone());
    let leave_raw = || {
        let mut client = server.client();
        redis::cmd("BF.RESERVE").arg("raw").arg(RATE).arg(20_000).exec(&mut client).unwrap();
        let sentinels = (0..7).map(|number| format!("\u{1}sentinel:0123456789abcdef0123456789abcdef:{number}"));
        let items: Vec<String> = products.iter().cloned().chain(sentinels).collect();
        redis::cmd("BF.INSERT").arg("raw").arg("NOCREATE").arg("ITEMS").arg(&items).exec(&mut client).unwrap();
        redis::cmd("RENAME").arg("raw").arg("gate").exec(&mut client).unwrap();
    };
    leave_raw();
    let gate = gate(&source, &server.url()).await;
    let known = keys(&products[..200]);
    // Found before, while nothing was built yet.
    for answer in gate.get_many(&known).await.unwrap() {
        assert!(answer.row.is_some() && answer.outcome == Outcome::Bypass, "{answer:?}");
    }
    for version in 1..=2 {
        gate.rebuild().await.unwrap();
        assert!(matches!(gate.state(), State::Ready { version: now, .. } if now == version));
        let absent = gate.get_many(&keys(&names(4_000)[2_000..])).await.unwrap();
        assert!(absent.iter().filter(|answer| answer.outcome == Outcome::AbsentByFilter).count() > 1_800);
        assert!(gate.get_many(&known).await.unwrap().iter().all(|answer| answer.row.is_some()));
        // Put in its place: by its digests every key would be absent from it.
        leave_raw();
        for key in &known {
            let answer = gate.get(key).await.unwrap();
            assert!(answer.row.is_some() && answer.outcome == Outcome::Bypass, "{answer:?}");
            assert_eq!(gate.state(), State::Broken);
        }
    }
}
