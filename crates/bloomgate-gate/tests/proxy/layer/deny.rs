//! A deny list as a layer: who is on it gets 403, and only who the source says is on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use bloomgate_gate::layer::GateLayer;
use bloomgate_gate::sources::{Scan, Source};
use bloomgate_gate::{Error, ErrorKind, Gate, Key, KeyType, Pending, Policy, Result, State, Unconfirmed, Writers};
use bytes::Bytes;
use tower::ServiceExt;

use crate::stage::Keys;

/// A list that can be asked, or not.
#[derive(Clone)]
struct Bans {
    keys: Keys,
    down: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
}

impl Bans {
    fn new() -> Self {
        let keys = Keys::of((0..200).map(|number| format!("user-{number}")));
        Self { keys, down: Arc::default(), reads: Arc::default() }
    }

    fn is_up(&self) -> Result<()> {
        match self.down.load(SeqCst) {
            true => Err(Error::new(ErrorKind::Source, "the list is away")),
            false => Ok(()),
        }
    }
}

impl Source for Bans {
    fn describe(&self) -> String {
        self.keys.describe()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.get_many(std::slice::from_ref(key)).await?.remove(0)) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.reads.fetch_add(1, SeqCst);
        Box::pin(async move {
            self.is_up()?;
            self.keys.get_many(keys).await
        })
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        self.keys.put_many(rows)
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        self.keys.delete(key)
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        self.keys.count()
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        self.keys.scan()
    }
}

fn by_user(head: &axum::http::request::Parts) -> Option<Key> {
    head.headers.get("x-user")?.to_str().ok().map(Key::from)
}

fn app(layer: GateLayer<Body>) -> Router {
    Router::new().route("/{*path}", any(async |body: String| format!("welcome {body}"))).layer(layer)
}

async fn ask(app: &Router, user: Option<&str>, method: &str) -> u16 {
    let mut request = Request::builder().method(method).uri("/anything");
    if let Some(user) = user {
        request = request.header("x-user", user);
    }
    app.clone().oneshot(request.body(Body::from("body")).unwrap()).await.unwrap().status().as_u16()
}

fn gate(bans: &Bans, policy: Policy) -> Gate {
    let gate = Gate::builder(Arc::new(bans.clone())).writers(Writers::Sole).policy(policy).audit_share(0.0).rate(0.001);
    gate.build().unwrap()
}

#[tokio::test]
async fn only_a_row_denies_in_every_state_and_for_every_method() {
    let bans = Bans::new();
    let gate = gate(&bans, Policy::Open);
    let app = app(GateLayer::deny(gate.clone(), [], Unconfirmed::Refuse).key_by(by_user));
    // Not ready: everybody is confirmed.
    assert_eq!(gate.state(), State::Loading);
    assert_eq!((ask(&app, Some("user-7"), "GET").await, ask(&app, Some("ann"), "GET").await), (403, 200));
    gate.rebuild().await.unwrap();
    let reads = bans.reads.load(SeqCst);
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(ask(&app, Some("user-7"), method).await, 403, "{method}");
        assert_eq!(ask(&app, Some("ann"), method).await, 200, "{method}");
        assert_eq!(ask(&app, None, method).await, 200, "{method}: no key, nobody to deny");
    }
    assert_eq!(bans.reads.load(SeqCst), reads + 6, "who is not on the list cost no question");
    assert_eq!(gate.stats().lookups.absent_by_filter, 6);
    // What the filter knows and the list does not is let in: nobody is denied by the filter alone.
    assert!(bans.keys.remove("user-8") && gate.look(&"user-8".into()).is_none());
    assert_eq!(ask(&app, Some("user-8"), "POST").await, 200);
    assert!(matches!(gate.state(), State::Ready { .. }), "nothing that passed was taken for a write of the list");
    assert_eq!(gate.stats().writes.under_way, 0);
}

#[tokio::test]
async fn who_cannot_be_confirmed_is_refused_unless_it_was_said_otherwise() {
    for (unconfirmed, status) in [(Unconfirmed::Refuse, 503), (Unconfirmed::Allow, 200)] {
        let bans = Bans::new();
        let gate = gate(&bans, Policy::Open);
        gate.rebuild().await.unwrap();
        let app = app(GateLayer::deny(gate, [], unconfirmed).key_by(by_user));
        bans.down.store(true, SeqCst);
        assert_eq!(ask(&app, Some("user-7"), "GET").await, status);
        assert_eq!(ask(&app, Some("ann"), "GET").await, 200, "the filter's no needs no source");
        bans.down.store(false, SeqCst);
        assert_eq!(ask(&app, Some("user-7"), "GET").await, 403);
    }
    // A closed policy lets nobody in before the filter is ready, whatever was said of the source.
    let bans = Bans::new();
    let app = app(GateLayer::deny(gate(&bans, Policy::Closed), [], Unconfirmed::Allow).key_by(by_user));
    assert_eq!((ask(&app, Some("user-7"), "GET").await, ask(&app, Some("ann"), "GET").await), (503, 503));
}

#[tokio::test]
async fn keys_in_the_path_are_denied_in_each_spelling_and_answers_may_be_ones_own() {
    let bans = Bans::new();
    bans.keys.add("a b");
    let gate = gate(&bans, Policy::Open);
    gate.rebuild().await.unwrap();
    let layer = GateLayer::deny(gate, ["path:/users/{id}".parse().unwrap()], Unconfirmed::Refuse).denied_by(|answer| {
        (StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, answer.row.clone().unwrap_or_default()).into_response()
    });
    let app = app(layer);
    let status = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((status("/users/user-7").await, status("/users/ann").await), (451, 200));
    assert_eq!((status("/users/user%2D7").await, status("/users/a%20b").await), (451, 451));
    assert_eq!(status("/elsewhere/user-7").await, 200);
}

#[tokio::test]
async fn who_is_denied_is_so_in_every_spelling_that_a_service_may_read() {
    let bans = Bans::new();
    bans.keys.add("a/b");
    let gate = gate(&bans, Policy::Open);
    gate.rebuild().await.unwrap();
    let rules = ["path:/users/{id}", "path:/deep/{id}/**", "query:/find?user={id}"].map(|rule| rule.parse().unwrap());
    let layer = GateLayer::deny(gate, rules, Unconfirmed::Refuse);
    let app = app(layer.except(["/users/search".parse().unwrap(), "/deep/open/**".parse().unwrap()]));
    let status = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    for path in [
        "//users/user-7",
        "/users//user-7",
        "/USERS/user-7",
        "/users/user-7%20",
        "/users/user-7/",
        "/users/user%252D7",
        "/users/user-7.json",
        "/users/user-7;x=1;y=2",
        "/users/ann/../user-7",
        "/users%2Fuser-7",
        "/users/a%2Fb",
        "/users/search/../user-7",
        "/deep/user-7/x;y",
        "/deep/user-7/../ann",
        "/deep/ann/../user-7",
        "/deep/open/../user-7",
        "/deep/user-7/../open",
        "/find?user=user-7&q=a+b",
        "/find?USER=user-7",
        "/find?user=ann&user=user-7",
        "/Find?user[]=user-7",
    ] {
        assert_eq!(status(path).await, 403, "{path}");
    }
    for path in [
        "/users/ann",
        "//users/ann",
        "/users/ann%20",
        "/users/",
        "/users",
        "/users/search",
        "/deep/ann/a%2Fb;c",
        "/deep/open/user-7",
        "/find?q=a+b",
        "/find?user=ann&q=a+b",
        "/elsewhere/user-7",
    ] {
        assert_eq!(status(path).await, 200, "{path}");
    }
    // What nobody can tell is not let in.
    for path in ["/users/user%25252D7", "/find?user[0]=user-7"] {
        assert_eq!(status(path).await, 400, "{path}");
    }
}
