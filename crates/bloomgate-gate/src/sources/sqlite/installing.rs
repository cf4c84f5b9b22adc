//! Installs and removes the feed of a table: an outbox, and three triggers that fill it in the writer's own transaction.
//!
//! The outbox numbers its rows without a hole, in the order of commits, since SQLite has one writer at a time; and each row
//! has a random number of its own, by which a file that was set back to an earlier state is told from one that went on.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::place::Place;
use super::table::{Table, quote};
use super::{failed, writer};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{FeedPlan, FeedWork, Names, lacks_tenant, not_whole, other_form};
use crate::sources::object::unknown_column;

/// The form of the outbox. Since 2 a row that goes to another tenant is told as one that goes and one that comes.
const VERSION: i64 = 2;

/// What a feed's own table says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub installation: String,
    key: String,
    tenant: Option<String>,
    only_keys: bool,
}

/// The triggers of a feed, by name and as SQLite keeps their text.
fn triggers(table: &Table, names: &Names, plan: &About) -> [(String, String); 3] {
    let (outbox, key) = (quote(&names.outbox), &table.quoted_key);
    let (also, new, old, same) = match &plan.tenant {
        Some(column) => {
            let column = quote(column);
            // Byte by byte, as tenants are told apart: by its own collation the column may take two of them for one.
            let same = format!(" AND OLD.{column} COLLATE BINARY IS NEW.{column}");
            (", tenant", format!(", NEW.{column}"), format!(", OLD.{column}"), same)
        }
        None => ("", String::new(), String::new(), String::new()),
    };
    let tell = |kind: &str, row: &str, tenant: &str, when: &str| {
        format!("INSERT INTO {outbox} (nonce, kind, key{also}) SELECT random(), {kind}, {row}.{key}{tenant}{when};")
    };
    // A row that goes to another tenant is gone for the one, and new for the other.
    let stayed = format!(" WHERE OLD.{key} IS NEW.{key}{same}");
    let moved = format!(" WHERE NOT (OLD.{key} IS NEW.{key}{same})");
    let changed = if plan.only_keys { String::new() } else { format!("{} ", tell("2", "NEW", &new, &stayed)) };
    let update = format!("{changed}{} {}", tell("3", "OLD", &old, &moved), tell("1", "NEW", &new, &moved));
    let bodies = [
        ("insert", "INSERT", tell("1", "NEW", &new, "")),
        ("update", "UPDATE", update),
        ("delete", "DELETE", tell("3", "OLD", &old, "")),
    ];
    bodies.map(|(ending, event, body)| {
        let name = names.part(ending);
        let sql = format!("CREATE TRIGGER {} AFTER {event} ON {} BEGIN {body} END", quote(&name), table.quoted);
        (name, sql)
    })
}

/// What is known of the feed of a table, if it is there and whole.
pub(super) fn look(connection: &Connection, table: &Table, names: &Names) -> Result<About> {
    let doing = |error: rusqlite::Error| failed("looking at the feed", &error);
    let known = |name: &str, kind: &str| {
        connection
            .query_row(
                "SELECT tbl_name, sql FROM main.sqlite_schema WHERE type = ?1 AND name = ?2",
                [kind, name],
                |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
            )
            .optional()
    };
    for name in [&names.about, &names.outbox, &names.readers] {
        if known(name, "table").map_err(doing)?.is_none() {
            return Err(not_whole(&table.name, format!("there is no table {name}")));
        }
    }
    let sql = format!("SELECT installation, version, key, tenant, only_keys FROM main.{}", quote(&names.about));
    let about = connection
        .query_row(&sql, [], |row| {
            let (version, key): (i64, String) = (row.get(1)?, row.get(2)?);
            Ok((version, About { installation: row.get(0)?, key, tenant: row.get(3)?, only_keys: row.get(4)? }))
        })
        .optional()
        .map_err(doing)?;
    let Some((version, about)) = about else {
        return Err(not_whole(&table.name, format!("{} is empty", names.about)));
    };
    if version != VERSION {
        return Err(other_form(&table.name, version, VERSION));
    }
    if about.key != table.key {
        return Err(not_whole(&table.name, format!("it is one for the column {}, not for {}", about.key, table.key)));
    }
    if let Some(tenant) = &about.tenant
        && !table.columns(connection)?.iter().any(|column| column.name == *tenant)
    {
        return Err(lacks_tenant(&table.name, tenant));
    }
    for (name, sql) in triggers(table, names, &about) {
        match known(&name, "trigger").map_err(doing)? {
            Some((on, found)) if on == table.name && found == sql => {}
            Some(_) => return Err(not_whole(&table.name, format!("the trigger {name} is not as it was made"))),
            None => return Err(not_whole(&table.name, format!("the trigger {name} is missing"))),
        }
    }
    Ok(about)
}

/// The statements that remove whatever is there of a feed.
fn removal(names: &Names) -> Vec<String> {
    let triggers = ["insert", "update", "delete"].map(|ending| names.part(ending));
    let triggers = triggers.iter().map(|name| format!("DROP TRIGGER IF EXISTS {}", quote(name)));
    let tables = [&names.outbox, &names.readers, &names.about];
    triggers.chain(tables.map(|name| format!("DROP TABLE IF EXISTS {}", quote(name)))).collect()
}

/// The statements that make a feed.
fn creation(table: &Table, names: &Names, about: &About) -> Vec<String> {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (outbox, readers, of) = (quote(&names.outbox), quote(&names.readers), quote(&names.about));
    let tenant = about.tenant.as_deref().map_or("NULL".to_owned(), text);
    let mut sql = vec![
        format!(
            "CREATE TABLE {outbox} (id INTEGER PRIMARY KEY AUTOINCREMENT, nonce INTEGER NOT NULL, kind INTEGER NOT NULL, key, \
             tenant)"
        ),
        format!(
            "CREATE TABLE {readers} (name TEXT PRIMARY KEY, kept INTEGER NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID"
        ),
        format!("CREATE TABLE {of} (installation TEXT, version INTEGER, key TEXT, tenant TEXT, only_keys INTEGER)"),
        format!(
            "INSERT INTO {of} VALUES ({}, {VERSION}, {}, {tenant}, {})",
            text(&about.installation),
            text(&about.key),
            i64::from(about.only_keys)
        ),
        // There is always a row to begin after.
        format!("INSERT INTO {outbox} (nonce, kind) VALUES (random(), 0)"),
    ];
    sql.extend(triggers(table, names, about).map(|(_, trigger)| trigger));
    sql
}

fn open(path: &Path) -> Result<Connection> {
    let place = Place::new(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))?;
    Ok(writer(&place)?.connection)
}

fn run(connection: &mut Connection, doing: &str, sql: &[String]) -> Result<()> {
    let said = |error: rusqlite::Error| failed(doing, &error);
    let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(said)?;
    for statement in sql {
        writing.execute(statement, []).map_err(said)?;
    }
    writing.commit().map_err(said)
}

pub(super) fn install(path: &Path, table: &str, key: &str, plan: &FeedPlan, only_tell: bool) -> Result<FeedWork> {
    let mut connection = open(path)?;
    let table = Table::find(&connection, table, key, None)?;
    let names = Names::of(&table.name);
    if !plan.readers.is_empty() {
        let message = "SQLite has no roles: whoever may write the file may follow the feed";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let columns = table.columns(&connection)?;
    let tenant = match &plan.tenant {
        Some(name) => match columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)) {
            Some(column) => Some(column.name.clone()),
            None => return Err(unknown_column(name, columns.iter().map(|column| column.name.as_str()))),
        },
        None => None,
    };
    let installation = crate::keeping::new_reader()?;
    let about = About { installation, key: table.key.clone(), tenant, only_keys: plan.only_keys };
    if let Ok(found) = look(&connection, &table, &names)
        && (About { installation: found.installation.clone(), ..about.clone() }) == found
    {
        return Ok(FeedWork { changed: false, outbox: names.outbox, sql: Vec::new() });
    }
    let sql: Vec<String> = removal(&names).into_iter().chain(creation(&table, &names, &about)).collect();
    if !only_tell {
        run(&mut connection, "installing the feed", &sql)?;
        // As SQLite keeps it, and not only as we wrote it.
        look(&connection, &table, &names)?;
    }
    Ok(FeedWork { changed: true, outbox: names.outbox, sql })
}

pub(super) fn remove(path: &Path, table: &str, only_tell: bool) -> Result<FeedWork> {
    let mut connection = open(path)?;
    // The table may be gone, or spelled otherwise.
    let spelled: Option<String> = connection
        .query_row(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
            [table],
            |row| row.get(0),
        )
        .optional()
        .map_err(|error| failed("reading the schema", &error))?;
    let names = Names::of(spelled.as_deref().unwrap_or(table));
    let parts = format!("{}_", names.outbox);
    let found: i64 = connection
        .query_row(
            "SELECT count(*) FROM main.sqlite_schema WHERE name = ?1 OR substr(name, 1, length(?2)) = ?2",
            [&names.outbox, &parts],
            |row| row.get(0),
        )
        .map_err(|error| failed("reading the schema", &error))?;
    let sql = if found == 0 { Vec::new() } else { removal(&names) };
    if !only_tell && found > 0 {
        run(&mut connection, "removing the feed", &sql)?;
    }
    Ok(FeedWork { changed: found > 0, outbox: names.outbox, sql })
}
