//! Installs and removes the feed of a table: an outbox, and a trigger that fills it in the writer's own transaction.
//!
//! A row of the outbox has the number of the transaction that wrote it (`xid8`, 64 bits, never used twice), which says
//! later whether a snapshot could see it. The function runs with the rights of who installed it, so that writers need none
//! on the outbox, and the trigger fires always, in sessions that replay the changes of another server too.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::catalogue::{Table, quote, relation};
use super::connections::Connections;
use super::wire::Wire;
use super::{Said, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{FeedPlan, FeedWork, Names, not_whole};
use crate::sources::object::unknown_column;

/// The form of the outbox.
const VERSION: i32 = 1;
/// The first server that numbers transactions with 64 bits.
const LEAST_SERVER: i32 = 130_000;

/// The parts of a feed, quoted, with their schema.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub names: Names,
    pub outbox: String,
    pub readers: String,
    pub about: String,
    pub function: String,
    /// The function's own name.
    pub told_by: String,
}

impl Parts {
    pub fn of(schema: &str, table: &str) -> Self {
        let names = Names::of(table);
        let within = |name: &str| format!("{}.{}", quote(schema), quote(name));
        let told_by = names.part("tell");
        Self {
            outbox: within(&names.outbox),
            readers: within(&names.readers),
            about: within(&names.about),
            function: within(&told_by),
            told_by,
            names,
        }
    }
}

/// What a feed's own table says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct About {
    key: String,
    tenant: Option<String>,
    only_keys: bool,
}

/// The body of the function.
fn body(parts: &Parts, about: &About) -> String {
    let (outbox, key) = (&parts.outbox, quote(&about.key));
    let tell = |kind: i32, row: &str| {
        let (also, tenant) = match &about.tenant {
            Some(column) => (", tenant", format!(", {row}.{}::pg_catalog.text", quote(column))),
            None => ("", String::new()),
        };
        format!("INSERT INTO {outbox} (kind, key{also}) VALUES ({kind}, {row}.{key}{tenant});")
    };
    let changed = if about.only_keys { "NULL;".to_owned() } else { tell(2, "NEW") };
    format!(
        "
BEGIN
  IF TG_OP = 'INSERT' THEN
    {}
  ELSIF TG_OP = 'DELETE' THEN
    {}
  ELSIF TG_OP = 'TRUNCATE' THEN
    INSERT INTO {outbox} (kind) VALUES (4);
  ELSIF OLD.{key} IS NOT DISTINCT FROM NEW.{key} THEN
    {changed}
  ELSE
    {}
    {}
  END IF;
  RETURN NULL;
END",
        tell(1, "NEW"),
        tell(3, "OLD"),
        tell(3, "OLD"),
        tell(1, "NEW"),
    )
}

/// A table and everything below it whose rows it shows: partitions, and children that inherit from it. `$1` is its name.
pub(super) const PARTS: &str = "part AS (
    SELECT pg_catalog.to_regclass($1)::pg_catalog.oid AS oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN part ON i.inhparent = part.oid
)";

/// What is wrong with the parts of a table (`$1`), as far as the trigger of this function (`$2`, `$3`: schema and name) goes:
/// the name of one that lacks it (29: for each row, after INSERT, UPDATE and DELETE), of one whose rows no trigger can tell.
const LACKING: &str = "
    SELECT c.relname::text, c.relkind::text,
           c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid) AS has_children,
           EXISTS (SELECT FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS f ON f.oid = t.tgfoid
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
                   WHERE t.tgrelid = c.oid AND t.tgtype = 29 AND t.tgqual IS NULL AND t.tgenabled = 'A'
                     AND n.nspname = $2 AND f.proname = $3) AS has_trigger
    FROM part JOIN pg_catalog.pg_class AS c ON c.oid = part.oid";

/// Refuses a feed that is not whole.
pub(super) async fn look(client: &Client, table: &Table, parts: &Parts) -> Result<()> {
    look_at(client, table, parts).await.map(drop)
}

async fn look_at(client: &Client, table: &Table, parts: &Parts) -> Result<About> {
    let missing = |why: String| not_whole(&table.name, why);
    let sql = format!(
        "SELECT version, key, tenant, only_keys,
                xmin::pg_catalog.text::pg_catalog.int8 = installed::pg_catalog.text::pg_catalog.numeric % 4294967296 FROM {}",
        parts.about
    );
    let found = match client.query_opt(&sql, &[]).await {
        Ok(found) => found,
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
            return Err(missing(format!("there is no table {}", parts.names.about)));
        }
        Err(error) => return Err(failed("looking at the feed", &error)),
    };
    let Some(row) = found else { return Err(missing(format!("{} is empty", parts.names.about))) };
    let read = || -> Said<_> {
        let about = About { key: row.try_get(1)?, tenant: row.try_get(2)?, only_keys: row.try_get(3)? };
        Ok((row.try_get::<_, i32>(0)?, about, row.try_get::<_, bool>(4)?))
    };
    let (version, about, original) = read().map_err(|error| failed("looking at the feed", &error))?;
    if version != VERSION || about.key != table.key {
        let other = format!("it is one of version {version} for the column {}, not for {}", about.key, table.key);
        return Err(missing(other));
    }
    if !original {
        // The numbers of its transactions are those of another server.
        return Err(missing("it was copied here from another database".into()));
    }
    let sql = "SELECT f.prosrc, f.prosecdef FROM pg_catalog.pg_proc AS f
               JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace WHERE n.nspname = $1 AND f.proname = $2";
    let function = client.query_opt(sql, &[&table.schema, &parts.told_by]).await;
    let function = function.map_err(|error| failed("looking at the feed", &error))?;
    let is_ours = function.is_some_and(|row| {
        row.try_get::<_, String>(0).is_ok_and(|source| source == body(parts, &about))
            && row.try_get::<_, bool>(1).unwrap_or(false)
    });
    if !is_ours {
        return Err(missing(format!("the function {} is missing, or not as it was made", parts.told_by)));
    }
    check_parts(client, table, parts, true).await?;
    Ok(about)
}

/// Looks whether triggers can tell of every row of a table, and (`installed`) whether they do.
async fn check_parts(client: &Client, table: &Table, parts: &Parts, installed: bool) -> Result<Vec<String>> {
    let sql = format!("WITH RECURSIVE {PARTS} {LACKING}");
    let rows = client.query(&sql, &[&table.quoted, &table.schema, &parts.told_by]).await;
    let rows = rows.map_err(|error| failed("looking at the feed", &error))?;
    let mut names = Vec::new();
    for row in &rows {
        let read = || -> Said<_> {
            Ok((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?, row.try_get(2)?, row.try_get(3)?))
        };
        let (name, kind, has_children, has_trigger): (String, String, bool, bool) =
            read().map_err(|error| failed("looking at the feed", &error))?;
        if kind == "f" {
            let message = format!(
                "{name} is a foreign table: what is written there no trigger here tells of; {} has no feed",
                table.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if has_children {
            let message = format!(
                "tables inherit from {name}, and its triggers do not tell of their rows: {} has no feed while they do",
                table.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if installed && !has_trigger {
            return Err(not_whole(&table.name, format!("{name} has no trigger of it that fires always")));
        }
        names.push(name);
    }
    if names.is_empty() {
        return Err(not_whole(&table.name, "the table is gone"));
    }
    Ok(names)
}

fn removal(parts: &Parts) -> Vec<String> {
    let mut sql = vec![format!("DROP FUNCTION IF EXISTS {}() CASCADE", parts.function)];
    sql.extend([&parts.outbox, &parts.readers, &parts.about].map(|name| format!("DROP TABLE IF EXISTS {name}")));
    sql
}

/// The type of the keys in the outbox: that of the column, without a length.
pub(super) fn key_type(wire: Wire) -> &'static str {
    match wire {
        Wire::Int2 => "pg_catalog.int2",
        Wire::Int4 => "pg_catalog.int4",
        Wire::Int8 => "pg_catalog.int8",
        Wire::Text => "pg_catalog.text",
        Wire::Padded => "pg_catalog.bpchar",
        Wire::Uuid => "pg_catalog.uuid",
        Wire::Bytea => "pg_catalog.bytea",
        Wire::Numeric => "pg_catalog.numeric",
    }
}

fn creation(table: &Table, parts: &Parts, about: &About) -> Vec<String> {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let Parts { outbox, readers, about: of, function, names, .. } = parts;
    let (key_type, on) = (key_type(table.wire), &table.quoted);
    let (rows, emptied) = (quote(&names.part("rows")), quote(&names.part("emptied")));
    vec![
        format!(
            "CREATE TABLE {outbox} (xid pg_catalog.xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(), \
             kind pg_catalog.int2 NOT NULL, key {key_type}, tenant pg_catalog.text)"
        ),
        format!("CREATE INDEX ON {outbox} (xid)"),
        format!(
            "CREATE TABLE {readers} (name pg_catalog.text PRIMARY KEY, place pg_catalog.text NOT NULL, kept pg_catalog.text, \
             shape pg_catalog.text NOT NULL, until pg_catalog.timestamptz NOT NULL)"
        ),
        format!(
            "CREATE TABLE {of} (version pg_catalog.int4 NOT NULL, key pg_catalog.text NOT NULL, tenant pg_catalog.text, \
             only_keys pg_catalog.bool NOT NULL, installed pg_catalog.xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id())"
        ),
        format!(
            "INSERT INTO {of} (version, key, tenant, only_keys) VALUES ({VERSION}, {}, {}, {})",
            text(&about.key),
            about.tenant.as_deref().map_or("NULL".to_owned(), text),
            about.only_keys
        ),
        format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER \
             SET search_path = pg_catalog, pg_temp AS {}",
            text(&body(parts, about))
        ),
        // Waits for whoever has written to the table: every transaction that commits later has fired it.
        format!(
            "CREATE TRIGGER {rows} AFTER INSERT OR UPDATE OR DELETE ON {on} FOR EACH ROW EXECUTE FUNCTION {function}()"
        ),
        format!("CREATE TRIGGER {emptied} AFTER TRUNCATE ON {on} FOR EACH STATEMENT EXECUTE FUNCTION {function}()"),
        format!("ALTER TABLE {on} ENABLE ALWAYS TRIGGER {rows}, ENABLE ALWAYS TRIGGER {emptied}"),
    ]
}

/// What lets roles follow the feed.
fn grants(parts: &Parts, roles: &[String]) -> Vec<String> {
    let Parts { outbox, readers, about, .. } = parts;
    let each = |role: &String| {
        let role = quote(role);
        [
            format!("GRANT SELECT, DELETE ON {outbox} TO {role}"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {readers} TO {role}"),
            format!("GRANT SELECT ON {about} TO {role}"),
        ]
    };
    roles.iter().flat_map(each).collect()
}

/// The statements that make the trigger fire always in partitions too: before PostgreSQL 15 those of the table do not.
async fn for_partitions(client: &Client, table: &Table, parts: &Parts) -> Result<Vec<String>> {
    let sql = format!(
        "WITH RECURSIVE {PARTS} SELECT n.nspname::text, c.relname::text FROM part JOIN pg_catalog.pg_class AS c ON c.oid = part.oid
         JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid <> pg_catalog.to_regclass($1)"
    );
    let rows = client.query(&sql, &[&table.quoted]).await.map_err(|error| failed("looking at the feed", &error))?;
    let trigger = quote(&parts.names.part("rows"));
    rows.iter()
        .map(|row| {
            let names = row.try_get::<_, String>(0).and_then(|schema| Ok((schema, row.try_get::<_, String>(1)?)));
            let (schema, name) = names.map_err(|error| failed("looking at the feed", &error))?;
            Ok(format!("ALTER TABLE {}.{} ENABLE ALWAYS TRIGGER {trigger}", quote(&schema), quote(&name)))
        })
        .collect()
}

/// How long it waits for transactions that have written to the table. Meanwhile others wait behind it.
const LOCK: &str =
    "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '60s'; SET LOCAL client_min_messages = warning";

fn explained(doing: &str, table: &str, error: &tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        return Error::new(
            ErrorKind::Busy,
            format!(
                "{doing}: transactions that have written to {table} did not end within 10 s, and nothing was changed: try again \
                 at a quieter time, or look for them in pg_stat_activity"
            ),
        );
    }
    failed(doing, error)
}

async fn run(client: &mut Client, doing: &str, table: &str, sql: &[String]) -> Result<()> {
    let said = |error: tokio_postgres::Error| explained(doing, table, &error);
    let writing = client.transaction().await.map_err(said)?;
    writing.batch_execute(LOCK).await.map_err(said)?;
    for statement in sql {
        writing.batch_execute(statement).await.map_err(said)?;
    }
    writing.commit().await.map_err(said)
}

pub(super) async fn install(
    connections: &Connections,
    table: &str,
    key: &str,
    plan: &FeedPlan,
    only_tell: bool,
) -> Result<FeedWork> {
    let (mut client, task) = connections.watched(std::sync::Arc::default()).await?;
    let _ending = Ending(task);
    let table = Table::find(&client, table, key, None).await?;
    let parts = Parts::of(&table.schema, &table.bare);
    let server =
        client.query_one("SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4", &[]).await;
    let server: i32 =
        server.and_then(|row| row.try_get(0)).map_err(|error| failed("asking for its version", &error))?;
    if server < LEAST_SERVER {
        let message = format!(
            "the server has version {server}: a feed needs PostgreSQL 13, which numbers transactions with 64 bits"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if let Some(tenant) = &plan.tenant {
        let columns = table.columns(&client).await.map_err(|error| failed("reading the catalogue", &error))?;
        if !columns.iter().any(|column| column.name == *tenant) {
            return Err(unknown_column(tenant, columns.iter().map(|column| column.name.as_str())));
        }
    }
    let about = About { key: table.key.clone(), tenant: plan.tenant.clone(), only_keys: plan.only_keys };
    check_parts(&client, &table, &parts, false).await?;
    let grants = grants(&parts, &plan.readers);
    if look_at(&client, &table, &parts).await.is_ok_and(|found| found == about) {
        // Rights are given again without harm: no gate notices.
        if !only_tell && !grants.is_empty() {
            run(&mut client, "PostgreSQL, giving rights on the feed", &table.name, &grants).await?;
        }
        return Ok(FeedWork { changed: false, outbox: parts.names.outbox, sql: grants });
    }
    let mut sql = removal(&parts);
    sql.extend(creation(&table, &parts, &about));
    sql.extend(for_partitions(&client, &table, &parts).await?);
    sql.extend(grants);
    if !only_tell {
        run(&mut client, "PostgreSQL, installing the feed", &table.name, &sql).await?;
        look(&client, &table, &parts).await?;
    }
    Ok(FeedWork { changed: true, outbox: parts.names.outbox, sql })
}

pub(super) async fn remove(connections: &Connections, table: &str, only_tell: bool) -> Result<FeedWork> {
    let (mut client, task) = connections.watched(std::sync::Arc::default()).await?;
    let _ending = Ending(task);
    let (_, schema, name, _) = relation(&client, table).await?;
    let parts = Parts::of(&schema, &name);
    let sql = "SELECT pg_catalog.to_regclass($1) IS NOT NULL OR pg_catalog.to_regclass($2) IS NOT NULL
               OR pg_catalog.to_regproc($3) IS NOT NULL";
    let found = client.query_one(sql, &[&parts.outbox, &parts.about, &parts.function]).await;
    let found: bool = found.and_then(|row| row.try_get(0)).map_err(|error| failed("looking for the feed", &error))?;
    let sql = if found { removal(&parts) } else { Vec::new() };
    if found && !only_tell {
        run(&mut client, "PostgreSQL, removing the feed", table, &sql).await?;
    }
    Ok(FeedWork { changed: found, outbox: parts.names.outbox, sql })
}

/// Ends a connection with what it was made for.
pub(super) struct Ending(pub tokio::task::AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}
