//! One form for messages that differ only in what senders change from copy to copy.
//!
//! Folded are: capitals; spaces and line ends in any number; digits in any number (amounts, dates, codes) to one `0`; whole
//! web addresses to `<url>` (each recipient has another path, and often another host); and characters that nobody sees.
//! Not folded are words: for a name in a greeting there are [`shingles`]. Letters of other alphabets that look alike are
//! letters of their own here.

/// So much of a message is looked at: the rest says the same again, and memory is bounded.
pub const MOST_BYTES: usize = 16 << 10;

/// The form of a message by which copies are recognised.
#[must_use]
pub fn normalised(message: &str) -> String {
    let end = (0..=MOST_BYTES.min(message.len())).rev().find(|&at| message.is_char_boundary(at)).unwrap_or_default();
    let seen: String = message[..end].chars().filter(|&c| !is_unseen(c)).flat_map(char::to_lowercase).collect();
    let mut form = String::with_capacity(seen.len());
    for word in seen.split_whitespace() {
        if !form.is_empty() {
            form.push(' ');
        }
        match ["http://", "https://", "www."].into_iter().filter_map(|start| word.find(start)).min() {
            // What stands before it (a bracket, "link:") stays; what comes after it belongs to the address.
            Some(at) => {
                push_folded(&mut form, &word[..at]);
                form.push_str("<url>");
            }
            None => push_folded(&mut form, word),
        }
    }
    form
}

/// Appends a word with every run of digits as one 0.
fn push_folded(form: &mut String, word: &str) {
    let mut in_number = false;
    for c in word.chars() {
        let digit = c.is_numeric();
        if digit && !in_number {
            form.push('0');
        } else if !digit {
            form.push(c);
        }
        in_number = digit;
    }
}

/// Characters without a width, and the hyphen that only shows at the end of a line: put between letters, they make another
/// text of the same words.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Every so many words in a row of a normalised message, each once; of a shorter one, the whole. A changed word is in so
/// many of them, and all others stay as they were.
#[must_use]
pub fn shingles(normalised: &str, words: usize) -> Vec<String> {
    let all: Vec<&str> = normalised.split(' ').collect();
    if words == 0 || all.len() <= words {
        return vec![normalised.to_string()];
    }
    let mut shingles: Vec<String> = all.windows(words).map(|some| some.join(" ")).collect();
    shingles.sort_unstable();
    shingles.dedup();
    shingles
}
