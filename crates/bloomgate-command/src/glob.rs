//! Patterns as `KEYS`, `SCAN` and `COMMAND LIST` take them: `*`, `?`, `[a-c]`, `[^x]` and `\` before a literal.
//!
//! Only the last star is tried again, so the time is at most the product of both lengths, whatever the pattern: the
//! usual recursion is exponential in the number of stars. Patterns are short ([`MAX_PATTERN`]), and whoever tries one on
//! many names counts the steps.

use crate::refusal::Refusal;

/// The most bytes of a pattern: against the longest name it takes a million steps, about 2 ms.
pub const MAX_PATTERN: usize = 256;

/// Whether the text matches the whole pattern.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_counting(pattern, text, &mut 0)
}

/// The same; the bytes of the pattern that were looked at are added to `steps`, for those who try it on many texts.
#[must_use]
pub fn matches_counting(pattern: &[u8], text: &[u8], steps: &mut u64) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            if p == pattern.len() {
                return true;
            }
            continue;
        }
        let (length, stands) = step(&pattern[p..], text[t]);
        *steps += 1 + length as u64;
        if stands {
            p += length;
            t += 1;
            continue;
        }
        let Some((after, from)) = star else { return false };
        star = Some((after, from + 1));
        (p, t) = (after, from + 1);
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// A pattern, if it is not too long.
///
/// # Errors
///
/// The line to answer, with what may be.
pub fn checked(pattern: &[u8]) -> Result<&[u8], Refusal> {
    if pattern.len() <= MAX_PATTERN { Ok(pattern) } else { Err(too_long(pattern.len())) }
}

#[cold]
fn too_long(bytes: usize) -> Refusal {
    Refusal::err(format_args!("pattern is {bytes} bytes, at most {MAX_PATTERN} are allowed: use a shorter one"))
}

/// How much of the pattern is for one byte, and whether it stands for this one.
fn step(pattern: &[u8], byte: u8) -> (usize, bool) {
    match *pattern {
        [] => (0, false),
        [b'?', ..] => (1, true),
        [b'\\', literal, ..] => (2, literal == byte),
        [b'[', ref class @ ..] => {
            let (length, found) = in_class(class, byte);
            (1 + length, found)
        }
        [literal, ..] => (1, literal == byte),
    }
}

/// The length of a class with its bracket, and whether the byte is in it. One that does not end goes to the end.
fn in_class(class: &[u8], byte: u8) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    while let Some(&first) = class.get(at) {
        match (first, class.get(at + 1), class.get(at + 2)) {
            (b']', ..) => return (at + 1, found != negated),
            (b'\\', Some(&literal), _) => {
                found |= literal == byte;
                at += 2;
            }
            (low, Some(b'-'), Some(&high)) => {
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            (literal, ..) => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (at, found != negated)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATTERN, checked, matches, matches_counting};

    #[test]
    fn patterns_match_as_redis_matches_them() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\?llo", "h?llo", true),
            ("h\\?llo", "hello", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyyd", false),
            ("[a\\]]x", "]x", true),
            ("*.next", "users.next", true),
            ("user:*:seen", "user:1:2:seen", true),
            ("ab", "abc", false),
            ("abc", "ab", false),
            ("ab**", "ab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        // 2^60 steps if every star were tried again.
        let pattern: Vec<u8> = b"a*".repeat(60).into_iter().chain(*b"b").collect();
        assert!(!matches(&pattern, &vec![b'a'; 4000]));
    }

    #[test]
    fn steps_are_all_that_was_looked_at_and_no_more_than_the_product() {
        let name = vec![b'a'; 4096];
        // The worst there is: nearly all of the pattern fits everywhere, a class is read to its end.
        let runs = [b"*".to_vec(), vec![b'a'; MAX_PATTERN - 2], b"b".to_vec()].concat();
        let class = [b"*[".to_vec(), vec![b'b'; MAX_PATTERN - 3], b"]".to_vec()].concat();
        for pattern in [runs, class] {
            let mut steps = 0;
            assert!(!matches_counting(&pattern, &name, &mut steps));
            let product = (2 * MAX_PATTERN * name.len()) as u64;
            assert!((product / 3..=product).contains(&steps), "{steps}");
        }
        let mut steps = 0;
        assert!(matches_counting(b"*", &name, &mut steps) && steps == 0, "what stands for everything costs nothing");
        assert!(!matches_counting(b"b*", &name, &mut steps) && steps < 5, "{steps}");
    }

    #[test]
    fn a_pattern_has_a_length() {
        assert!(checked(&[b'a'; MAX_PATTERN]).is_ok());
        let refusal = checked(&[b'a'; MAX_PATTERN + 1]).unwrap_err();
        assert_eq!(refusal.as_str(), "ERR pattern is 257 bytes, at most 256 are allowed: use a shorter one");
    }
}
