//! HTTP over TLS: the certificate, the authorities and the reload of the port of the Redis protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bloomgate_http::tls::rustls::pki_types::{PrivateKeyDer, ServerName};
use bloomgate_http::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};
use bloomgate_server::Settings;
use bloomgate_server::settings::HttpAt;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};

use crate::harness::{PATIENCE, Running, settings};

/// An authority.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a certificate of it as the server's.
    fn write(&self, folder: &Path) {
        let (certificate, key) = self.sign("localhost");
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("cert.pem"), certificate.pem()).unwrap();
    }

    /// What a client knows that believes this authority, and shows a certificate of another.
    fn believed(&self, shows: Option<&Authority>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shows {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.sign("client");
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// One request over TLS; all that comes back, or why there is nothing.
fn ask(to: SocketAddr, config: &Arc<ClientConfig>, request: &str) -> std::io::Result<String> {
    let socket = TcpStream::connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let session = ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn secured(folder: &Path, authority: &Authority, clients: Option<&Authority>) -> Settings {
    authority.write(folder);
    let ca = clients.map(|clients| {
        std::fs::write(folder.join("ca.pem"), clients.certificate.pem()).unwrap();
        folder.join("ca.pem")
    });
    Settings {
        http_tls: true,
        tls_cert: Some(folder.join("cert.pem")),
        tls_key: Some(folder.join("key.pem")),
        tls_client_ca: ca,
        ..settings()
    }
}

#[test]
fn requests_over_tls_and_a_certificate_that_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let running = Running::start_with(secured(folder.path(), &old, None));
    let told = ask(running.http, &old.believed(None), "GET /readyz").unwrap();
    assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("ready\n"), "{told}");
    assert!(ask(running.http, &old.believed(None), "GET /v1/filters").unwrap().contains("\"filters\":[]"));
    assert!(ask(running.http, &new.believed(None), "GET /readyz").is_err(), "another authority is not ours");
    // Plain text is no handshake.
    let mut plain = TcpStream::connect(running.http).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "{answer:?}");
    new.write(folder.path());
    let begin = Instant::now();
    while ask(running.http, &new.believed(None), "GET /readyz").is_err() {
        assert!(begin.elapsed() < PATIENCE, "the new certificate is never seen");
    }
    assert!(ask(running.http, &old.believed(None), "GET /readyz").is_err());
    running.stop();
}

#[test]
fn authorities_of_clients_hold_for_http_too() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let running = Running::start_with(secured(folder.path(), &ours, Some(&ours)));
    let told = ask(running.http, &ours.believed(Some(&ours)), "GET /v1/whoami").unwrap();
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    for config in [ours.believed(None), ours.believed(Some(&theirs)), theirs.believed(Some(&ours))] {
        assert!(!ask(running.http, &config, "GET /healthz").is_ok_and(|told| told.contains("200")));
    }
    running.stop();
}

#[test]
fn what_is_missing_for_it_is_told_before_anything_is_done() {
    let told = |settings: Settings| bloomgate_server::serve(&settings, |_| ()).unwrap_err();
    let bare = told(Settings { http_tls: true, ..settings() });
    assert!(bare.contains("tls-cert names no file: set both, or leave out http-tls"), "{bare}");
    let nowhere = told(Settings { http_tls: true, http: HttpAt::None, ..settings() });
    assert!(nowhere.contains("http-tls is yes and http is none"), "{nowhere}");
    let pointless = told(Settings { tls_cert: Some("/nowhere/cert.pem".into()), ..settings() });
    assert!(pointless.contains("tls-cert is set and tls is not"), "{pointless}");
}
