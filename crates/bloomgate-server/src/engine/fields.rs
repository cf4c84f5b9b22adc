//! Fields of records and manifests: little-endian numbers and bytes with their length, read back with every length
//! checked against what is there.

/// What could not be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// What was expected.
    pub what: &'static str,
    /// How many bytes were left.
    pub left: usize,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected {} where {} bytes are left", self.what, self.left)
    }
}

impl std::error::Error for Malformed {}

/// Appends fields.
pub trait Put {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// Two bytes.
    fn put_u16(&mut self, value: u16);
    /// Four bytes.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes.
    fn put_u64(&mut self, value: u64);
    /// A length of four bytes, then the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_bytes(&mut self, bytes: &[u8]) {
        // Names, recipes and small images: far below 4 GB by the limits on requests.
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}

/// Reads fields from the front.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed { what, left: self.0.len() })?;
        self.0 = rest;
        Ok(*first)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[byte]| byte)
    }
    /// Two bytes.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }
    /// Four bytes.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }
    /// Eight bytes.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }
    /// So many bytes.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed { what, left: self.0.len() })?;
        self.0 = rest;
        Ok(taken)
    }
    /// Bytes with their length before them.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u32(what)?;
        self.take(length as usize, what)
    }
    /// Text with its length before it.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, Malformed> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed { what, left: bytes.len() })
    }
}
