//! CONFIG REWRITE: settings that were changed while the server ran, written back into the file they are read from.
//!
//! Every other line stays as it is, with its comments. The file is replaced as a whole, by one that is on the disk first: a
//! reader sees the old one or the new one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A file of settings is a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// Writes values into a file of settings.
pub fn rewrite(path: &Path, values: &[(&str, String)]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // Where a link leads is what is replaced, not the link.
    let path = &path.canonicalize().map_err(failed)?;
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    let mut text = String::new();
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MOST_BYTES {
        return Err(format!("{} has more than {MOST_BYTES} bytes: change it by hand", path.display()));
    }
    let text = with_values(&text, values).map_err(|why| format!("{}: {why}", path.display()))?;
    let fresh = path.with_extension("rewriting");
    let written = (|| {
        // It may hold a password: whoever could not read the old one does not read the new one.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    })();
    written.map_err(|error| {
        // What is left of it is in nobody's way but the next try's.
        let _ = std::fs::remove_file(&fresh);
        format!("{}: {error}", fresh.display())
    })
}

/// The text of a file with these values in place of its own, or behind them.
fn with_values(text: &str, values: &[(&str, String)]) -> Result<String, String> {
    if text.contains("\"\"\"") || text.contains("'''") {
        return Err("it has texts of several lines: change it by hand".to_owned());
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in values {
        let fresh = match value.parse::<i64>() {
            Ok(number) => format!("{name} = {number}"),
            // Values are names, numbers, sizes and paths; what JSON would escape, TOML does too.
            Err(_) => format!("{name} = {value:?}"),
        };
        match lines.iter_mut().find(|line| key_of(line) == Some(name)) {
            Some(line) => *line = comment_of(line).map_or(fresh.clone(), |comment| format!("{fresh} {comment}")),
            None => lines.push(fresh),
        }
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

/// The name that a line of a file gives a value to.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    Some(key.strip_prefix(['"', '\'']).and_then(|key| key.strip_suffix(['"', '\''])).unwrap_or(key))
}

/// The comment behind the value of a line: from the first # that is in no text.
fn comment_of(line: &str) -> Option<&str> {
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '#') => return Some(line[at..].trim_end()),
            _ => {}
        }
    }
    None
}

/// Whether a text of settings has the value of this name.
pub(super) fn has_value(text: &str, name: &str) -> bool {
    text.lines().any(|line| key_of(line) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_their_own_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.toml");
        std::fs::write(&path, "# max-clients = 1\nmax-clients = 5 # few\n\"max-memory\"='1GB'\npassword = \"a=b\"\n")
            .unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let values =
            [("max-clients", "7".to_owned()), ("max-memory", "2000".to_owned()), ("log-level", "warn".to_owned())];
        rewrite(&path, &values).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected =
            "# max-clients = 1\nmax-clients = 7 # few\nmax-memory = 2000\npassword = \"a=b\"\nlog-level = \"warn\"\n";
        assert_eq!(text, expected);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // Again: the same; and through a link, which stays one.
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        rewrite(&link, &values).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
        // A # within a text begins no comment.
        std::fs::write(&path, "data = \"a\\\"#b\"\t#  c # d \nlog-level='#'\n").unwrap();
        rewrite(&path, &[("data", "e".to_owned()), ("log-level", "warn".to_owned())]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "data = \"e\" #  c # d\nlog-level = \"warn\"\n");
        std::fs::write(&path, "data = \"\"\"\nmax-clients = 1\n\"\"\"\n").unwrap();
        assert!(rewrite(&path, &values).unwrap_err().contains("by hand"));
        assert!(rewrite(&folder.path().join("absent"), &values).is_err());
    }
}
