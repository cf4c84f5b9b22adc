//! Installs and removes the feed of a table: an outbox, and a trigger that fills it in the writer's own transaction.
//!
//! A row of the outbox has the number of the transaction that wrote it (`xid8`, 64 bits, never used twice), which says
//! later whether a snapshot could see it. The function runs with the rights of who installed it, so that writers need none
//! on the outbox, and the trigger fires always, in sessions that replay the changes of another server too.
//!
//! The outbox is watched over as well: a second function puts a row of its own kind into it when rows are changed there, or
//! deleted that some reader may not have read. Each reader finds that row like any other, whenever it comes to read.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::catalogue::{Table, in_sight, quote, relation};
use super::connections::Connections;
use super::wire::Wire;
use super::{Said, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{FeedPlan, FeedWork, Names, gap, lacks_tenant, not_whole, other_form};
use crate::sources::object::unknown_column;

/// The form of the outbox. Since 2 it tells when somebody deletes from it or changes it; since 3 a row that goes to another
/// tenant is told as one that goes and one that comes.
const VERSION: i32 = 3;
/// The kind of a row that says: rows of the outbox were deleted or changed by somebody who is no gate.
pub(super) const TAMPERED: i16 = 5;
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
    /// The function that watches over the outbox, and its own name.
    pub guard: String,
    pub guarded_by: String,
}

impl Parts {
    pub fn of(schema: &str, table: &str) -> Self {
        let names = Names::of(table);
        let within = |name: &str| format!("{}.{}", quote(schema), quote(name));
        let (told_by, guarded_by) = (names.part("tell"), names.part("guard"));
        Self {
            outbox: within(&names.outbox),
            readers: within(&names.readers),
            about: within(&names.about),
            function: within(&told_by),
            guard: within(&guarded_by),
            told_by,
            guarded_by,
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

/// The body of the function. What the outbox does not take, for a rule or a trigger that was there for a moment, is noted where
/// every reader looks; the write itself is never refused.
fn body(parts: &Parts, about: &About) -> String {
    let (outbox, of, key) = (&parts.outbox, &parts.about, quote(&about.key));
    // Not by the column's default, which somebody may change.
    let xid = "pg_catalog.pg_current_xact_id()";
    let or_note = format!("IF NOT FOUND THEN UPDATE {of} SET version = version; END IF;");
    let tell = |kind: i32, row: &str| {
        let (also, tenant) = match &about.tenant {
            Some(column) => (", tenant", format!(", {row}.{}::pg_catalog.text", quote(column))),
            None => ("", String::new()),
        };
        format!("INSERT INTO {outbox} (xid, kind, key{also}) VALUES ({xid}, {kind}, {row}.{key}{tenant}); {or_note}")
    };
    let changed = if about.only_keys { "NULL;".to_owned() } else { tell(2, "NEW") };
    // A row that goes to another tenant is gone for the one, and new for the other. Compared are the texts that are told, byte
    // by byte: some types know no equality, and some collations take two tenants for one.
    let same = about.tenant.as_ref().map_or(String::new(), |column| {
        let text = |row: &str| format!("{row}.{}::pg_catalog.text COLLATE pg_catalog.\"C\"", quote(column));
        format!(" AND {} IS NOT DISTINCT FROM {}", text("OLD"), text("NEW"))
    });
    format!(
        "
BEGIN
  IF TG_OP = 'INSERT' THEN
    {}
  ELSIF TG_OP = 'DELETE' THEN
    {}
  ELSIF TG_OP = 'TRUNCATE' THEN
    INSERT INTO {outbox} (xid, kind) VALUES ({xid}, 4); {or_note}
  ELSIF OLD.{key} IS NOT DISTINCT FROM NEW.{key}{same} THEN
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

/// The body of the function that watches over the outbox. What a gate clears away is older than the oldest place that is kept
/// there, so that every reader has it; whatever else is deleted, some reader may lack. Whose snapshot does not see a reader's
/// place deletes only rows that were committed before that reader began to scan, or its own, which are younger than any place.
fn guard(parts: &Parts) -> String {
    let Parts { outbox, readers, about, .. } = parts;
    format!(
        "
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF NOT EXISTS (
      SELECT FROM gone WHERE gone.xid >= COALESCE((
        SELECT pg_catalog.pg_snapshot_xmin(COALESCE(kept, place)::pg_catalog.pg_snapshot) AS oldest
        FROM {readers} ORDER BY oldest LIMIT 1), '0'::pg_catalog.xid8)
    ) THEN
      RETURN NULL;
    END IF;
  END IF;
  INSERT INTO {outbox} (xid, kind) VALUES (pg_catalog.pg_current_xact_id(), {TAMPERED});
  IF NOT FOUND THEN UPDATE {about} SET version = version; END IF;
  RETURN NULL;
END"
    )
}

/// A table and everything below it whose rows it shows: partitions, and children that inherit from it. `$1` is its name.
pub(super) const PARTS: &str = "part AS (
    SELECT pg_catalog.to_regclass($1)::pg_catalog.oid AS oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN part ON i.inhparent = part.oid
)";

/// What is wrong with the parts of a table (`$1`), as far as the trigger of this function (`$2`, `$3`: schema and name) goes:
/// the name of one that lacks it (29: for each row, after INSERT, UPDATE and DELETE; of the table itself, also 32: after
/// TRUNCATE), of one whose rows no trigger can tell.
const LACKING: &str = "
    SELECT c.relname::text, c.relkind::text,
           c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid) AS has_children,
           NOT EXISTS (
               SELECT FROM pg_catalog.unnest(ARRAY[29, 32]) AS needed(kind)
               WHERE (needed.kind = 29 OR c.oid = pg_catalog.to_regclass($1)) AND NOT EXISTS (
                   SELECT FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS f ON f.oid = t.tgfoid
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
                   WHERE t.tgrelid = c.oid AND t.tgtype = needed.kind AND t.tgqual IS NULL AND t.tgenabled = 'A'
                     AND pg_catalog.cardinality(t.tgattr::pg_catalog.int2[]) = 0
                     AND n.nspname = $2 AND f.proname = $3)) AS has_triggers
    FROM part JOIN pg_catalog.pg_class AS c ON c.oid = part.oid";

/// What may keep rows out of a feed's own tables (`$1`), or hide them there; and whether the outbox (`$2`) has both of the
/// triggers of its guard (`$3`, `$4`: schema and name; 8: after a statement that deletes, 16: after one that changes).
const HINDERED: &str = "
    SELECT c.relname::text, c.relkind = 'r' AND c.relpersistence = 'p' AS is_plain, c.relrowsecurity,
           EXISTS (SELECT FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = c.oid) AS has_rules,
           EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
                   WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype::pg_catalog.int4 & 2 = 2) AS has_triggers,
           c.oid = pg_catalog.to_regclass($2) AND EXISTS (
               SELECT FROM pg_catalog.unnest(ARRAY[8, 16]) AS needed(kind) WHERE NOT EXISTS (
                   SELECT FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS f ON f.oid = t.tgfoid
                   JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
                   WHERE t.tgrelid = c.oid AND t.tgtype = needed.kind AND t.tgqual IS NULL AND t.tgenabled = 'A'
                     AND pg_catalog.cardinality(t.tgattr::pg_catalog.int2[]) = 0
                     AND n.nspname = $3 AND f.proname = $4)) AS lacks_guard
    FROM pg_catalog.unnest($1::pg_catalog.text[]) AS given(name)
    JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(given.name)";

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
    if version != VERSION {
        return Err(other_form(&table.name, version.into(), VERSION.into()));
    }
    if about.key != table.key {
        return Err(missing(format!("it is one for the column {}, not for {}", about.key, table.key)));
    }
    if let Some(tenant) = &about.tenant {
        let columns = table.columns(client).await.map_err(|error| failed("looking at the feed", &error))?;
        if !columns.iter().any(|column| column.name == *tenant) {
            return Err(lacks_tenant(&table.name, tenant));
        }
    }
    let sql = "SELECT f.prosrc, f.prosecdef FROM pg_catalog.pg_proc AS f
               JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace WHERE n.nspname = $1 AND f.proname = $2";
    for (name, made) in [(&parts.told_by, body(parts, &about)), (&parts.guarded_by, guard(parts))] {
        let function = client.query_opt(sql, &[&table.schema, name]).await;
        let function = function.map_err(|error| failed("looking at the feed", &error))?;
        let is_ours = function.is_some_and(|row| {
            row.try_get::<_, String>(0).is_ok_and(|source| source == made) && row.try_get::<_, bool>(1).unwrap_or(false)
        });
        if !is_ours {
            return Err(missing(format!("the function {name} is missing, or not as it was made")));
        }
    }
    check_outbox(client, table, parts).await?;
    if !original {
        // The numbers of its transactions are those of another server.
        return Err(missing(
            "it was copied here from another database, or its outbox did not take a row for a while".into(),
        ));
    }
    in_sight(client, table.oid(), &table.name).await.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => gap(error.to_string()),
        _ => error,
    })?;
    check_parts(client, table, parts, true).await?;
    Ok(about)
}

/// Looks whether every row that is put into the feed's own tables is there, and whether it is noticed when one goes.
async fn check_outbox(client: &Client, table: &Table, parts: &Parts) -> Result<()> {
    let tables = [&parts.outbox, &parts.readers, &parts.about];
    let rows = client.query(HINDERED, &[&&tables[..], &parts.outbox, &table.schema, &parts.guarded_by]).await;
    let rows = rows.map_err(|error| failed("looking at the feed", &error))?;
    if rows.len() != tables.len() {
        return Err(not_whole(&table.name, "one of its tables is missing"));
    }
    for row in &rows {
        let read = || -> Said<(String, [bool; 5])> {
            let mut found = [false; 5];
            for (at, found) in found.iter_mut().enumerate() {
                *found = row.try_get(at + 1)?;
            }
            Ok((row.try_get(0)?, found))
        };
        let (name, [is_plain, has_row_security, has_rules, has_triggers, lacks_guard]) =
            read().map_err(|error| failed("looking at the feed", &error))?;
        let why = if !is_plain {
            "is no plain table that outlives a crash"
        } else if has_row_security {
            "has row security, which may hide its rows"
        } else if has_rules {
            "has a rule, which may keep rows out of it"
        } else if has_triggers {
            "has a trigger BEFORE a write, which may keep rows out of it"
        } else if lacks_guard {
            "lacks a trigger that notices what is deleted there and fires always"
        } else {
            continue;
        };
        return Err(not_whole(&table.name, format!("{name} {why}")));
    }
    Ok(())
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
        let (name, kind, has_children, has_triggers): (String, String, bool, bool) =
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
        if installed && !has_triggers {
            return Err(not_whole(&table.name, format!("{name} lacks a trigger of it that fires always")));
        }
        names.push(name);
    }
    if names.is_empty() {
        return Err(not_whole(&table.name, "the table is gone"));
    }
    Ok(names)
}

fn removal(parts: &Parts) -> Vec<String> {
    let functions = [&parts.function, &parts.guard];
    let mut sql: Vec<String> = functions.map(|name| format!("DROP FUNCTION IF EXISTS {name}() CASCADE")).into();
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
    let Parts { outbox, readers, about: of, function, guard: watched_by, names, .. } = parts;
    let (key_type, on) = (key_type(table.wire), &table.quoted);
    let [rows, emptied, deleted, changed] =
        ["rows", "emptied", "deleted", "changed"].map(|ending| quote(&names.part(ending)));
    let made = |function: &str, body: String| {
        format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER \
             SET search_path = pg_catalog, pg_temp AS {}",
            text(&body)
        )
    };
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
        made(watched_by, guard(parts)),
        // Of the whole statement: to clear away a hundred thousand rows is one question more.
        format!(
            "CREATE TRIGGER {deleted} AFTER DELETE ON {outbox} REFERENCING OLD TABLE AS gone \
             FOR EACH STATEMENT EXECUTE FUNCTION {watched_by}()"
        ),
        format!("CREATE TRIGGER {changed} AFTER UPDATE ON {outbox} FOR EACH STATEMENT EXECUTE FUNCTION {watched_by}()"),
        format!("ALTER TABLE {outbox} ENABLE ALWAYS TRIGGER {deleted}, ENABLE ALWAYS TRIGGER {changed}"),
        made(function, body(parts, about)),
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
