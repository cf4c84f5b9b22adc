//! Webhooks to receivers that answer, refuse, fail and recover, hang, and are gone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Heard, channel};
use std::time::{Duration, Instant};

use bloomgate_http::metrics::{Form, Scrape};
use bloomgate_http::webhook::{self, Alert, Origin, Patience, Receiver, Webhook};

/// Nothing takes longer, or the test fails instead of hanging.
const LONG: Duration = Duration::from_secs(30);

/// What a receiver does with a request.
#[derive(Clone, Copy)]
enum Does {
    Answers(u16),
    /// It takes the request and says nothing, until whoever asked is gone.
    Hangs,
}

/// A receiver that does one thing after the other, and the last for ever.
fn receiver(script: &'static [Does]) -> (SocketAddr, Heard<(String, serde_json::Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (hear, heard) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let (head, body) = request(&mut stream);
            let does = script[number.min(script.len() - 1)];
            if hear.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
            match does {
                Does::Answers(status) => {
                    // Whoever asks may be gone.
                    let _ = write!(stream, "HTTP/1.1 {status} Said\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n");
                }
                Does::Hangs => {
                    let hear = hear.clone();
                    std::thread::spawn(move || {
                        let _ = stream.read(&mut [0]);
                        let _ = hear.send(("gone".to_owned(), serde_json::Value::Null));
                    });
                }
            }
        }
    });
    (address, heard)
}

fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "a request that is not whole: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse::<usize>().unwrap();
        if bytes.len() >= end + 4 + length {
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

fn alert(filter: &str) -> Alert {
    Alert {
        name: "BloomgateOverCapacity",
        severity: "warning",
        summary: "it holds 101 items and was made for 100".to_owned(),
        section: "over-capacity",
        filter: Some(filter.to_owned()),
    }
}

/// A webhook to this address, and what it complains of.
fn webhook(address: SocketAddr, each: Duration, pauses: &[u64]) -> (Webhook, Heard<String>) {
    let to: Receiver = format!("http://{address}/hook/TOKEN").parse().unwrap();
    let origin = Origin { job: "bloomgate-server", instance: "here:8479".to_owned(), pages: None };
    let patience = Patience { each, pauses: pauses.iter().map(|&millis| Duration::from_millis(millis)).collect() };
    let (complain, complaints) = channel();
    let failed = move |why: &str| _ = complain.send(why.to_owned());
    (Webhook::start(&to, origin, patience, failed).unwrap(), complaints)
}

fn counted(webhook: &Webhook, wanted: (u64, u64)) {
    let began = Instant::now();
    while webhook.counts() != wanted {
        assert!(began.elapsed() < LONG, "{:?} and not {wanted:?}", webhook.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_begins_and_what_ends_is_posted_once() {
    let (address, heard) = receiver(&[Does::Answers(204)]);
    let (webhook, _) = webhook(address, LONG, &[]);
    let at = Duration::from_secs;
    webhook.tell(Vec::new(), at(1));
    webhook.tell(vec![alert("seen")], at(10));
    webhook.tell(vec![alert("seen")], at(20));
    webhook.tell(Vec::new(), at(30));
    let (head, began) = heard.recv_timeout(LONG).unwrap();
    assert!(head.starts_with("post /hook/token http/1.1\r\n"), "{head}");
    for line in [format!("host: {address}"), "content-type: application/json".to_owned()] {
        assert!(head.contains(&line), "{head}");
    }
    assert_eq!((&began["status"], &began["alerts"][0]["labels"]["filter"]), (&"firing".into(), &"seen".into()));
    let (_, ended) = heard.recv_timeout(LONG).unwrap();
    assert_eq!((&ended["status"], &ended["alerts"][0]["labels"]["filter"]), (&"resolved".into(), &"seen".into()));
    counted(&webhook, (2, 0));
    assert!(heard.try_recv().is_err(), "and nothing else");
    let mut scrape = Scrape::default();
    webhook::collect(Some(&webhook), &mut scrape);
    let text = scrape.write(Form::Prometheus);
    assert!(text.contains("bloomgate_alert_webhook_messages_total{result=\"sent\"} 2\n"), "{text}");
    assert!(text.contains("bloomgate_alert_webhook_messages_total{result=\"failed\"} 0\n"), "{text}");
}

#[test]
fn one_that_fails_and_recovers_gets_the_message_and_those_behind_it() {
    let (address, heard) = receiver(&[Does::Answers(500), Does::Answers(503), Does::Answers(429), Does::Answers(200)]);
    let (webhook, complaints) = webhook(address, LONG, &[20, 40, 80]);
    webhook.tell(vec![alert("one")], Duration::from_secs(1));
    webhook.tell(vec![alert("one"), alert("two")], Duration::from_secs(2));
    let tried: Vec<String> = (0..5)
        .map(|_| {
            let (_, told) = heard.recv_timeout(LONG).unwrap();
            told["alerts"][0]["labels"]["filter"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(tried, ["one", "one", "one", "one", "two"], "in their order");
    counted(&webhook, (2, 0));
    assert!(complaints.try_recv().is_err());
}

#[test]
fn one_that_refuses_is_asked_once_and_is_not_followed_elsewhere() {
    for status in [302, 400, 404, 413] {
        let script: &'static [Does] = Box::leak(Box::new([Does::Answers(status)]));
        let (address, heard) = receiver(script);
        let (webhook, complaints) = webhook(address, LONG, &[1, 1, 1]);
        webhook.tell(vec![alert("seen")], Duration::from_secs(1));
        let why = complaints.recv_timeout(LONG).unwrap();
        assert!(why.contains(&format!("it answers {status}")) && why.contains(&address.to_string()), "{why}");
        assert!(!why.contains("TOKEN") && !why.contains("hook/"), "{why}");
        counted(&webhook, (0, 1));
        assert_eq!(heard.try_iter().count(), 1);
    }
}

#[test]
fn one_that_hangs_holds_up_nobody_and_is_given_up() {
    let (address, heard) = receiver(&[Does::Hangs]);
    let (webhook, complaints) = webhook(address, Duration::from_millis(100), &[10]);
    let began = Instant::now();
    webhook.tell(vec![alert("seen")], Duration::from_secs(1));
    assert!(began.elapsed() < Duration::from_millis(100), "who tells does not wait: {:?}", began.elapsed());
    let why = complaints.recv_timeout(LONG).unwrap();
    assert!(why.contains("did not answer within 100ms (the last of 2 tries)"), "{why}");
    counted(&webhook, (0, 1));
    assert_eq!(heard.iter().take(4).filter(|(head, _)| head == "gone").count(), 2, "two tries, and both hung up");
}

#[test]
fn one_that_is_gone_is_given_up_and_told_again_when_it_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (webhook, complaints) = webhook(address, LONG, &[5, 5]);
    webhook.tell(vec![alert("seen")], Duration::from_secs(1));
    let why = complaints.recv_timeout(LONG).unwrap();
    assert!(why.contains("cannot be reached") && why.contains("3 tries"), "{why}");
    counted(&webhook, (0, 1));
    // The same port, if nobody took it meanwhile.
    let Ok(listener) = TcpListener::bind(address) else { return };
    webhook.tell(Vec::new(), Duration::from_secs(2));
    let mut stream = listener.accept().unwrap().0;
    let (_, body) = request(&mut stream);
    assert!(String::from_utf8(body).unwrap().contains("resolved"));
    write!(stream, "HTTP/1.1 200 OK\r\n\r\n").unwrap();
    drop(stream);
    counted(&webhook, (1, 1));
}

#[test]
fn a_queue_that_is_full_takes_no_more_and_an_end_waits_for_none() {
    let (address, heard) = receiver(&[Does::Hangs]);
    let (webhook, _) = webhook(address, LONG, &[1, 1, 1]);
    let began = Instant::now();
    webhook.tell(vec![alert("first")], Duration::ZERO);
    heard.recv_timeout(LONG).unwrap();
    // The first is under way, so 64 fit.
    for number in 0..200u64 {
        let filter = format!("filter-{number}");
        webhook.tell(vec![alert(&filter)], Duration::from_secs(number));
    }
    assert_eq!(webhook.counts(), (0, 200 - 64));
    drop(webhook);
    assert_eq!(heard.recv_timeout(LONG).unwrap().0, "gone");
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
}
