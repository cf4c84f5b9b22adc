//! The authorities that a TLS server is checked by: those of a PEM file, or the system's.

use std::path::{Path, PathBuf};

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::error::{Error, ErrorKind, Result};

/// Where systems keep the authorities they trust: Debian and Alpine, Fedora, the BSDs and macOS, SUSE.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

fn refuse(why: String) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// The authorities of a file, or of the system. `setting` is what names the file.
pub(crate) fn roots(file: Option<&Path>, setting: &str) -> Result<RootCertStore> {
    let file = match file {
        Some(file) => file.to_path_buf(),
        None => SYSTEM.iter().map(PathBuf::from).find(|file| file.is_file()).ok_or_else(|| {
            refuse(format!("the system has no file of authorities for TLS: give one by {setting}=FILE"))
        })?,
    };
    let read = |file: &Path| -> std::result::Result<Vec<CertificateDer<'static>>, _> {
        CertificateDer::pem_file_iter(file)?.collect()
    };
    let certificates = read(&file).map_err(|error| {
        refuse(format!("{setting} {} cannot be read: {error}: give certificates in PEM", file.display()))
    })?;
    let mut roots = RootCertStore::empty();
    // A system's collection may have a strange one among hundreds of good ones.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(refuse(format!("{setting} {} has no certificate in it: give some in PEM", file.display())));
    }
    Ok(roots)
}
