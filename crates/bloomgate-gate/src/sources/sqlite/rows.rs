//! Rows of SQLite as JSON and back, and keys as values of SQLite.

use bytes::Bytes;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, Statement};

use super::failed;
use super::table::{Affinity, Column, Table};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType, hexadecimal, spell_bytes};
use crate::sources::object::{Object, shortened, unknown_column};

/// A key as a parameter.
pub(super) struct Asked<'a> {
    pub key_type: KeyType,
    pub key: &'a Key,
}

impl ToSql for Asked<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let bytes = self.key.canonical();
        Ok(ToSqlOutput::Borrowed(match (self.key_type, bytes.try_into()) {
            (KeyType::Integer { .. }, Ok(bytes)) => ValueRef::Integer(i64::from_le_bytes(bytes)),
            (KeyType::Bytes, _) => ValueRef::Blob(bytes),
            _ => ValueRef::Text(bytes),
        }))
    }
}

/// The canonical bytes of a stored value in `room` or where they are; nothing if it is of another type.
pub(super) fn canonical<'a>(value: ValueRef<'a>, key_type: KeyType, room: &'a mut [u8; 8]) -> Option<&'a [u8]> {
    match (key_type, value) {
        (KeyType::Integer { .. }, ValueRef::Integer(value)) => {
            *room = value.to_le_bytes();
            Some(room)
        }
        (KeyType::Text, ValueRef::Text(bytes)) | (KeyType::Bytes, ValueRef::Blob(bytes)) => Some(bytes),
        _ => None,
    }
}

/// A row as a JSON object of all its columns.
pub(super) fn to_json(row: &Row<'_>) -> Result<Bytes> {
    let statement: &Statement<'_> = row.as_ref();
    let mut json = vec![b'{'];
    for (at, name) in statement.column_names().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        write(&mut json, name)?;
        json.push(b':');
        match row.get_ref(at).map_err(|error| failed("reading a row", &error))? {
            ValueRef::Null => json.extend_from_slice(b"null"),
            ValueRef::Integer(value) => write(&mut json, &value)?,
            ValueRef::Real(value) if value.is_finite() => write(&mut json, &value)?,
            // JSON has no such numbers; PostgreSQL writes the same texts.
            ValueRef::Real(value) if value.is_nan() => write(&mut json, "NaN")?,
            ValueRef::Real(value) => write(&mut json, if value > 0.0 { "Infinity" } else { "-Infinity" })?,
            ValueRef::Text(text) => write(&mut json, &*String::from_utf8_lossy(text))?,
            ValueRef::Blob(bytes) => write(&mut json, &spell_bytes(bytes))?,
        }
    }
    json.push(b'}');
    Ok(json.into())
}

fn write<T: serde::Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) -> Result<()> {
    serde_json::to_writer(json, value)
        .map_err(|error| Error::new(ErrorKind::Source, format!("a row cannot be written as JSON: {error}")))
}

/// The columns besides the key and the tenant that an object gives, with their values.
pub(super) fn to_values<'c>(
    object: &Object<'_>,
    table: &Table,
    columns: &'c [Column],
    tenant: Option<&Key>,
    key: &Key,
) -> Result<Vec<(&'c Column, Value)>> {
    let mut given: Vec<(&Column, Value)> = Vec::with_capacity(object.members.len());
    for (name, json) in &object.members {
        let Some(column) = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)) else {
            return Err(unknown_column(name, columns.iter().map(|column| column.name.as_str())));
        };
        if column.name == table.key {
            object.check_key(name, table.key_type, key)?;
            continue;
        }
        if let Some((tenancy, tenant)) = table.tenant.as_ref().zip(tenant)
            && column.name == tenancy.name
        {
            object.check_tenant(name, tenancy.key_type, tenant)?;
            continue;
        }
        let refuse = |why: &str| Err(Error::new(ErrorKind::Invalid, format!("column {}: {why}", column.name)));
        if column.generated {
            return refuse("it is generated: leave it out");
        }
        if given.iter().any(|(other, _)| other.name == column.name) {
            return refuse("it is given twice, in other letters: write it once");
        }
        match value(json.get(), column.affinity) {
            Ok(value) => given.push((column, value)),
            Err(why) => return refuse(&format!("{} {why}", shortened(json.get()))),
        }
    }
    Ok(given)
}

/// What is stored for a JSON value; or why it cannot be.
fn value(json: &str, affinity: Affinity) -> std::result::Result<Value, String> {
    Ok(match json.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Integer(1),
        Some(b'f') => Value::Integer(0),
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|error| format!("is no text: {error}"))?;
            match (affinity, text.as_str()) {
                (Affinity::Real, "Infinity") => Value::Real(f64::INFINITY),
                (Affinity::Real, "-Infinity") => Value::Real(f64::NEG_INFINITY),
                (Affinity::Blob, spelled) => hexadecimal(spelled).map_or_else(|| Value::Text(text), Value::Blob),
                _ => Value::Text(text),
            }
        }
        // SQLite has functions for JSON, on texts.
        Some(b'{' | b'[') => Value::Text(json.to_string()),
        _ if json.contains(['.', 'e', 'E']) => match json.parse::<f64>() {
            Ok(value) if value.is_finite() => Value::Real(value),
            _ => return Err("is beyond what a real number can be: write it as text".into()),
        },
        _ => Value::Integer(json.parse().map_err(|_| "does not fit into 64 bits: write it as text".to_string())?),
    })
}
