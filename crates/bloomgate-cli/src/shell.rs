//! Commands that are printed to be run: a word as a shell reads it back.

use std::path::Path;

/// A path: what begins with a dash would be read as an option.
pub fn path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    match path.to_str() {
        Some(text) if text.starts_with('-') && text != "-" => word(Path::new(".").join(path)),
        _ => word(path),
    }
}

/// Any word: as it is if nothing in it means anything to a shell, quoted otherwise.
pub fn word(word: impl AsRef<Path>) -> String {
    let bytes = word.as_ref().as_os_str().as_encoded_bytes();
    let plain = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-_./,:@%+=".contains(&byte);
    match word.as_ref().to_str() {
        Some(text) if !text.is_empty() && bytes.iter().all(plain) => text.into(),
        Some(text) if !text.contains(char::is_control) => format!("'{}'", text.replace('\'', "'\\''")),
        // Byte by byte, as bash and zsh read it.
        _ => {
            let each = |&byte: &u8| if plain(&byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") };
            format!("$'{}'", bytes.iter().map(each).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_words_are_read_back_by_a_shell() {
        for (given, text) in [
            ("keys.txt", "keys.txt"),
            ("-", "-"),
            ("-o", "./-o"),
            ("my keys.txt", "'my keys.txt'"),
            ("it's", "'it'\\''s'"),
            ("a\nb", "$'a\\x0ab'"),
            ("é", "'é'"),
        ] {
            assert_eq!(path(given), text);
        }
        assert_eq!((word("--null").as_str(), word("").as_str()), ("--null", "''"));
    }
}
