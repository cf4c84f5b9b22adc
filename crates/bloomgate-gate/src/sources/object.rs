//! A row that is to be written: a JSON object, one member a column.

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};

/// The members of an object in their order: the names, and the values as they were written.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub members: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Reads a row. A name may be there once.
    pub fn parse(row: &'a Bytes) -> Result<Self> {
        let object: Self = serde_json::from_slice(row).map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                format!("the row is no JSON object: {error}: write {{\"column\": value, …}} with each column once"),
            )
        })?;
        Ok(object)
    }

    /// Refuses a row whose key column is there and is not the key.
    pub fn check_key(&self, column: &str, key_type: KeyType, key: &Key) -> Result<()> {
        self.check_column(column, "key", key_type, key)
    }

    /// Refuses a row whose tenant column is there and names another tenant.
    pub fn check_tenant(&self, column: &str, tenant_type: KeyType, tenant: &Key) -> Result<()> {
        self.check_column(column, "tenant", tenant_type, tenant)
    }

    fn check_column(&self, column: &str, what: &str, key_type: KeyType, key: &Key) -> Result<()> {
        let Some((_, value)) = self.members.iter().find(|(name, _)| name == column) else { return Ok(()) };
        let text: String = match value.get().as_bytes().first() {
            Some(b'"') => serde_json::from_str(value.get()).map_err(|error| {
                Error::new(
                    ErrorKind::Invalid,
                    format!("the row's {column}: {error}: write it as the {what} is written"),
                )
            })?,
            _ => value.get().to_string(),
        };
        if key_type.parse(&text).is_ok_and(|parsed| parsed == *key) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the row's {column} is {}, but its {what} is {:?}: write the {what} there, or leave {column} out",
                shortened(value.get()),
                key_type.show(key)
            ),
        ))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut members: Self::Value = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if members.iter().any(|(other, _)| *other == name) {
                        return Err(serde::de::Error::custom(format_args!("{name:?} is there twice")));
                    }
                    // No table has more columns, and each name is compared with all others.
                    if members.len() == 4096 {
                        return Err(serde::de::Error::custom("it has more than 4096 members"));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(members)
            }
        }
        Ok(Self { members: from.deserialize_map(Members)? })
    }
}

/// The beginning of a text, for messages.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Refuses a name that no column has, and says which ones there are, the nearest first.
pub(super) fn unknown_column<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Error {
    let mut near: Vec<(usize, &str)> = names.map(|other| (edits(name, other), other)).collect();
    near.sort_unstable();
    let near: Vec<&str> = near.iter().take(5).map(|(_, name)| *name).collect();
    let meant = if near.is_empty() { "there are none".to_string() } else { format!("there are {}", near.join(", ")) };
    Error::new(ErrorKind::Invalid, format!("no column is named {:?}: {meant}", shortened(name)))
}

/// How many letters have to be inserted, removed or replaced to make one word of the other, case aside. Names are cut at 64
/// letters: the work grows with the product of both lengths, and a client may send any.
fn edits(one: &str, other: &str) -> usize {
    let plain = |name: &str| name.chars().take(64).flat_map(char::to_lowercase).collect::<String>();
    strsim::levenshtein(&plain(one), &plain(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(row: &'static str) -> String {
        Object::parse(&Bytes::from_static(row.as_bytes())).unwrap_err().to_string()
    }

    #[test]
    fn only_objects_with_each_name_once_are_rows() {
        let row = Bytes::from_static(br#" {"a": 1.50, "b": {"c": [null]}, "": "x"} "#);
        let object = Object::parse(&row).unwrap();
        let members: Vec<_> = object.members.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(members, [("a", "1.50"), ("b", r#"{"c": [null]}"#), ("", r#""x""#)]);
        assert!(refusal(r#"{"a": 1, "\u0061": 2}"#).contains(r#""a" is there twice"#));
        for wrong in ["", "[]", "1", "null", "{", r#"{"a"}"#, r#"{"a": 1} x"#, r#"{"a": 01}"#, "{\"\\ud800\": 1}"] {
            assert!(refusal(wrong).contains("no JSON object"), "{wrong}");
        }
    }

    #[test]
    fn the_key_in_a_row_is_compared_as_the_column_compares() {
        let key = Key::from(42);
        let integer = KeyType::Integer { bits: 32 };
        for (row, same) in [
            (r#"{"id": 42}"#, true),
            (r#"{"id": "042"}"#, true),
            (r#"{"name": "x"}"#, true),
            (r#"{"id": 43}"#, false),
            (r#"{"id": null}"#, false),
            (r#"{"id": [42]}"#, false),
            (r#"{"id": "\ud800"}"#, false),
        ] {
            let row = Bytes::from_static(row.as_bytes());
            assert_eq!(Object::parse(&row).unwrap().check_key("id", integer, &key).is_ok(), same, "{row:?}");
        }
    }

    #[test]
    fn the_nearest_names_come_first() {
        let said = unknown_column("prise", ["id", "Price", "name"].into_iter()).to_string();
        assert_eq!(said, r#"no column is named "prise": there are Price, id, name"#);
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("Äb", "äB")), (3, 3, 0));
    }
}
