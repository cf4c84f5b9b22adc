//! Writes rows to PostgreSQL, all or none, and knows what it does not know: a connection that breaks once `COMMIT` is sent
//! leaves it open whether the rows are there.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::{Client, Transaction};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::catalogue::{Column, Table};
use super::connections::{Lost, within};
use super::wire::{Given, Stored};
use super::{Postgres, was_refused, with_tenant};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::sources::Source;
use crate::sources::object::{Object, unknown_column};

/// Statements that a connection keeps prepared. Each set of columns needs one of its own, and clients choose the sets.
const PREPARED: usize = 64;

/// Rows in one statement.
const ROWS: usize = 10_000;

/// A row with the places of its columns besides the key.
struct Row<'a> {
    key: &'a Key,
    object: &'a str,
    columns: Vec<usize>,
}

/// Rows with their columns, read again from the catalogue if one of them is not known.
async fn resolved<'a>(source: &Postgres, rows: &'a [(Key, Bytes)]) -> Result<(Vec<Row<'a>>, Arc<Vec<Column>>)> {
    let mut columns = source.known_columns();
    let mut read = resolve(source, rows, &columns);
    if matches!(&read, Err(Wrong::Unknown(_))) {
        // It may be new.
        columns = source.read_columns().await?;
        if columns.is_empty() {
            let message = format!("PostgreSQL: the table {} is gone: somebody dropped it", source.table.name);
            return Err(Error::new(ErrorKind::Source, message));
        }
        read = resolve(source, rows, &columns);
    }
    let read = read.map_err(|wrong| match wrong {
        Wrong::Unknown(error) | Wrong::Otherwise(error) => error,
    })?;
    Ok((read, columns))
}

/// Refuses rows that no table of these columns takes; nothing is written.
pub(super) async fn check_rows(source: &Postgres, rows: &[(Key, Bytes)]) -> Result<()> {
    resolved(source, rows).await.map(drop)
}

pub(super) async fn put_many(source: &Postgres, rows: &[(Key, Bytes)]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let (read, columns) = resolved(source, rows).await?;
    let mut again = true;
    loop {
        let mut client = source.client().await?;
        let Err(refusal) = write(source, &mut client, &read, &columns).await else { return Ok(()) };
        if !refusal.leave(client, &mut again) {
            return Err(refusal.told("writing rows"));
        }
    }
}

pub(super) async fn delete(source: &Postgres, key: &Key) -> Result<bool> {
    source.key_type().check(key)?;
    if source.impossible(key) {
        return Ok(false);
    }
    let mut again = true;
    loop {
        let mut client = source.client().await?;
        match remove(source, &mut client, key).await {
            Ok(removed) => return Ok(removed),
            Err(refusal) => {
                if !refusal.leave(client, &mut again) {
                    return Err(refusal.told("deleting a row"));
                }
            }
        }
    }
}

async fn remove(source: &Postgres, client: &mut Client, key: &Key) -> std::result::Result<bool, Refusal> {
    let table = &source.table;
    let sql = format!("DELETE FROM {} WHERE {}", table.quoted, table.is_row(""));
    let types = table.types(table.wire.parameter());
    let statement = within(client.prepare_typed_cached(&sql, &types)).await.map_err(Refusal::Unbegun)?;
    let (given, tenant) = (Given { wire: table.wire, key }, source.given_tenant());
    let parameters = with_tenant(&[&given], &tenant);
    let removing = within(client.transaction()).await.map_err(Refusal::Unbegun)?;
    let removed = match within(removing.execute(&statement, &parameters)).await {
        Ok(rows) => rows > 0,
        // The text cannot even be asked for: no row has it.
        Err(Lost::Said(error)) if super::untranslatable(&error) => return Ok(false),
        Err(lost) => return Err(Refusal::Lost(lost)),
    };
    refuse_triggers(source, &removing, OF_DELETES).await?;
    within(removing.commit()).await.map_err(unless_refused)?;
    Ok(removed)
}

/// Why rows cannot be written as they are.
enum Wrong {
    Unknown(Error),
    Otherwise(Error),
}

/// Why rows were not written, or not known to be.
enum Refusal {
    /// Nothing that writes was sent.
    Unbegun(Lost),
    /// Nothing was committed.
    Lost(Lost),
    /// The server was told to commit, and did not say that it has.
    Open(Lost),
    Otherwise(Error),
}

impl Refusal {
    /// Gives the connection back, or up if it is gone. Whether to try once more, by another one: all are gone when a
    /// server restarts.
    fn leave(&self, client: Client, again: &mut bool) -> bool {
        match self {
            Self::Unbegun(lost) | Self::Lost(lost) | Self::Open(lost) => lost.leave(client),
            Self::Otherwise(_) => {}
        }
        let repeatable = match self {
            Self::Unbegun(lost) => lost.was_lost() || lost.is_outdated(),
            // Refused in the transaction, which is rolled back.
            Self::Lost(lost) => lost.is_outdated(),
            Self::Open(_) | Self::Otherwise(_) => false,
        };
        repeatable && std::mem::take(again)
    }

    fn told(self, doing: &str) -> Error {
        match self {
            Self::Unbegun(lost) | Self::Lost(lost) => lost.told(doing),
            Self::Open(lost) => Error::new(
                ErrorKind::Unknown,
                format!("{}; whether it was done is not known: read it, or do it again", lost.told(doing)),
            ),
            Self::Otherwise(error) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Lost(Lost::Said(error))
    }
}

/// A write was sent: unless the server says that it refuses it, it may have happened.
fn unless_refused(lost: Lost) -> Refusal {
    match &lost {
        Lost::Said(error) if was_refused(error) => Refusal::Lost(lost),
        _ => Refusal::Open(lost),
    }
}

/// Reads the rows and finds their columns.
fn resolve<'a>(
    source: &Postgres,
    rows: &'a [(Key, Bytes)],
    columns: &[Column],
) -> std::result::Result<Vec<Row<'a>>, Wrong> {
    let key_type = source.key_type();
    let each = |(key, row): &'a (Key, Bytes)| {
        let read = || -> Result<(Object<'a>, &'a str)> {
            key_type.check(key)?;
            if source.impossible(key) {
                return Err(Error::new(
                    ErrorKind::BadKey,
                    format!("{:?} has a NUL in it, which PostgreSQL cannot store: leave it out", key_type.show(key)),
                ));
            }
            let object = Object::parse(row)?;
            object.check_key(&source.table.key, key_type, key)?;
            if let Some((column, tenant)) = source.table.tenant.as_ref().zip(source.tenant.as_ref()) {
                object.check_tenant(&column.name, column.wire.key_type(), tenant)?;
            }
            let text = std::str::from_utf8(row)
                .map_err(|_| Error::new(ErrorKind::Invalid, "the row is not UTF-8: write JSON, which is"))?;
            Ok((object, text))
        };
        let (object, text) = read().map_err(Wrong::Otherwise)?;
        let mut resolved = Row { key, object: text, columns: Vec::with_capacity(object.members.len()) };
        for (name, _) in &object.members {
            let Some(place) = columns.iter().position(|column| column.name == *name) else {
                return Err(Wrong::Unknown(unknown_column(name, columns.iter().map(|column| column.name.as_str()))));
            };
            let is_tenant = source.table.tenant.as_ref().is_some_and(|tenant| tenant.name == *name);
            if *name != source.table.key && !is_tenant {
                resolved.columns.push(place);
            }
        }
        // One statement for one set, in whatever order it was written.
        resolved.columns.sort_unstable();
        Ok(resolved)
    };
    rows.iter().map(each).collect()
}

async fn write(
    source: &Postgres,
    client: &mut Client,
    rows: &[Row<'_>],
    columns: &[Column],
) -> std::result::Result<(), Refusal> {
    let writing = within(client.transaction()).await.map_err(Refusal::Unbegun)?;
    let mut rest = rows;
    while !rest.is_empty() {
        let (run, later) = rest.split_at(run(rest));
        upsert(source, &writing, run, columns).await?;
        rest = later;
    }
    refuse_triggers(source, &writing, OF_PUTS).await?;
    within(writing.commit()).await.map_err(unless_refused)
}

/// Which triggers may run after a put, by the bits of `tgtype`: those of an insert (4) or an update (16).
const OF_PUTS: i32 = 4 | 16;
/// Which may run after a delete: its own (8), and those that it may set off in turn.
const OF_DELETES: i32 = 4 | 8 | 16;

/// What may change the key of a row after it was returned, or write other rows of the table: triggers (of these kinds: `$2`) that
/// run after a write, and rules. An update that moves a row to another partition deletes it there, and inserts it here.
/// Internal ones (foreign keys) and those of a feed write no rows of this table.
const AFTERWARDS: &str = "
    WITH RECURSIVE part AS (
        SELECT $1::oid AS oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN part ON i.inhparent = part.oid
    )
    SELECT t.tgname::text FROM pg_catalog.pg_trigger AS t JOIN part ON part.oid = t.tgrelid
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 2 = 0
      AND (t.tgtype & $2::int4 <> 0
           OR t.tgtype & 8 <> 0 AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = $1))
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc AS f WHERE f.oid = t.tgfoid AND f.proname LIKE 'bloomgate\\_feed\\_%')
    UNION ALL
    SELECT r.rulename::text FROM pg_catalog.pg_rewrite AS r JOIN part ON part.oid = r.ev_class
    WHERE r.ev_enabled <> 'D' AND r.rulename <> '_RETURN' LIMIT 1";

/// Refuses a table whose triggers the filter cannot follow. After the rows were written: no trigger can be made while
/// they are not committed. With a feed they are told like everybody else.
async fn refuse_triggers(source: &Postgres, writing: &Transaction<'_>, kinds: i32) -> std::result::Result<(), Refusal> {
    if source.is_followed() {
        return Ok(());
    }
    let table = &source.table;
    let asked = async {
        let statement = writing.prepare_cached(AFTERWARDS).await?;
        let found = writing.query_opt(&statement, &[&table.oid(), &kinds]).await?;
        found.map(|row| row.try_get::<_, String>(0)).transpose()
    };
    match within(asked).await.map_err(Refusal::Lost)? {
        None => Ok(()),
        Some(name) => Err(Refusal::Otherwise(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} has the trigger or rule {name}, which runs after a write and may change its key or write other rows that \
                 the filter does not know: nothing was written. Remove it, let it run before the write, or install a feed, \
                 which tells of such rows (writers = feed)",
                table.name
            ),
        ))),
    }
}

/// How many of the rows one statement can write: they have the same columns, and no key is there twice.
fn run(rows: &[Row<'_>]) -> usize {
    let mut keys = HashSet::new();
    rows.iter().take(ROWS).take_while(|row| row.columns == rows[0].columns && keys.insert(row.key)).count()
}

async fn upsert(
    source: &Postgres,
    writing: &Transaction<'_>,
    rows: &[Row<'_>],
    columns: &[Column],
) -> std::result::Result<(), Refusal> {
    let table = &source.table;
    let given: Vec<&Column> = rows[0].columns.iter().map(|&place| &columns[place]).collect();
    let sql = statement(table, &given);
    let mut types = vec![table.wire.parameters(), Type::TEXT_ARRAY];
    types.extend(table.tenant.as_ref().map(|tenant| tenant.wire.parameter()));
    let prepare = async {
        // Once a connection has many, the set is a rare one.
        if writing.statement_cache.size() < PREPARED {
            writing.prepare_typed_cached(&sql, &types).await
        } else {
            writing.prepare_typed(&sql, &types).await
        }
    };
    let statement = within(prepare).await.map_err(|lost| explained(table, lost))?;
    let keys: Vec<Given<'_>> = rows.iter().map(|row| Given { wire: table.wire, key: row.key }).collect();
    let objects: Vec<&str> = rows.iter().map(|row| row.object).collect();
    let tenant = source.given_tenant();
    let parameters = with_tenant(&[&keys, &objects], &tenant);
    let returned = within(writing.query(&statement, &parameters)).await.map_err(|lost| explained(table, lost))?;
    // A length or a scale may have cut the key, a trigger may have changed it: then the filter would have another one.
    let mut stored = HashSet::with_capacity(returned.len());
    for row in &returned {
        let (mut canonical, mut whose) = (Vec::new(), Vec::new());
        let same_tenant = match &tenant {
            None => true,
            Some(tenant) => {
                tenant.wire.canonical(row.try_get::<_, Stored<'_>>(1)?.0, &mut whose) && whose == tenant.key.canonical()
            }
        };
        if same_tenant && table.wire.canonical(row.try_get::<_, Stored<'_>>(0)?.0, &mut canonical) {
            stored.insert(canonical);
        }
    }
    match rows.iter().find(|row| !stored.contains(row.key.canonical())) {
        None => Ok(()),
        Some(row) => Err(Refusal::Otherwise(Error::new(
            ErrorKind::Invalid,
            format!(
                "{} does not store the key {:?} as it is: it is longer than the column's length or scale allows, or a \
                 trigger changes or drops the row: nothing was written",
                table.name,
                table.wire.key_type().show(row.key)
            ),
        ))),
    }
}

/// Inserts the key and these columns, or updates them where the key is there already. Parameters: the keys, the rows, the
/// tenant of a table that has them.
fn statement(table: &Table, columns: &[&Column]) -> String {
    let (key, whose) = match &table.tenant {
        None => (table.quoted_key.clone(), String::new()),
        Some(tenant) => (format!("{}, {}", table.quoted_key, tenant.quoted), format!(", {}", tenant.wire.one("$3"))),
    };
    let join = |each: &dyn Fn(&Column) -> String| -> String { columns.iter().map(|column| each(column)).collect() };
    let names = join(&|column| format!(", {}", column.quoted));
    let values = join(&|column| format!(", filled.{}", column.quoted));
    let types: Vec<String> = columns.iter().map(|column| format!("{} {}", column.quoted, column.written)).collect();
    let filled = match types.as_slice() {
        [] => String::new(),
        types => format!(
            " CROSS JOIN LATERAL pg_catalog.json_to_record(given.object::pg_catalog.json) AS filled({})",
            types.join(", ")
        ),
    };
    // With nothing to update the row still has to be found, so that RETURNING tells of it.
    let updates: Vec<String> = match columns {
        [] => vec![format!("{0} = EXCLUDED.{0}", table.quoted_key)],
        columns => columns.iter().map(|column| format!("{0} = EXCLUDED.{0}", column.quoted)).collect(),
    };
    format!(
        "INSERT INTO {} ({key}{names}) SELECT given.key{whose}{values} \
         FROM ROWS FROM (pg_catalog.unnest({}), pg_catalog.unnest($2)) WITH ORDINALITY AS given(key, object, place){filled} ORDER BY given.place \
         ON CONFLICT ({key}) DO UPDATE SET {} RETURNING {key}",
        table.quoted,
        table.wire.many("$1"),
        updates.join(", ")
    )
}

/// Says what to do where there is no unique index.
fn explained(table: &Table, lost: Lost) -> Refusal {
    match &lost {
        Lost::Said(error) if error.code() == Some(&SqlState::INVALID_COLUMN_REFERENCE) => {
            Refusal::Otherwise(Error::new(
                ErrorKind::Unsupported,
                match &table.tenant {
                    None => format!(
                        "{0} cannot be written by its key: no unique index covers {1} alone: run CREATE UNIQUE INDEX ON {0} \
                         ({1})",
                        table.name, table.quoted_key
                    ),
                    Some(tenant) => format!(
                        "{0} cannot be written by tenant and key: no unique index covers both: run CREATE UNIQUE INDEX ON {0} \
                         ({2}, {1})",
                        table.name, table.quoted_key, tenant.quoted
                    ),
                },
            ))
        }
        _ => Refusal::Lost(lost),
    }
}
