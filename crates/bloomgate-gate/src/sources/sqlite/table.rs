//! What a table of SQLite is: its key column, and whether the gate can keep to that column's idea of equality.

use rusqlite::{Connection, OptionalExtension};

use super::failed;
use super::rows::Asked;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::is_of_feed;
use crate::key::{Key, KeyType};
use crate::sources::object::unknown_column;

/// A table and its key column, by their names as the schema has them.
#[derive(Debug)]
pub(super) struct Table {
    pub name: String,
    pub quoted: String,
    pub key: String,
    pub quoted_key: String,
    pub key_type: KeyType,
    /// The column that says whose a row is, if the table has tenants.
    pub tenant: Option<Tenancy>,
}

/// The column that says whose a row is.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub name: String,
    pub quoted: String,
    pub key_type: KeyType,
}

/// A column that rows can have.
#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    pub quoted: String,
    pub affinity: Affinity,
    /// Whether it is computed and cannot be written.
    pub generated: bool,
    declared: String,
    /// The place in the primary key, from 1; 0 if it is not part of it.
    primary: i64,
}

/// What SQLite prefers to store in a column, by the name of its type (<https://sqlite.org/datatype3.html>, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

impl Affinity {
    fn of(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
        if has(&["INT"]) {
            Self::Integer
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if declared.is_empty() || has(&["BLOB"]) {
            Self::Blob
        } else if has(&["REAL", "FLOA", "DOUB"]) {
            Self::Real
        } else {
            Self::Numeric
        }
    }
}

impl Table {
    /// Looks a table, its key column and its tenant column up and checks that they can be gated.
    pub fn find(connection: &Connection, table: &str, key_column: &str, tenant_column: Option<&str>) -> Result<Self> {
        let doing = |error: rusqlite::Error| failed("reading the schema", &error);
        let found: Option<(String, String)> = connection
            .query_row(
                "SELECT name, type FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE",
                [table],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(doing)?;
        let Some((name, kind)) = found else {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("the file has no table {table:?}: {}", tables(connection).map_err(doing)?),
            ));
        };
        if kind == "view" {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{name} is a view, which no unique index can cover: give the table behind it"),
            ));
        }
        let columns = columns(connection, &name)?;
        let (column, key_type) = gateable(connection, &name, key_column, &columns)?;
        let tenant = tenant_column.map(|tenant| gateable(connection, &name, tenant, &columns)).transpose()?;
        if tenant.is_some_and(|(tenant, _)| tenant.name == column.name) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{name}.{} is the key and the tenant at once: name two columns", column.name),
            ));
        }
        let covered: Vec<&Column> = tenant.iter().map(|(tenant, _)| *tenant).chain([column]).collect();
        let refuse = |why: String| Err(Error::new(ErrorKind::Unsupported, format!("{name}.{}: {why}", column.name)));
        match unique_index(connection, &name, &covered, &columns).map_err(doing)? {
            Unique::Plainly => {}
            Unique::By(collation) => {
                return refuse(format!(
                    "its unique index is ordered by COLLATE {collation}, which takes different texts for equal: make one \
                     without it"
                ));
            }
            Unique::Not => {
                let names: Vec<&str> = covered.iter().map(|column| column.quoted.as_str()).collect();
                return refuse(format!(
                    "no unique index covers it {}: run CREATE UNIQUE INDEX … ON {} ({})",
                    if tenant.is_some() { "and the tenant together" } else { "alone" },
                    quote(&name),
                    names.join(", ")
                ));
            }
        }
        let tenant = tenant.map(|(tenant, key_type)| Tenancy {
            name: tenant.name.clone(),
            quoted: tenant.quoted.clone(),
            key_type,
        });
        let (key, quoted_key) = (column.name.clone(), column.quoted.clone());
        Ok(Self { quoted: quote(&name), name, key, quoted_key, key_type, tenant })
    }

    /// Where the row of a key is, as a condition: `?1` is the key, `?2` the tenant.
    pub fn is_row(&self, row: &str) -> String {
        match &self.tenant {
            None => format!("{row}{} = ?1", self.quoted_key),
            Some(tenant) => format!("{row}{} = ?1 AND {row}{} = ?2", self.quoted_key, tenant.quoted),
        }
    }

    /// A key, and the tenant of a table that has them, as parameters.
    pub fn bound<'a>(&self, tenant: Option<&'a Key>, key: &'a Key) -> impl Iterator<Item = Asked<'a>> + use<'a> {
        let tenant = self.tenant.as_ref().zip(tenant);
        let tenant = tenant.map(|(column, tenant)| Asked { key_type: column.key_type, key: tenant });
        std::iter::once(Asked { key_type: self.key_type, key }).chain(tenant)
    }

    /// Refuses to go on with a table that is not the one it was at the start.
    pub fn check_again(&self, connection: &Connection) -> Result<()> {
        let gone = |what: String| {
            let message = format!("{}.{} is not the column it was ({what}): start the gate anew", self.name, self.key);
            Error::new(ErrorKind::Unsupported, message)
        };
        let tenant = self.tenant.as_ref();
        match Self::find(connection, &self.name, &self.key, tenant.map(|tenant| tenant.name.as_str())) {
            Ok(now)
                if now.key_type == self.key_type
                    && now.tenant.as_ref().map(|now| now.key_type) == tenant.map(|tenant| tenant.key_type) =>
            {
                Ok(())
            }
            Ok(now) => Err(gone(format!("{} instead of {}", now.key_type, self.key_type))),
            Err(error) if error.kind() == ErrorKind::Invalid => Err(gone(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Refuses a table with a trigger that writes: it may write other rows of the table, or change the key of a row after
    /// it was written, and the filter does not know of either.
    pub fn refuse_triggers(&self, connection: &Connection) -> Result<()> {
        let doing = |error: rusqlite::Error| failed("reading the schema", &error);
        let mut statement = connection
            .prepare_cached(
                "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
            )
            .map_err(doing)?;
        let mut triggers = statement.query([&self.name]).map_err(doing)?;
        while let Some(trigger) = triggers.next().map_err(doing)? {
            let (name, sql): (String, String) = (trigger.get(0).map_err(doing)?, trigger.get(1).map_err(doing)?);
            // Those of a feed write nothing but its outbox.
            if writes(&sql) && !is_of_feed(&name) {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{} has the trigger {name}, which writes, perhaps other rows that the filter does not know: nothing was \
                         written. Remove it, or install a feed, which tells of such rows (writers = feed)",
                        self.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The columns as they are now: others may have added some.
    pub fn columns(&self, connection: &Connection) -> Result<Vec<Column>> {
        let columns = columns(connection, &self.name)?;
        if columns.is_empty() {
            let message = format!("SQLite: the table {} is gone: somebody dropped or renamed it", self.name);
            return Err(Error::new(ErrorKind::Source, message));
        }
        Ok(columns)
    }
}

/// Whether the body of a trigger has a statement that writes rows. By its words alone: one of them in a text or a name is
/// taken for a statement, never the other way round.
fn writes(sql: &str) -> bool {
    let sql = sql.to_ascii_uppercase();
    // Before the body there is the event, which may be an insert or an update itself.
    let body = sql.split_once("BEGIN").map_or(sql.as_str(), |(_, body)| body);
    ["INSERT", "UPDATE", "REPLACE"].iter().any(|word| body.contains(word))
}

fn name_of(name: &str) -> Result<std::ffi::CString> {
    std::ffi::CString::new(name).map_err(|_| {
        Error::new(ErrorKind::Invalid, format!("{name:?} has a NUL in it: no table or column is named so"))
    })
}

/// A column by its name, with the type of its values, if a filter can follow its equality.
fn gateable<'c>(
    connection: &Connection,
    table: &str,
    name: &str,
    columns: &'c [Column],
) -> Result<(&'c Column, KeyType)> {
    let doing = |error: rusqlite::Error| failed("reading the schema", &error);
    let Some(column) = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)) else {
        return Err(unknown_column(name, columns.iter().map(|column| column.name.as_str())));
    };
    let key_type = key_type(table, column)?;
    let (_, collation, ..) =
        connection.column_metadata(Some(c"main"), &name_of(table)?, &name_of(&column.name)?).map_err(doing)?;
    let collation = collation.map_or_else(|| "BINARY".into(), |collation| collation.to_string_lossy());
    if collation.eq_ignore_ascii_case("BINARY") {
        return Ok((column, key_type));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{table}.{}: it is compared by COLLATE {collation}, which takes different texts for equal; a filter cannot: gate \
             a column without it, for instance one that holds lower(…)",
            column.name
        ),
    ))
}

/// The type of the keys, by the column's declared type.
fn key_type(table: &str, column: &Column) -> Result<KeyType> {
    let (name, declared) = (&column.name, &column.declared);
    match column.affinity {
        Affinity::Integer => Ok(KeyType::Integer { bits: 64 }),
        Affinity::Text => Ok(KeyType::Text),
        Affinity::Blob => Ok(KeyType::Bytes),
        Affinity::Real | Affinity::Numeric => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{table}.{name} is declared {declared}: its values are integers, fractions and texts side by side, equal \
                 in ways that a filter does not know: gate a column declared INTEGER, TEXT or BLOB"
            ),
        )),
    }
}

/// Whether an index sees to it that a key (of a tenant) is there once.
enum Unique {
    Plainly,
    /// Only one with another order than that of bytes.
    By(String),
    Not,
}

fn unique_index(
    connection: &Connection,
    table: &str,
    wanted: &[&Column],
    columns: &[Column],
) -> rusqlite::Result<Unique> {
    let mut indexes =
        connection.prepare("SELECT name, origin, partial FROM pragma_index_list(?1, 'main') WHERE \"unique\"")?;
    let indexes = indexes
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<Vec<(String, String, bool)>>>()?;
    let mut unique = Unique::Not;
    for (index, _, partial) in &indexes {
        let mut covered = connection.prepare("SELECT name, coll FROM pragma_index_xinfo(?1, 'main') WHERE key")?;
        let covered = covered
            .query_map([index], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(Option<String>, String)>>>()?;
        // These columns and no others, in any order.
        let has = |column: &&Column| covered.iter().any(|(name, _)| name.as_deref() == Some(column.name.as_str()));
        if *partial || covered.len() != wanted.len() || !wanted.iter().all(has) {
            continue;
        }
        match covered.iter().find(|(_, collation)| !collation.eq_ignore_ascii_case("BINARY")) {
            None => return Ok(Unique::Plainly),
            Some((_, collation)) => unique = Unique::By(collation.clone()),
        }
    }
    // INTEGER PRIMARY KEY is the row's number itself, and has no index.
    let [key] = wanted else { return Ok(unique) };
    let alone = key.primary == 1 && columns.iter().filter(|column| column.primary > 0).count() == 1;
    let has_index = indexes.iter().any(|(_, origin, _)| origin == "pk");
    if alone && !has_index && key.declared.eq_ignore_ascii_case("INTEGER") {
        return Ok(Unique::Plainly);
    }
    Ok(unique)
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>> {
    let read = || {
        let mut statement =
            connection.prepare_cached("SELECT name, type, hidden, pk FROM pragma_table_xinfo(?1, 'main')")?;
        let columns = statement.query_map([table], |row| {
            let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
            let hidden: i64 = row.get(2)?;
            Ok(Column {
                quoted: quote(&name),
                name,
                affinity: Affinity::of(&declared),
                generated: hidden != 0,
                declared,
                primary: row.get(3)?,
            })
        })?;
        columns.collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(|error| failed("reading the schema", &error))
}

/// Which tables there are, for who asked for another.
fn tables(connection: &Connection) -> rusqlite::Result<String> {
    let mut statement = connection.prepare(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name LIMIT 20",
    )?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) })
}

/// A name as SQL takes it, whatever signs it has.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_parts_of_their_names() {
        for (declared, affinity) in [
            ("INTEGER", Affinity::Integer),
            ("unsigned big int", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("VARCHAR(255)", Affinity::Text),
            ("nclob", Affinity::Text),
            ("", Affinity::Blob),
            ("blob", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Real),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("UUID", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
        assert_eq!(quote(r#"a"b"#), r#""a""b""#);
        for (sql, does) in [
            ("CREATE TRIGGER x BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE); END", false),
            ("CREATE TRIGGER x AFTER UPDATE ON t BEGIN DELETE FROM u; END", false),
            ("create trigger x after insert on t begin insert into t values (1); end", true),
            ("CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET k = 1; END", true),
        ] {
            assert_eq!(writes(sql), does, "{sql}");
        }
    }
}
