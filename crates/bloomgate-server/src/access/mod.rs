//! Who may do what: users with hashed passwords, roles, at most one namespace each, and the file that keeps them.
//!
//! ```text
//!  AUTH ─▶ Directory ── proven before? ─▶ logged in, on the reactor
//!                └───── else ─▶ a thread for logins: Argon2id, 25 ms, one at a time
//!  ACL SETUSER ─▶ rules ─▶ book ─▶ file (temporary, synced, renamed) ─▶ generation + 1
//! ```
//!
//! A session holds its [`User`] and compares one number, the [generation](Directory::generation), each turn: who was changed
//! is what they are now from the next turn on, and who was deleted or switched off loses the connection.

pub mod book;
pub mod directory;
pub mod file;
pub mod notes;
pub mod password;
pub mod rules;
pub mod user;

pub use book::{Book, Namespace};
pub use directory::Directory;
pub use password::{Password, Sealed};
pub use user::User;

/// The user of a connection that did not say otherwise.
pub const DEFAULT: &str = "default";
/// Users there may be.
pub const MAX_USERS: usize = 10_000;
/// Declared namespaces there may be.
pub const MAX_NAMESPACES: usize = 10_000;
/// Bytes of the prefix of a namespace.
pub const MAX_PREFIX: usize = 256;
/// Passwords of one user.
pub const MAX_PASSWORDS: usize = 8;
/// Bytes of a password.
pub const MAX_PASSWORD: usize = 512;
/// Bytes of a user's or namespace's name.
pub const MAX_NAME: usize = 128;

/// A name of a user or a namespace: 1 to 128 of A-Z a-z 0-9 . _ -
pub fn check_name(what: &str, name: &[u8]) -> Result<String, String> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match std::str::from_utf8(name) {
        Ok(text) if (1..=MAX_NAME).contains(&name.len()) && name.iter().all(fits) => Ok(text.to_owned()),
        _ => Err(format!(
            "the name of a {what} has 1 to {MAX_NAME} of the characters A-Z a-z 0-9 . _ - and not '{}'",
            name[..name.len().min(MAX_NAME)].escape_ascii()
        )),
    }
}

/// So many bytes from the system's randomness.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    use std::io::Read;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Random bytes as hexadecimal digits, so many bits of them, rounded up to a digit: ACL GENPASS.
pub fn generate_password(bits: u16) -> Result<String, String> {
    let bytes: [u8; 512] = random().map_err(|error| format!("no random bytes from /dev/urandom: {error}"))?;
    let digits = usize::from(bits.clamp(1, 4096)).div_ceil(4);
    Ok(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(digits).map(digit).collect())
}

fn digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value)])
}
