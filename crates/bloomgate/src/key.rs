//! What can be a key, and the one canonical byte form of each.

/// How keys become bytes before they are hashed: part of every contract.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Any bytes, as they are.
    Bytes,
    /// Text: its UTF-8 bytes, not normalised.
    Text,
    /// Unsigned integers up to 64 bits: eight bytes, little-endian.
    Unsigned,
}

impl Encoding {
    /// Whether keys of the encoding `given` may be asked of a filter of this encoding as they are.
    #[must_use]
    pub fn accepts(self, given: Encoding) -> bool {
        self == given || (self == Encoding::Bytes && given == Encoding::Text)
    }
}

/// Something that can be looked up: a value with one canonical byte form.
pub trait Key {
    /// The encoding whose byte form [`Key::canonical`] gives.
    const ENCODING: Encoding;

    /// The canonical bytes; `scratch` is room for keys that are not those bytes already.
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// The canonical form as one little-endian word, for keys whose form is always eight bytes: the
    /// door to hashing several keys in one SIMD pass.
    #[inline]
    fn word(&self) -> Option<u64> {
        None
    }

    /// The key as text, for keys that are text: lets a filter of integers parse `"42"` or refuse it.
    #[inline]
    fn text(&self) -> Option<&str> {
        None
    }
}

impl<K: Key + ?Sized> Key for &K {
    const ENCODING: Encoding = K::ENCODING;
    #[inline]
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        (**self).canonical(scratch)
    }
    #[inline]
    fn word(&self) -> Option<u64> {
        (**self).word()
    }
    #[inline]
    fn text(&self) -> Option<&str> {
        (**self).text()
    }
}

impl Key for [u8] {
    const ENCODING: Encoding = Encoding::Bytes;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self
    }
}

impl Key for str {
    const ENCODING: Encoding = Encoding::Text;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self.as_bytes()
    }
    #[inline]
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Key for u64 {
    const ENCODING: Encoding = Encoding::Unsigned;
    #[inline]
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        scratch.extend_from_slice(&self.to_le_bytes());
        scratch
    }
    #[inline]
    fn word(&self) -> Option<u64> {
        Some(*self)
    }
}
