//! Keys from a query to a PostgreSQL server, row by row as they come, in a transaction that cannot write.
//!
//! There is no TLS in it: who needs it pipes `psql` into the command, and is told how. A password is never printed.

use std::time::Duration;

use ::postgres::fallible_iterator::FallibleIterator;
use ::postgres::types::{FromSql, Kind, Type};
use ::postgres::{Client, Config, Error, NoTls};

use super::feed::{Feed, Rows};
use crate::failure::Failure;

/// How long a server may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(15);

/// The rows of a query. `name` is the address without its password.
pub fn query(address: &str, name: &str, sql: &str, keep_empty: bool) -> Result<Feed, Failure> {
    refuse_tls(address, name, sql)?;
    let mut config: Config = address.parse().map_err(|error: Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        Failure::Message(format!(
            "{name}: this is no address of a server{cause}: write postgres://user@host:port/database, with % escapes \
             for signs in it such as %40 for @"
        ))
    })?;
    complete(&mut config);
    let client = config.connect(NoTls).map_err(|error| {
        let hint = if config.get_password().is_none() && says_password(&error) {
            ": set the environment variable PGPASSWORD"
        } else {
            ""
        };
        Failure::Message(format!("{name}: {}{hint}", tell(&error)))
    })?;
    let (name, sql) = (name.to_string(), sql.to_string());
    Feed::start(&name.clone(), "null", keep_empty, move |rows| read(client, &name, &sql, rows))
}

/// Refuses what asks for TLS.
fn refuse_tls(address: &str, name: &str, sql: &str) -> Result<(), Failure> {
    let options = address.split_once('?').map_or("", |(_, options)| options);
    let said = options.split('&').find_map(|option| option.strip_prefix("sslmode=")).map(String::from);
    let mode = said.or_else(|| std::env::var("PGSSLMODE").ok()).unwrap_or_default();
    if matches!(mode.as_str(), "require" | "verify-ca" | "verify-full") {
        return Err(Failure::Message(format!(
            "{name}: sslmode={mode} asks for TLS, which is not built in: use psql, as in `psql -Atc '{}' '{name}' | \
             bloomgate build ...`",
            sql.replace('\'', "'\\''")
        )));
    }
    Ok(())
}

/// What the address leaves out, as psql would find it.
fn complete(config: &mut Config) {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if config.get_password().is_none()
        && let Some(password) = said("PGPASSWORD")
    {
        config.password(password);
    }
    if config.get_user().is_none()
        && let Some(user) = said("PGUSER")
    {
        config.user(&user);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let socket = "/var/run/postgresql";
        let usual = if std::path::Path::new(socket).is_dir() { socket } else { "localhost" };
        config.host(said("PGHOST").as_deref().unwrap_or(usual));
    }
    if config.get_ports().is_empty()
        && let Some(port) = said("PGPORT").and_then(|port| port.parse().ok())
    {
        config.port(port);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    if config.get_application_name().is_none() {
        config.application_name("bloomgate");
    }
}

/// The message of the server where there is one, otherwise what went wrong on the way to it.
fn tell(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        let more = [said.detail(), said.hint()].into_iter().flatten().map(|more| format!(" ({more})"));
        return format!("{}: {}{}", said.severity(), said.message(), more.collect::<String>());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

fn says_password(error: &Error) -> bool {
    error.to_string().contains("password missing") || tell(error).contains("password")
}

/// How a column's values become keys.
enum Cell {
    Small,
    Int,
    Big,
    Oid,
    Bytes,
    Uuid,
}

fn cell(kind: &Type) -> Option<Cell> {
    Some(match *kind {
        Type::INT2 => Cell::Small,
        Type::INT4 => Cell::Int,
        Type::INT8 => Cell::Big,
        Type::OID => Cell::Oid,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::BYTEA | Type::JSON | Type::XML => Cell::Bytes,
        Type::UNKNOWN => Cell::Bytes,
        Type::UUID => Cell::Uuid,
        _ => match kind.kind() {
            Kind::Domain(inner) => return cell(inner),
            Kind::Enum(_) => Cell::Bytes,
            _ if kind.name() == "citext" => Cell::Bytes,
            _ => return None,
        },
    })
}

/// A value as it came.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn read(mut client: Client, name: &str, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
    let refuse = |error: Error| Failure::Message(format!("{name}: {}", tell(&error)));
    let mut transaction = client.build_transaction().read_only(true).start().map_err(refuse)?;
    let statement = transaction.prepare(sql).map_err(refuse)?;
    if statement.columns().is_empty() {
        return Err(Failure::Message(format!("{name}: the query gives no rows: write a SELECT")));
    }
    if !statement.params().is_empty() {
        return Err(Failure::Message(format!("{name}: the query has parameters ($1): write their values into it")));
    }
    let mut cells = Vec::new();
    for column in statement.columns() {
        cells.push(cell(column.type_()).ok_or_else(|| {
            Failure::Message(format!(
                "{name}: the column {} is of the type {}: a key is a text, an integer, bytea or uuid; say in the query how \
                 it is written, as with CAST({} AS text)",
                column.name(),
                column.type_(),
                column.name()
            ))
        })?);
    }
    let several = cells.len() > 1;
    let mut found = transaction.query_raw(&statement, std::iter::empty::<i32>()).map_err(refuse)?;
    while let Some(row) = found.next().map_err(refuse)? {
        for (at, cell) in cells.iter().enumerate() {
            let Some(Raw(raw)) = row.try_get::<_, Option<Raw<'_>>>(at).map_err(refuse)? else {
                rows.null();
                continue;
            };
            match push(cell, raw, several, rows) {
                Some(pushed) => pushed?,
                None => return Err(rows.refuse(format_args!("a value of {} bytes is of the wrong length", raw.len()))),
            }
        }
        rows.end()?;
        rows.next_row();
    }
    Ok(())
}

/// Pushes a value in the form that the server sends it; nothing if it has not the length of its type.
fn push(cell: &Cell, raw: &[u8], several: bool, rows: &mut Rows) -> Option<Result<(), Failure>> {
    match cell {
        Cell::Small => rows.integer(i16::from_be_bytes(raw.try_into().ok()?)),
        Cell::Int => rows.integer(i32::from_be_bytes(raw.try_into().ok()?)),
        Cell::Big => rows.integer(i64::from_be_bytes(raw.try_into().ok()?)),
        Cell::Oid => rows.integer(u32::from_be_bytes(raw.try_into().ok()?)),
        Cell::Bytes => return Some(rows.part(raw, several)),
        Cell::Uuid => return Some(rows.part(super::uuid_text(raw.try_into().ok()?).as_bytes(), several)),
    }
    Some(Ok(()))
}
