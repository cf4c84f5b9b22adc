//! The address: the BLAKE3 of the whole file, the name under which a filter can be kept and checked.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// The BLAKE3 hash of a whole file, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub [u8; 32]);

impl Address {
    /// The address of a file that is in memory.
    #[must_use]
    pub fn of(file: &[u8]) -> Self {
        Self(*blake3::hash(file).as_bytes())
    }

    /// Refuses a file whose address is not the expected one.
    pub fn expect(self, expected: Address) -> Result<()> {
        if self == expected {
            return Ok(());
        }
        let message = format!("the file has the address {self}, but {expected} was asked for: fetch it again");
        Err(Error::new(ErrorKind::Corrupt, message))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let message =
                format!("an address is 64 hexadecimal digits, but {} characters were given: {text:.80?}", text.len());
            Error::new(ErrorKind::InvalidParameter, message)
        };
        let mut bytes = [0u8; 32];
        if text.len() != 64 {
            return Err(refuse());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let [high, low] = digits.map(|digit| (digit as char).to_digit(16));
            let (Some(high), Some(low)) = (high, low) else { return Err(refuse()) };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(bytes))
    }
}

/// A reader that computes the address of what passes through it.
#[derive(Debug)]
pub struct Addressing<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R> Addressing<R> {
    /// Watches what is read from `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, hasher: blake3::Hasher::new() }
    }

    /// The address of everything read so far.
    #[must_use]
    pub fn address(&self) -> Address {
        Address(*self.hasher.finalize().as_bytes())
    }

    /// The reader inside.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: Read> Read for Addressing<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.hasher.update(&buf[..read]);
        Ok(read)
    }
}
