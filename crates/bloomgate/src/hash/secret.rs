//! Secrets: 32 random bytes that key a hash, and all that is ever shown of them.
//!
//! A secret is never used as it is. BLAKE3's key derivation makes from it a separate value for every
//! use, each under a context string of its own, frozen below: so the [id](Secret::id) in a file says
//! nothing about the key of the hash, and any 32 bytes (all zero too) make a good secret with no state
//! in which two hashes coincide. What a filter stores is the id and the check value, never the secret
//! and never a key made from it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{Ordering, compiler_fence};

use super::Algorithm;
use crate::error::{Error, ErrorKind, Result};

/// Contexts of the derivation: frozen, for they decide every digest of every keyed filter.
const ID: &str = "bloomgate 2026 secret id v1";
const CHECK: &str = "bloomgate 2026 secret check v1";
const NAMED: &str = "bloomgate 2026 named secret v1";
const SIPHASH13: &str = "bloomgate 2026 siphash-1-3-128 key v1";
const SIPHASH24: &str = "bloomgate 2026 siphash-2-4-128 key v1";
const BLAKE2B: &str = "bloomgate 2026 blake2b-128 key v1";

/// Bytes in a secret.
const BYTES: usize = 32;

/// 32 random bytes that key a hash.
///
/// `Debug` shows only the id, and the bytes are overwritten when the secret is dropped (as far as a
/// program can without its allocator's help: copies that the compiler made are not found).
#[derive(Clone)]
pub struct Secret([u8; BYTES]);

/// The public name of a secret: eight bytes that say which one it is, and nothing of what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretId(pub [u8; 8]);

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Secret {
    /// A new secret from the system's randomness.
    pub fn generate() -> Result<Self> {
        #[cfg(unix)]
        {
            let mut secret = Self([0; BYTES]);
            File::open("/dev/urandom")
                .and_then(|mut random| random.read_exact(&mut secret.0))
                .map_err(|error| Error::io("reading 32 random bytes from /dev/urandom", error))?;
            Ok(secret)
        }
        #[cfg(not(unix))]
        Err(Error::new(
            ErrorKind::Unsupported,
            "secrets are not generated on this system: make 32 random bytes with its tools and give them as a file of \
             64 hexadecimal digits",
        ))
    }

    /// The secret with these bytes. They should be random: 32 bytes, not a passphrase.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret written as 64 hexadecimal digits. No error shows any of the text.
    pub fn from_hex(text: &str) -> Result<Self> {
        Self::from_digits(text.as_bytes())
    }

    fn from_digits(text: &[u8]) -> Result<Self> {
        if text.len() != 2 * BYTES {
            return Err(Error::new(
                ErrorKind::Secret,
                format!("a secret of {} characters: write exactly 64 hexadecimal digits", text.len()),
            ));
        }
        let mut secret = Self([0; BYTES]);
        for (at, (byte, pair)) in secret.0.iter_mut().zip(text.as_chunks::<2>().0).enumerate() {
            let digits = pair.map(|digit| char::from(digit).to_digit(16));
            let [Some(high), Some(low)] = digits else {
                return Err(Error::new(
                    ErrorKind::Secret,
                    format!(
                        "characters {} and {} of the secret are not two hexadecimal digits: write exactly 64 of 0-9 \
                         and a-f",
                        2 * at + 1,
                        2 * at + 2
                    ),
                ));
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(secret)
    }

    /// Reads a secret from a file of 64 hexadecimal digits, with or without a line end.
    ///
    /// On Unix a file that others than its owner may read or write is refused.
    pub fn read_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let doing = || format!("reading the secret file {}", path.display());
        let mut file = File::open(path).map_err(|error| Error::io(doing(), error))?;
        #[cfg(unix)]
        {
            // Asked of the open file, so it is the mode of the bytes that will be read.
            let metadata = file.metadata().map_err(|error| Error::io(doing(), error))?;
            refuse_open_to_others(path, std::os::unix::fs::MetadataExt::mode(&metadata))?;
        }
        // One byte more than the longest good file tells a longer one.
        let mut text = [0; 2 * BYTES + 3];
        let mut len = 0;
        while len < text.len() {
            match file.read(&mut text[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(doing(), error)),
            }
        }
        let line = &text[..len];
        let line = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
        let secret = Self::from_digits(line)
            .map_err(|error| Error::new(ErrorKind::Secret, format!("the secret file {}: {error}", path.display())));
        wipe(&mut text);
        secret
    }

    /// Writes the secret as 64 hexadecimal digits to a new file that only its owner may read, whole or not at all: half a
    /// secret would be in the way of whoever makes the next one. A file that is there already is left alone and refused.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |error: std::io::Error| Error::io(format!("writing the secret file {}", path.display()), error);
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".tmp.{}", std::process::id()));
        let temporary = path.with_file_name(name);
        // What a process of this number left behind is nobody's.
        let _ = std::fs::remove_file(&temporary);
        let written = self.write_new(&temporary).and_then(|()| {
            // A second name, and not another one: that would replace a file which came meanwhile.
            match std::fs::hard_link(&temporary, path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists && !path.try_exists()? => {
                    // Not every file system has second names.
                    std::fs::rename(&temporary, path)
                }
                linked => linked,
            }
        });
        let _ = std::fs::remove_file(&temporary);
        written.and_then(|()| sync_directory(path)).map_err(failed)
    }

    fn write_new(&self, path: &Path) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        self.write_hex(&mut file).map_err(std::io::Error::other)?;
        file.sync_all()
    }

    /// Writes the secret as 64 hexadecimal digits and a line feed, to wherever the caller keeps secrets. The one door
    /// by which a secret leaves; [`write_file`](Self::write_file) is the usual way through it.
    pub fn write_hex(&self, out: &mut impl Write) -> Result<()> {
        let mut text = [b'\n'; 2 * BYTES + 1];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
        }
        let written = out.write_all(&text);
        wipe(&mut text);
        written.map_err(|error| Error::io("writing the secret", error))
    }

    /// Another secret, made from this one for a name: the same name gives the same secret, and the
    /// derived one tells nothing about this one or its siblings.
    #[must_use]
    pub fn derive(&self, name: &str) -> Self {
        // The secret has a fixed length, so secret and name together are read in one way only.
        let mut hasher = blake3::Hasher::new_derive_key(NAMED);
        hasher.update(&self.0).update(name.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// The public name of this secret.
    #[must_use]
    pub fn id(&self) -> SecretId {
        SecretId(first_eight(self.derived(ID)))
    }

    /// A second public value: two secrets with one id by accident (or by effort, at 2^64) differ here.
    #[must_use]
    pub fn check(&self) -> [u8; 8] {
        first_eight(self.derived(CHECK))
    }

    /// The key of `algorithm` under this secret, as little-endian words: SipHash has the first two.
    pub(super) fn key(&self, algorithm: Algorithm) -> [u64; 4] {
        let context = match algorithm {
            Algorithm::SipHash24 => SIPHASH24,
            Algorithm::Blake2b => BLAKE2B,
            _ => SIPHASH13,
        };
        let mut bytes = self.derived(context);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        wipe(&mut bytes);
        words
    }

    fn derived(&self, context: &str) -> [u8; BYTES] {
        blake3::derive_key(context, &self.0)
    }
}

fn first_eight(bytes: [u8; BYTES]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = bytes;
    [a, b, c, d, e, f, g, h]
}

/// Refuses a secret file that group or others may read, write or run.
#[cfg(unix)]
fn refuse_open_to_others(path: &Path, mode: u32) -> Result<()> {
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Secret,
        format!(
            "the secret file {path} has mode {:03o}: only its owner may have access, run `chmod 600 {path}`",
            mode & 0o777,
            path = path.display()
        ),
    ))
}

/// Overwrites what held a secret, so that the compiler does not skip it as useless.
pub(super) fn wipe<T: Copy + Default>(held: &mut [T]) {
    held.fill(T::default());
    black_box(held);
    compiler_fence(Ordering::SeqCst);
}

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(id {})", self.id())
    }
}

/// Makes the name of a new file survive a power cut.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Secret {
        Secret::from_bytes(std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn hex_reads_back_and_errors_show_nothing_of_it() {
        let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
        assert_eq!(Secret::from_hex(hex).unwrap().0, counting().0);
        for wrong in [
            "",
            "00",
            &hex[1..],
            &format!("{hex}0"),
            &format!("{hex}\n"),
            &hex.replace('A', "g"),
            &hex.replace("05", "é"),
        ] {
            let error = Secret::from_hex(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Secret);
            assert!(!error.to_string().contains("0203") && error.to_string().contains("64"), "{error}");
        }
    }

    #[test]
    fn every_use_has_its_own_value_and_no_secret_is_degenerate() {
        for secret in [counting(), Secret::from_bytes([0; 32]), Secret::from_bytes([255; 32])] {
            let mut values: Vec<[u8; 8]> = vec![secret.id().0, secret.check(), secret.derive("").id().0];
            for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_keyed()) {
                values.extend(secret.key(algorithm).map(u64::to_le_bytes));
            }
            values.extend(secret.0.as_chunks::<8>().0.iter().take(1));
            let count = values.len();
            values.sort_unstable();
            values.dedup();
            assert_eq!((count, values.len()), (16, 16));
        }
    }

    #[test]
    fn names_derive_secrets_that_stay_the_same() {
        let master = counting();
        assert_eq!(master.derive("a").0, master.derive("a").0);
        let ids = ["", "a", "b", "ab"].map(|name| master.derive(name).id());
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id) && *id != master.id());
        }
        assert_ne!(master.derive("a").derive("b").id(), master.derive("b").derive("a").id());
    }

    #[test]
    fn generated_secrets_differ() {
        let (one, other) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_ne!(one.0, other.0);
        assert_ne!(one.0, [0; 32]);
    }

    #[test]
    fn debug_shows_the_id_alone() {
        let secret = counting();
        assert_eq!(format!("{secret:?}"), format!("Secret(id {})", secret.id()));
        assert_eq!(secret.id().to_string().len(), 16);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_new_and_short() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("filter.key");
        counting().write_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 65);
        assert_eq!(Secret::read_file(&path).unwrap().0, counting().0);
        let error = Secret::generate().unwrap().write_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(Secret::read_file(&path).unwrap().0, counting().0, "the old file was left alone");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        for mode in [0o640, 0o604, 0o622, 0o601] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Secret::read_file(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Secret);
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let hex = std::fs::read_to_string(&path).unwrap().trim_end().to_owned();
        for (content, good) in [
            (hex.clone(), true),
            (format!("{hex}\r\n"), true),
            (format!("{hex}\n\n"), false),
            (format!(" {hex}"), false),
            (hex.repeat(1000), false),
            (String::new(), false),
        ] {
            std::fs::write(&path, &content).unwrap();
            let read = Secret::read_file(&path);
            assert_eq!(read.is_ok(), good);
            if let Err(error) = read {
                assert!(!error.to_string().contains(&hex[..6]), "{error}");
            }
        }
        assert_eq!(Secret::read_file(dir.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
    }
}
