//! What can be a key, and the one canonical byte form of each.
//!
//! Two programs that ask one filter must hash the same bytes for the same key, or a "no" is wrong. So
//! the byte form belongs to the [`Encoding`], not to the language, the width of an integer or the
//! pointer it lies behind: `7u8`, `7u64`, `&7u32` and the text `7` asked of a filter of `u64` keys are
//! one key. A key of another encoding is refused, never hashed as something it is not.
//!
//! Floating-point numbers are not keys. `0.0 == -0.0` though their bits differ, and `NaN` has many bit
//! patterns and equals none of them: a filter that hashed the bits would say "no" to a number that was
//! inserted. Key by the bits (`x.to_bits()`) or by a scaled integer, and choose what equal means.

mod encoding;
mod name;
mod text;
mod tuple;
mod uuid;
mod wire;

pub use encoding::Encoding;
pub use tuple::Parts;
pub use uuid::Uuid;

pub(crate) use text::quoted;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Something that can be looked up: a value with one canonical byte form.
///
/// Implement it for a type of your own by handing out the bytes of one encoding:
///
/// ```
/// use bloomgate::{Encoding, Key};
///
/// struct Sku(String);
///
/// impl Key for Sku {
///     const ENCODING: Encoding = Encoding::Text;
///     fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
///         self.0.as_bytes()
///     }
/// }
/// ```
pub trait Key {
    /// The encoding whose byte form [`Key::canonical`] gives.
    const ENCODING: Encoding;

    /// The canonical bytes; `scratch` is room for keys that are not those bytes already, and may hold
    /// anything on entry.
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// The canonical form as one little-endian word, for keys whose form is always eight bytes: the
    /// door to hashing several keys in one SIMD pass.
    #[inline]
    fn word(&self) -> Option<u64> {
        None
    }

    /// Keys that lie in memory as their words: hashed where they are, without a copy.
    #[inline]
    fn words(keys: &[Self]) -> Option<&[u64]>
    where
        Self: Sized,
    {
        let _ = keys;
        None
    }

    /// The key as text, for keys that are text: lets a filter of integers parse `"42"` or refuse it.
    #[inline]
    fn text(&self) -> Option<&str> {
        None
    }

    /// The canonical bytes, for keys that are those bytes already: lets a batch hash them side by side
    /// where they lie.
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        None
    }

    /// Appends the canonical bytes to `out`: how tuples and batches put many keys in one buffer.
    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        let mut scratch = Vec::new();
        out.extend_from_slice(self.canonical(&mut scratch));
    }
}

impl Key for [u8] {
    const ENCODING: Encoding = Encoding::Bytes;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    const ENCODING: Encoding = Encoding::Bytes;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Key for Vec<u8> {
    const ENCODING: Encoding = Encoding::Bytes;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Key for str {
    const ENCODING: Encoding = Encoding::Text;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self.as_bytes()
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
    #[inline]
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Key for String {
    const ENCODING: Encoding = Encoding::Text;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        self.as_bytes()
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
    #[inline]
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Key for Uuid {
    const ENCODING: Encoding = Encoding::Uuid;
    #[inline]
    fn canonical<'a>(&'a self, _: &'a mut Vec<u8>) -> &'a [u8] {
        &self.0
    }
    #[inline]
    fn as_canonical(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// Integers, all in the width of their encoding; a signed one is sign-extended first.
macro_rules! integer_keys {
    ($encoding:ident, $wide:ty, $word:expr, $words:expr, $($narrow:ty)*) => {$(
        impl Key for $narrow {
            const ENCODING: Encoding = Encoding::$encoding;
            #[inline]
            fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
                scratch.clear();
                self.append(scratch);
                scratch
            }
            #[inline]
            fn word(&self) -> Option<u64> {
                let word: fn($wide) -> Option<u64> = $word;
                word(*self as $wide)
            }
            #[inline]
            fn words(keys: &[Self]) -> Option<&[u64]> {
                let words: fn(&[$narrow]) -> Option<&[u64]> = $words;
                words(keys)
            }
            #[inline]
            fn append(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self as $wide).to_le_bytes());
            }
        }
    )*};
}

integer_keys!(Unsigned, u64, |wide| Some(wide), |keys| Some(keys), u64);
integer_keys!(Unsigned, u64, |wide| Some(wide), |_| None, u8 u16 u32 usize);
integer_keys!(Signed, i64, |wide| Some(wide as u64), |_| None, i8 i16 i32 i64 isize);
integer_keys!(Unsigned128, u128, |_| None, |_| None, u128);
integer_keys!(Signed128, i128, |_| None, |_| None, i128);

/// A pointer to a key is that key.
macro_rules! pointer_keys {
    ($({$($generics:tt)*} $pointer:ty, $key:ident;)*) => {$(
        impl<$($generics)*> Key for $pointer {
            const ENCODING: Encoding = $key::ENCODING;
            #[inline]
            fn canonical<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
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
            #[inline]
            fn as_canonical(&self) -> Option<&[u8]> {
                (**self).as_canonical()
            }
            #[inline]
            fn append(&self, out: &mut Vec<u8>) {
                (**self).append(out)
            }
        }
    )*};
}

pointer_keys! {
    {K: Key + ?Sized} &K, K;
    {K: Key + ?Sized} Box<K>, K;
    {K: Key + ?Sized} Rc<K>, K;
    {K: Key + ?Sized} Arc<K>, K;
    {K: Key + ToOwned + ?Sized} Cow<'_, K>, K;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<K: Key + ?Sized>(key: &K) -> (Encoding, Vec<u8>) {
        let mut scratch = b"left from the last key".to_vec();
        let canonical = key.canonical(&mut scratch).to_vec();
        let mut appended = vec![0xaa];
        key.append(&mut appended);
        assert_eq!(appended[1..], canonical);
        if let Some(same) = key.as_canonical() {
            assert_eq!(same, canonical);
        }
        let lies = matches!(K::ENCODING, Encoding::Bytes | Encoding::Text | Encoding::Uuid);
        assert_eq!(key.as_canonical().is_some(), lies);
        if let Some(word) = key.word() {
            assert_eq!(word.to_le_bytes(), canonical[..]);
        }
        assert_eq!(key.word().is_some(), K::ENCODING.is_word());
        (K::ENCODING, canonical)
    }

    #[test]
    fn integers_of_every_width_share_one_form() {
        let seven = (Encoding::Unsigned, vec![7, 0, 0, 0, 0, 0, 0, 0]);
        for got in [bytes(&7u8), bytes(&7u16), bytes(&7u32), bytes(&7u64), bytes(&7usize), bytes(&&7u8)] {
            assert_eq!(got, seven);
        }
        let minus_two = (Encoding::Signed, vec![0xfe, 255, 255, 255, 255, 255, 255, 255]);
        for got in [bytes(&-2i8), bytes(&-2i16), bytes(&-2i32), bytes(&-2i64), bytes(&-2isize)] {
            assert_eq!(got, minus_two);
        }
        assert_eq!(bytes(&u64::MAX).1, [255; 8]);
        let mut wide = vec![1];
        wide.resize(16, 0);
        assert_eq!(bytes(&1u128), (Encoding::Unsigned128, wide));
        assert_eq!(bytes(&-1i128), (Encoding::Signed128, vec![255; 16]));
    }

    #[test]
    fn bytes_and_text_share_one_form_behind_every_pointer() {
        let abc = (Encoding::Bytes, b"abc".to_vec());
        let slice: &[u8] = b"abc";
        let boxed: Box<[u8]> = slice.into();
        let rc: Rc<[u8]> = slice.into();
        let arc: Arc<[u8]> = slice.into();
        let got = [bytes(b"abc"), bytes(slice), bytes(&slice.to_vec()), bytes(&boxed), bytes(&rc), bytes(&arc)];
        assert!(got.iter().all(|got| *got == abc), "{got:?}");
        assert_eq!(bytes(&Cow::Borrowed(slice)), abc);
        assert_eq!(bytes(&Cow::<[u8]>::Owned(slice.to_vec())), abc);
        let text = (Encoding::Text, "é".as_bytes().to_vec());
        assert_eq!(bytes("é"), text);
        assert_eq!(bytes(&String::from("é")), text);
        assert_eq!(bytes(&Cow::Borrowed("é")), text);
        assert_eq!(bytes(&Arc::<str>::from("é")), text);
        assert_eq!(Box::<str>::from("é").text(), Some("é"));
        assert_eq!(slice.text(), None);
    }
}
