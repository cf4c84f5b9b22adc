//! An HTTP source over TLS: its rows and its list of keys are read and written, and nobody else is believed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path as Part, State};
use axum::http::StatusCode;
use axum::routing::get;
use bloomgate_gate::service::http::{Options, Tls, serve};
use bloomgate_gate::sources::{KeyList, Source, Upstream};
use bloomgate_gate::{Error, ErrorKind, Gate, Key, Outcome, Writers};
use bytes::Bytes;
use tokio::net::TcpListener;

type Rows = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// A catalogue behind TLS, and the files of certificates.
struct Catalogue {
    folder: tempfile::TempDir,
    port: u16,
    rows: Rows,
}

/// Writes a certificate that somebody made out to a name by himself, and its key.
fn certificate(folder: &Path, file: &str, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join(format!("{file}.pem")), folder.join(format!("{file}.key")));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

impl Catalogue {
    /// One with a certificate for this name.
    async fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path(), "own", name);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let kettle = ("kettle".to_owned(), Bytes::from_static(b"{\"price\":20}"));
        let rows: Rows = Arc::new(Mutex::new(BTreeMap::from([kettle])));
        let read = async |State(rows): State<Rows>, Part(key): Part<String>| {
            rows.lock().unwrap().get(&key).cloned().ok_or(StatusCode::NOT_FOUND)
        };
        let write = async |State(rows): State<Rows>, Part(key): Part<String>, body: Bytes| {
            rows.lock().unwrap().insert(key, body);
            StatusCode::NO_CONTENT
        };
        let remove = async |State(rows): State<Rows>, Part(key): Part<String>| {
            rows.lock().unwrap().remove(&key).map_or(StatusCode::NOT_FOUND, |_| StatusCode::NO_CONTENT)
        };
        let list = async |State(rows): State<Rows>| {
            rows.lock().unwrap().keys().map(|key| format!("{key}\n")).collect::<String>()
        };
        let router = Router::new()
            .route("/products/{key}", get(read).put(write).delete(remove))
            .route("/keys", get(list))
            .with_state(rows.clone());
        let tls = Tls::from_files(&certificate, &key).unwrap();
        let options = Options { tls: Some(tls.into()), ..Options::default() };
        tokio::spawn(serve(listener, router, options, std::future::pending()));
        Self { folder, port, rows }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("own.pem")
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    fn checked_by(&self, authority: &Path) -> Result<Upstream, Error> {
        let list = KeyList::Url(self.url("/keys"));
        let upstream = Upstream::checked_by(authority, &self.url("/products/{key}"), list)?;
        Ok(upstream.deadline(Duration::from_secs(10)))
    }
}

#[tokio::test]
async fn rows_and_keys_are_read_and_written_over_tls() {
    let catalogue = Catalogue::named("localhost").await;
    let upstream = catalogue.checked_by(&catalogue.authority()).unwrap();
    assert_eq!(upstream.describe(), format!("upstream https://localhost:{}/products/{{key}}", catalogue.port));
    let gate = Gate::builder(Arc::new(upstream)).writers(Writers::Sole).rebuild_every(None).build().unwrap();
    assert_eq!(gate.rebuild().await.unwrap().keys, 1);
    let found = gate.get(&"kettle".into()).await.unwrap();
    assert_eq!((found.outcome, &found.row.unwrap()[..]), (Outcome::Source, &b"{\"price\":20}"[..]));
    assert_eq!(gate.get(&"lamp".into()).await.unwrap().outcome, Outcome::AbsentByFilter);
    gate.put("lamp".into(), Bytes::from_static(b"{\"price\":7}")).await.unwrap();
    assert_eq!(gate.get(&"lamp".into()).await.unwrap().row.unwrap(), "{\"price\":7}");
    assert_eq!(catalogue.rows.lock().unwrap().len(), 2);
    assert_eq!(gate.rebuild().await.unwrap().keys, 2);
    assert!(gate.delete(&"lamp".into()).await.unwrap() && !gate.delete(&"lamp".into()).await.unwrap());
}

#[tokio::test]
async fn another_authority_is_refused_for_rows_for_lists_and_for_writes() {
    let catalogue = Catalogue::named("localhost").await;
    let (other, _) = certificate(catalogue.folder.path(), "other", "localhost");
    let key = Key::from("kettle");
    let upstream = catalogue.checked_by(&other).unwrap();
    let refused = |error: Error| {
        let said = error.to_string();
        assert!(error.kind() == ErrorKind::Source && said.contains("certificate"), "{:?}: {said}", error.kind());
    };
    refused(upstream.get(&key).await.unwrap_err());
    // Certainly not done, so not of unknown outcome.
    refused(upstream.put_many(&[(key.clone(), Bytes::from_static(b"{}"))]).await.unwrap_err());
    refused(upstream.delete(&key).await.unwrap_err());
    refused(upstream.count().await.unwrap_err());
    refused(upstream.scan().await.err().unwrap());
    assert_eq!(catalogue.rows.lock().unwrap()["kettle"], "{\"price\":20}");
    // The system knows neither.
    let by_system = Upstream::new(&catalogue.url("/products/{key}"), KeyList::None).unwrap();
    refused(by_system.deadline(Duration::from_secs(10)).get(&key).await.unwrap_err());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let catalogue = Catalogue::named("catalogue.example").await;
    let upstream = catalogue.checked_by(&catalogue.authority()).unwrap();
    let error = upstream.get(&"kettle".into()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Source && error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_service_that_speaks_no_tls_is_an_error_and_not_asked_in_the_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked: Arc<Mutex<u64>> = Arc::default();
    let counted = asked.clone();
    let row = async move || {
        *counted.lock().unwrap() += 1;
        "{}"
    };
    let router = Router::new().route("/products/{key}", get(row));
    tokio::spawn(serve(listener, router, Options::default(), std::future::pending()));
    let folder = tempfile::tempdir().unwrap();
    let (authority, _) = certificate(folder.path(), "own", "localhost");
    let url = format!("https://localhost:{port}/products/{{key}}");
    let upstream = Upstream::checked_by(&authority, &url, KeyList::None).unwrap().deadline(Duration::from_secs(10));
    let error = upstream.get(&"kettle".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source, "{error}");
    assert_eq!(*asked.lock().unwrap(), 0);
}

#[test]
fn authorities_that_check_nothing_or_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, key) = certificate(folder.path(), "own", "localhost");
    let made = |authority: &Path, url: &str| {
        let error = Upstream::checked_by(authority, url, KeyList::None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    assert!(made(&authority, "http://catalog/{key}").contains("write https://"));
    assert!(made(&folder.path().join("nowhere.pem"), "https://catalog/{key}").contains("nowhere.pem"));
    assert!(made(&key, "https://catalog/{key}").contains("no certificate in it"));
    // One of the two is enough to be checked.
    let list = KeyList::Url("https://catalog/keys".to_owned());
    assert!(Upstream::checked_by(&authority, "http://catalog/{key}", list).is_ok());
}
