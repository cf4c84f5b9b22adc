//! The names of columns and fields: several as one list, and which there are when one is missing.

use csv_core::ReadRecordResult;

/// Names that are told of a file that lacks one: more would hide the message.
const MOST_NAMES: usize = 12;

/// `id` or `country,id` or `"last, first",id`: the names of a list, written as a row of CSV.
pub fn list(text: &str) -> Result<Vec<String>, String> {
    let mut reader = csv_core::Reader::new();
    let (mut fields, mut ends) = (vec![0; text.len() + 1], vec![0; text.len() + 2]);
    // The line end closes the row; within open quotes it does not.
    let line = format!("{text}\n");
    let (result, read, _, count) = reader.read_record(line.as_bytes(), &mut fields, &mut ends);
    let one_row = matches!(result, ReadRecordResult::Record) && read == line.len();
    let mut start = 0;
    let mut names = Vec::with_capacity(count);
    for end in &ends[..count] {
        names.push(String::from_utf8_lossy(&fields[start..*end]).into_owned());
        start = *end;
    }
    if !one_row || names.iter().any(|name| name.is_empty()) {
        return Err(format!("{text:?} is no list of names: write id or country,id (a comma within a name: \"a,b\")"));
    }
    Ok(names)
}

/// A list as [`list`] reads it.
pub fn written(names: &[String]) -> String {
    let plain = |name: &str| !name.contains([',', '"', '\r', '\n']);
    let each = |name: &String| if plain(name) { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
    names.iter().map(each).collect::<Vec<_>>().join(",")
}

/// The names that there are, those most like the wanted one first: `id, uid, name and 7 more`.
pub fn nearest<S: AsRef<str>>(wanted: &str, names: &[S]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let plain = |name: &str| name.trim().to_lowercase();
    sorted.sort_by_key(|name| distance(&plain(wanted), &plain(name)));
    let more = sorted.len().saturating_sub(MOST_NAMES);
    let told: Vec<String> =
        sorted.iter().take(MOST_NAMES).map(|name| name.escape_debug().collect::<String>()).collect();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    told.join(", ") + &tail
}

/// How many letters have to be put in, taken out or changed. Names are cut at 64 letters: the work grows with the product
/// of both lengths, and a file may name its columns as long as it likes.
fn distance(from: &str, to: &str) -> usize {
    let cut = |name: &str| name.chars().take(64).collect::<String>();
    strsim::levenshtein(&cut(from), &cut(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_rows_of_csv() {
        assert_eq!(list("id").unwrap(), ["id"]);
        assert_eq!(list("country,user.id").unwrap(), ["country", "user.id"]);
        assert_eq!(list("\"last, \"\"first\"\"\",id").unwrap(), ["last, \"first\"", "id"]);
        for text in ["id", "country,user.id", "\"last, \"\"first\"\"\",id"] {
            assert_eq!(written(&list(text).unwrap()), text);
        }
        for bad in ["", ",", "a,", ",a", "\"a", "a\nb", "\n"] {
            assert!(list(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_nearest_name_comes_first() {
        assert_eq!(nearest("user_id", &["name", "UserId", "time"]), "UserId, name, time");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let many: Vec<String> = (0..30).map(|i| format!("column{i}")).collect();
        assert!(nearest("column7", &many).starts_with("column7, ") && nearest("x", &many).ends_with("and 18 more"));
        assert_eq!(nearest("a", &["tab\tin it"]), "tab\\tin it");
    }
}
