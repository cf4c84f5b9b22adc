//! TLS with certificates made on the spot, and what is said when files are wrong.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate_http::{Certificates, Limits, Options, Tls};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::Running;
use crate::client::Client;

struct Certificate {
    folder: TempDir,
    made: CertifiedKey<KeyPair>,
}

impl Certificate {
    fn new() -> Self {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { folder, made }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tls(&self) -> Tls {
        Tls::from_files(&self.path("cert.pem"), &self.path("key.pem")).unwrap()
    }

    async fn connect(&self, running: &Running, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.made.cert.der().clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(running.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }
}

#[tokio::test]
async fn requests_over_tls_and_the_protocol_agreed_on() {
    let certificate = Certificate::new();
    let running = Running::start(Options { tls: Some(certificate.tls().into()), ..Options::default() }).await;
    let stream = certificate.connect(&running, &["http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut client = Client::over(stream);
    assert_eq!(client.get("/hello").await.body, b"hello");
    assert_eq!(client.get("/hello").await.body, b"hello");
    let stream = certificate.connect(&running, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    drop((stream, client));
    // Another certificate's owner is not believed, and plain text is not answered.
    assert!(Certificate::new().connect(&running, &[]).await.is_err());
    let mut plain = Client::connect(running.address).await;
    plain.send("GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let answer = plain.read_to_end().await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(running.stop().await.cut, 0);
}

#[tokio::test]
async fn connections_begin_with_the_certificate_of_the_moment() {
    let (old, new) = (Certificate::new(), Certificate::new());
    let now = Arc::new(Mutex::new(old.tls()));
    let asked = now.clone();
    let tls = Certificates::of_the_moment(move || asked.lock().unwrap().clone());
    let running = Running::start(Options { tls: Some(tls), ..Options::default() }).await;
    let mut before = Client::over(old.connect(&running, &["http/1.1"]).await.unwrap());
    assert_eq!(before.get("/hello").await.body, b"hello");
    *now.lock().unwrap() = new.tls();
    assert!(old.connect(&running, &[]).await.is_err());
    let mut after = Client::over(new.connect(&running, &["http/1.1"]).await.unwrap());
    assert_eq!(after.get("/hello").await.body, b"hello");
    // Who came before is not cut off.
    assert_eq!(before.get("/hello").await.body, b"hello");
    running.stop().await;
}

#[tokio::test]
async fn the_certificate_of_another_protocol_serves_http_as_well() {
    let certificate = Certificate::new();
    let unnamed = Tls::for_unnamed(&certificate.path("cert.pem"), &certificate.path("key.pem"), None).unwrap();
    let http = unnamed.for_http();
    assert_eq!(http.not_after(), unnamed.not_after());
    let running = Running::start(Options { tls: Some(http.into()), ..Options::default() }).await;
    let stream = certificate.connect(&running, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    running.stop().await;
}

#[tokio::test]
async fn a_handshake_that_never_comes_is_cut_off() {
    let certificate = Certificate::new();
    let limits = Limits { head_time: Duration::from_millis(200), ..Limits::default() };
    let running = Running::start(Options { tls: Some(certificate.tls().into()), limits, ..Options::default() }).await;
    let mut silent = Client::connect(running.address).await;
    assert!(silent.is_ended().await);
    // One that stops after the handshake too.
    let mut shy = Client::over(certificate.connect(&running, &["http/1.1"]).await.unwrap());
    assert!(shy.is_ended().await);
    running.stop().await;
}

#[test]
fn wrong_files_are_told_apart() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let missing = one.path("nowhere.pem");
    let (cert, key) = (one.path("cert.pem"), one.path("key.pem"));
    std::fs::write(one.path("text.pem"), "no certificate at all").unwrap();
    let text = one.path("text.pem");
    for (cert, key, says) in [
        (&missing, &key, "the certificate"),
        (&cert, &missing, "the key"),
        (&text, &key, "holds no certificate"),
        (&cert, &text, "holds no private key"),
        (&key, &cert, "holds no certificate"),
        (&cert, &other.path("key.pem"), "do not belong together"),
    ] {
        let error = Tls::from_files(cert, key).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    assert!(Tls::from_files(&cert, &key).is_ok());
}
