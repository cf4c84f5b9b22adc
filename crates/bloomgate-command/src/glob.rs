//! Patterns as `KEYS`, `SCAN` and `COMMAND LIST` take them: `*`, `?`, `[a-c]`, `[^x]` and `\` before a literal.
//!
//! Only the last star is tried again, so the time is at most the product of both lengths, whatever the pattern: the
//! usual recursion is exponential in the number of stars.

/// Whether the text matches the whole pattern.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(length) = step(&pattern[p..], text[t]) {
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

/// How much of the pattern stands for this byte, if it does.
fn step(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (literal == byte).then_some(2),
        [b'[', ref class @ ..] => {
            let (length, found) = in_class(class, byte);
            found.then_some(1 + length)
        }
        [literal, ..] => (literal == byte).then_some(1),
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
    use super::matches;

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
}
