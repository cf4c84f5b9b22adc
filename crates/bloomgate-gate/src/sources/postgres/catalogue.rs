//! What the catalogue says of a table: where it is, what its key column is, and whether a filter can follow it.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tokio_postgres::types::{Oid, Type};
use tokio_postgres::{Client, Error as Trouble};

use super::failed;
use super::wire::Wire;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;
use crate::sources::object::unknown_column;

/// A table and its key column.
#[derive(Debug)]
pub(super) struct Table {
    /// Of the table that has the name now: it may be replaced.
    oid: AtomicU32,
    /// `shop.products`, quoted where it has to be.
    pub name: String,
    /// The same, always quoted.
    pub quoted: String,
    pub key: String,
    pub quoted_key: String,
    pub wire: Wire,
    kind: Kind,
    /// The schema's name and the table's own, as they are.
    pub schema: String,
    pub bare: String,
    /// The column that says whose a row is, if the table has tenants.
    pub tenant: Option<Tenancy>,
}

/// The column that says whose a row is.
#[derive(Debug)]
pub(super) struct Tenancy {
    pub name: String,
    pub quoted: String,
    pub wire: Wire,
    kind: Kind,
}

/// A column that rows can have.
#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    pub quoted: String,
    /// Its type as SQL writes it, `character varying(20)`.
    pub written: String,
}

/// What decides whether two values of a column are equal.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    /// The type, of a domain the one it is based on.
    base: Oid,
    collation: Oid,
}

/// A column with its type: domains are followed down to what they are based on.
const COLUMN: &str = "
    WITH RECURSIVE chain AS (
        SELECT a.attcollation, pg_catalog.format_type(a.atttypid, NULL) AS declared, t.oid, t.typname, t.typtype, t.typbasetype
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
        WHERE a.attrelid = $1 AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT chain.attcollation, chain.declared, t.oid, t.typname, t.typtype, t.typbasetype
        FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.typbasetype WHERE chain.typtype = 'd'
    )
    SELECT chain.oid, chain.typname::text, chain.declared, chain.attcollation, c.collname::text, c.collisdeterministic
    FROM chain LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = chain.attcollation WHERE chain.typtype <> 'd'";

impl Table {
    /// Looks a table, its key column and its tenant column up and checks that they can be gated.
    pub async fn find(client: &Client, table: &str, key_column: &str, tenant_column: Option<&str>) -> Result<Self> {
        let doing = |error: Trouble| failed("reading the catalogue", &error);
        let (oid, schema, name, relation) = relation(client, table).await?;
        let refused = |why: &str| Err(Error::new(ErrorKind::Unsupported, format!("{table} is {why}")));
        match relation.as_str() {
            "r" | "p" => {}
            "v" => return refused("a view, which no unique index can cover: give the table behind it"),
            "m" => {
                return refused("a materialized view, which changes without a write to it: give the table behind it");
            }
            "f" => return refused("a foreign table, which no unique index can cover: gate it in its own database"),
            _ => return refused("an index, a sequence or the like: give a table"),
        }
        let shown = if schema == "public" { plain(&name) } else { format!("{}.{}", plain(&schema), plain(&name)) };
        let quoted = format!("{}.{}", quote(&schema), quote(&name));
        in_sight(client, oid, &shown).await?;
        let (key, wire, kind) = gateable(client, oid, &shown, key_column).await?;
        let tenant = match tenant_column {
            None => None,
            Some(column) => {
                let (name, wire, kind) = gateable(client, oid, &shown, column).await?;
                Some(Tenancy { quoted: quote(&name), name, wire, kind })
            }
        };
        if tenant.as_ref().is_some_and(|tenant| tenant.name == key) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{shown}.{} is the key and the tenant at once: name two columns", plain(&key)),
            ));
        }
        let covered: Vec<&str> = tenant.iter().map(|tenant| tenant.name.as_str()).chain([key.as_str()]).collect();
        if !is_unique(client, oid, &covered).await.map_err(doing)? {
            let columns: Vec<String> = covered.iter().map(|name| quote(name)).collect();
            let on = format!("{quoted} ({})", columns.join(", "));
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{shown}.{}: no unique index covers it {} (a whole one: not partial, not deferrable, and of no table that \
                     others inherit from): run CREATE UNIQUE INDEX ON {on}",
                    plain(&key),
                    if tenant.is_some() { "and the tenant together" } else { "alone" },
                ),
            ));
        }
        for wire in tenant.iter().map(|tenant| tenant.wire).chain([wire]) {
            check_encoding(client, &shown, wire).await?;
        }
        Ok(Self {
            oid: AtomicU32::new(oid),
            name: shown,
            quoted,
            quoted_key: quote(&key),
            key,
            wire,
            kind,
            schema,
            bare: name,
            tenant,
        })
    }

    /// Where the row of a key is, as a condition: `$1` is the key, `$2` the tenant.
    pub fn is_row(&self, row: &str) -> String {
        let key = format!("{row}{} OPERATOR(pg_catalog.=) {}", self.quoted_key, self.wire.one("$1"));
        self.and_tenant(key, row)
    }

    /// Where the rows of many keys are: `$1` is an array of them, `$2` the tenant.
    pub fn is_any_row(&self, row: &str) -> String {
        let keys = format!("{row}{} OPERATOR(pg_catalog.=) ANY ({})", self.quoted_key, self.wire.many("$1"));
        self.and_tenant(keys, row)
    }

    fn and_tenant(&self, keys: String, row: &str) -> String {
        match &self.tenant {
            None => keys,
            Some(tenant) => {
                format!("{keys} AND {row}{} OPERATOR(pg_catalog.=) {}", tenant.quoted, tenant.wire.one("$2"))
            }
        }
    }

    /// The types of the parameters of such a condition, the first of them given.
    pub fn types(&self, first: Type) -> Vec<Type> {
        [first].into_iter().chain(self.tenant.as_ref().map(|tenant| tenant.wire.parameter())).collect()
    }

    /// The number of the table that has the name now, as far as was looked.
    pub fn oid(&self) -> Oid {
        self.oid.load(SeqCst)
    }

    /// Refuses to go on with a column that is not the one it was at the start. Another table of the same name with the same
    /// column is taken for the table from now on: the ground has moved.
    pub async fn check_again(&self, client: &Client, footing: &Footing) -> Result<()> {
        let doing = |error: Trouble| failed("reading the catalogue", &error);
        let sql =
            "SELECT c.oid, c.relkind::text FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass($1)";
        let Some(now) = client.query_opt(sql, &[&self.quoted]).await.map_err(doing)? else {
            let message = format!("the table {} is gone: somebody dropped or renamed it", self.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let (oid, relation): (Oid, String) = (now.try_get(0).map_err(doing)?, now.try_get(1).map_err(doing)?);
        in_sight(client, oid, &self.name).await?;
        let mut same = is_table(&relation);
        let tenant = self.tenant.iter().map(|tenant| (&tenant.name, &tenant.kind));
        for (name, kind) in [(&self.key, &self.kind)].into_iter().chain(tenant) {
            same &= match client.query_opt(COLUMN, &[&oid, name]).await.map_err(doing)? {
                Some(column) => check(&self.name, &column)?.1 == *kind,
                None => false,
            };
        }
        if !same {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{}.{}{} is not the column it was: it was dropped, or has another type or collation: start the gate anew",
                    self.name,
                    self.key,
                    self.tenant.as_ref().map(|tenant| format!(" (or {})", tenant.name)).unwrap_or_default()
                ),
            ));
        }
        if self.oid.swap(oid, SeqCst) != oid {
            footing.moved(format!("another table has the name {} now", self.name));
        }
        Ok(())
    }

    /// The columns as they are now.
    pub async fn columns(&self, client: &Client) -> std::result::Result<Vec<Column>, Trouble> {
        columns(client, self.oid()).await
    }
}

/// A column by its name, with what it is on the wire, if a filter can follow its equality.
async fn gateable(client: &Client, table: Oid, shown: &str, name: &str) -> Result<(String, Wire, Kind)> {
    let doing = |error: Trouble| failed("reading the catalogue", &error);
    // As it is written, or as SQL reads it without quotes.
    for name in [name.to_string(), name.to_lowercase()] {
        if let Some(column) = client.query_opt(COLUMN, &[&table, &name]).await.map_err(doing)? {
            let (wire, kind) = check(&format!("{shown}.{}", plain(&name)), &column)?;
            return Ok((name, wire, kind));
        }
    }
    let columns = columns(client, table).await.map_err(doing)?;
    Err(unknown_column(name, columns.iter().map(|column| column.name.as_str())))
}

/// Whether a key (of a tenant) is there at most once: an index covers these columns and no others, in any order. One that is
/// not valid, covers only some rows, or is checked at the end of a transaction does not see to that, nor does one of a table
/// whose children have rows of their own.
async fn is_unique(client: &Client, table: Oid, columns: &[&str]) -> std::result::Result<bool, Trouble> {
    let sql = "
        SELECT EXISTS (
            SELECT FROM pg_catalog.pg_index AS i
            WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate
              AND i.indpred IS NULL AND i.indexprs IS NULL
              AND i.indnkeyatts = pg_catalog.cardinality($2::pg_catalog.text[])
              AND (SELECT pg_catalog.count(DISTINCT a.attname) FROM pg_catalog.pg_attribute AS a
                   WHERE a.attrelid = i.indrelid AND a.attname::pg_catalog.text = ANY ($2)
                     AND a.attnum = ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1])) = i.indnkeyatts
        ) AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_inherits AS child JOIN pg_catalog.pg_class AS parent ON parent.oid = child.inhparent
            WHERE parent.oid = $1 AND parent.relkind = 'r'
        )";
    client.query_one(sql, &[&table, &columns]).await?.try_get(0)
}

/// The relation that a name means: as it is written, or as SQL reads it (`shop.products`, `"My Table"`).
pub(super) async fn relation(client: &Client, table: &str) -> Result<(Oid, String, String, String)> {
    let doing = |error: Trouble| failed("reading the catalogue", &error);
    for read in ["pg_catalog.quote_ident($1)", "$1"] {
        let sql = format!(
            "SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text
             FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
             WHERE c.oid = pg_catalog.to_regclass({read}::text)"
        );
        match client.query_opt(&sql, &[&table]).await {
            Ok(Some(row)) => {
                return Ok((
                    row.try_get(0).map_err(doing)?,
                    row.try_get(1).map_err(doing)?,
                    row.try_get(2).map_err(doing)?,
                    row.try_get(3).map_err(doing)?,
                ));
            }
            Ok(None) => {}
            // What is no name at all is no table either.
            Err(error) if super::was_refused(&error) => {}
            Err(error) => return Err(doing(error)),
        }
    }
    let near = "SELECT c.relname::text FROM pg_catalog.pg_class AS c WHERE c.relkind IN ('r', 'p')
                AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> 'pg_catalog'::regnamespace
                ORDER BY c.relname LIMIT 20";
    let near: Vec<String> = client.query(near, &[]).await.map_err(doing)?.iter().map(|row| row.get(0)).collect();
    let near = if near.is_empty() { "there are none".into() } else { format!("there are {}", near.join(", ")) };
    Err(Error::new(
        ErrorKind::Invalid,
        format!("the database has no table {table:?}: {near}; of another schema write schema.table"),
    ))
}

/// Refuses a table whose policies may hide rows from this role: no scan would find them, others see them, and an update that
/// brings one into sight is no write of a new key. By the server's own judgement, which knows owners and BYPASSRLS.
pub(super) async fn in_sight(client: &Client, table: Oid, shown: &str) -> Result<()> {
    let sql = "SELECT pg_catalog.row_security_active($1::pg_catalog.oid), CURRENT_USER::pg_catalog.text";
    let doing = |error: Trouble| failed("asking for row security", &error);
    let row = client.query_one(sql, &[&table]).await.map_err(doing)?;
    let (is_active, role): (Option<bool>, String) = (row.try_get(0).map_err(doing)?, row.try_get(1).map_err(doing)?);
    if is_active != Some(true) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{shown} has row security, which may hide rows from the role {0}: a filter of what it sees would say no to rows that \
             others see. Run ALTER ROLE {0} BYPASSRLS, or give the gate the role that owns the table (without FORCE ROW LEVEL \
             SECURITY)",
            plain(&role)
        ),
    ))
}

/// A table, one of several parts, or a view.
fn is_table(relation: &str) -> bool {
    matches!(relation, "r" | "p")
}

/// Refuses texts in an encoding to which PostgreSQL converts two different texts as one: U+00A6 and U+FFE4 are one sign in
/// EUC_JP, so the database finds a row by either, and the filter has only one. All other encodings of a server were tried
/// with every sign: they give back what they were given, or refuse it. (EUC_JIS_2004 has signs of two code points each,
/// which were not tried.)
async fn check_encoding(client: &Client, table: &str, wire: Wire) -> Result<()> {
    if !wire.is_text() {
        return Ok(());
    }
    let encoding = client.query_one("SELECT pg_catalog.current_setting('server_encoding')", &[]).await;
    let encoding: String =
        encoding.and_then(|row| row.try_get(0)).map_err(|error| failed("reading the encoding", &error))?;
    if !matches!(encoding.as_str(), "EUC_JP" | "EUC_JIS_2004") {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{table} is in a database with the encoding {encoding}, which takes some different texts for equal: gate a column \
             that is no text, or a database in UTF8"
        ),
    ))
}

/// What a column is on the wire, if the gate can follow its equality.
fn check(name: &str, column: &tokio_postgres::Row) -> Result<(Wire, Kind)> {
    let read = || -> std::result::Result<_, Trouble> {
        Ok((
            column.try_get(0)?,
            column.try_get(1)?,
            column.try_get(2)?,
            column.try_get(3)?,
            column.try_get(4)?,
            column.try_get(5)?,
        ))
    };
    let (base, type_name, declared, collation, collation_name, deterministic): (
        Oid,
        String,
        String,
        Oid,
        Option<String>,
        Option<bool>,
    ) = read().map_err(|error| failed("reading the catalogue", &error))?;
    let refuse = |why: &str| Err(Error::new(ErrorKind::Unsupported, format!("{name} is {declared}: {why}")));
    let Some(wire) = Wire::of(base) else {
        return refuse(match type_name.as_str() {
            "citext" => {
                "it takes texts that differ only in case for equal, by rules of the database that a filter does not have: \
                 gate a text column that holds lower(…), and ask in lower case"
            }
            "float4" | "float8" => {
                "floating-point numbers are equal in ways that their texts do not show: gate a numeric or an integer column"
            }
            _ => "gate a column of type smallint, integer, bigint, text, varchar, char, uuid, bytea or numeric",
        });
    };
    if deterministic == Some(false) {
        return refuse(&format!(
            "its collation {} is not deterministic, it takes different texts for equal: gate a column with another \
             collation, such as \"C\"",
            collation_name.unwrap_or_default()
        ));
    }
    Ok((wire, Kind { base, collation }))
}

async fn columns(client: &Client, table: Oid) -> std::result::Result<Vec<Column>, Trouble> {
    let sql = "SELECT attname::text, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
               WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let rows = client.query(sql, &[&table]).await?;
    rows.iter()
        .map(|row| {
            let name: String = row.try_get(0)?;
            Ok(Column { quoted: quote(&name), name, written: row.try_get(1)? })
        })
        .collect()
}

/// A name as SQL takes it, whatever signs it has.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name for people: quoted only where SQL would read it otherwise.
fn plain(name: &str) -> String {
    let simple = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if simple && !name.is_empty() { name.to_string() } else { quote(name) }
}
