//! Commands that are printed to be run: a word as a POSIX shell reads it back.

use std::ffi::OsStr;

/// The word as it is if nothing in it means anything to a shell, in single quotes otherwise.
pub fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were() {
        for (word, said) in [("a/b-1.bf", "a/b-1.bf"), ("two words", "'two words'"), ("", "''"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(OsStr::new(word)), said);
        }
    }
}
