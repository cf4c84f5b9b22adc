//! The shop: products in a database, each with a number nobody can guess, and the rows that stand under them.
//!
//! Built before the runtime starts and removed after it ends: the file of SQLite with its folder, the table of
//! PostgreSQL by name.

use std::path::Path;

use memchr::memmem;

use super::mix::{Mix, Subject};
use crate::failure::Failure;
use crate::progress::Progress;

/// The table of the embedded database.
pub const TABLE: &str = "products";
/// The column that is looked up.
pub const COLUMN: &str = "sku";
/// Rows between two steps of the progress bar.
const STRIDE: usize = 1000;

/// A key. All have one length, and the order of the numbers.
pub fn key(number: u64) -> String {
    format!("sku-{number:016x}")
}

/// The row of a key as JSON. The version tells which write it is of.
pub fn row(key: &str, version: u64) -> String {
    let (name, price) = name_and_price(key);
    format!(r#"{{"sku":"{key}","name":"{name}","price":{price},"version":{version}}}"#)
}

fn name_and_price(key: &str) -> (String, u64) {
    let number = key.strip_prefix("sku-").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    (format!("Product {}", number % 1_000_003), number % 99_991 + 9)
}

/// Whether a row is of this key, however its database writes JSON.
pub fn is_of(row: &[u8], key: &str) -> bool {
    memmem::find(row, key.as_bytes()).is_some()
}

/// Which write a row is of.
pub fn version(row: &[u8]) -> Option<u64> {
    let row: serde_json::Value = serde_json::from_slice(row).ok()?;
    row.get("version")?.as_u64()
}

/// The numbers of the products in the order of their keys: a table is filled fastest so.
fn numbers(mix: &Mix) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..mix.products).map(|rank| mix.number(Subject::Standing(rank))).collect();
    numbers.sort_unstable();
    numbers
}

/// Makes the file of SQLite.
pub fn build_sqlite(path: &Path, mix: &Mix, quiet: bool) -> Result<(), Failure> {
    let progress = Progress::steps("building the catalogue", mix.products, quiet);
    let build = || -> rusqlite::Result<()> {
        let mut database = rusqlite::Connection::open(path)?;
        // Readers beside a writer; the file is thrown away, so no disk is waited for.
        database.pragma_update(None, "journal_mode", "wal")?;
        database.pragma_update(None, "synchronous", "off")?;
        database.execute_batch(
            "CREATE TABLE products (sku TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, price INTEGER NOT NULL,
                                    version INTEGER NOT NULL) WITHOUT ROWID",
        )?;
        let filling = database.transaction()?;
        {
            let mut insert = filling.prepare("INSERT INTO products VALUES (?1, ?2, ?3, 0)")?;
            for numbers in numbers(mix).chunks(STRIDE) {
                for &number in numbers {
                    let key = key(number);
                    let (name, price) = name_and_price(&key);
                    insert.execute((&key, name, price as i64))?;
                }
                progress.advance(numbers.len() as u64);
            }
        }
        filling.commit()?;
        database.pragma_update(None, "wal_checkpoint", "truncate").or_else(|error| match error {
            // It answers with a row, which is none of our business.
            rusqlite::Error::ExecuteReturnedResults => Ok(()),
            error => Err(error),
        })
    };
    build().map_err(|error| Failure::at(path, format_args!("building the catalogue: {error}")))
}

/// A table of PostgreSQL that is ours, and goes when this goes.
#[cfg(feature = "postgres")]
pub struct PostgresTable {
    client: postgres::Client,
    /// Its name, which no other table has.
    pub name: String,
    /// What our connections call themselves.
    application: String,
}

#[cfg(feature = "postgres")]
impl PostgresTable {
    /// Makes and fills the table.
    pub fn build(address: &str, mix: &Mix, quiet: bool) -> Result<Self, Failure> {
        use std::io::Write;

        let place = super::without_password(address);
        let failed = |error: postgres::Error| {
            Failure::Message(format!("building the catalogue in PostgreSQL at {place}: {}", told(&error)))
        };
        let mut client = postgres::Client::connect(address, postgres::NoTls).map_err(failed)?;
        let word = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let name = format!("bloomgate_attack_{}_{}", std::process::id(), word % 1_000_000_000);
        client
            .batch_execute(&format!(
                "CREATE TABLE {name} (sku text COLLATE \"C\" PRIMARY KEY, name text NOT NULL, price bigint NOT NULL,
                                      version bigint NOT NULL)"
            ))
            .map_err(failed)?;
        let mut table = Self { client, application: name.clone(), name };
        let progress = Progress::steps("building the catalogue", mix.products, quiet);
        let copy = format!("COPY {} FROM STDIN", table.name);
        let mut rows = table.client.copy_in(&copy).map_err(failed)?;
        for numbers in numbers(mix).chunks(STRIDE) {
            let mut lines = String::with_capacity(STRIDE * 64);
            for &number in numbers {
                let key = key(number);
                let (name, price) = name_and_price(&key);
                lines.push_str(&format!("{key}\t{name}\t{price}\t0\n"));
            }
            rows.write_all(lines.as_bytes())
                .map_err(|error| Failure::Message(format!("building the catalogue in PostgreSQL: {error}")))?;
            progress.advance(numbers.len() as u64);
        }
        rows.finish().map_err(failed)?;
        table.client.batch_execute(&format!("ANALYZE {}", table.name)).map_err(failed)?;
        Ok(table)
    }

    /// The address for the connections of the fronts: they carry a name by which their processes are found.
    pub fn address(&self, given: &str) -> String {
        let sign = if given.contains('?') { '&' } else { '?' };
        format!("{given}{sign}application_name={}", self.application)
    }

    /// Takes away the rows that were written since.
    pub fn reset(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::Message(format!("PostgreSQL: {}", told(&error)));
        self.client.batch_execute(&format!("DELETE FROM {} WHERE version > 0", self.name)).map_err(failed)
    }

    /// The processes at the other end of the fronts' connections.
    pub fn backends(&mut self) -> Vec<i32> {
        let question = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
        let rows = self.client.query(question, &[&self.application]).unwrap_or_default();
        rows.iter().filter_map(|row| row.try_get(0).ok()).collect()
    }
}

#[cfg(feature = "postgres")]
impl Drop for PostgresTable {
    fn drop(&mut self) {
        if let Err(error) = self.client.batch_execute(&format!("DROP TABLE IF EXISTS {}", self.name)) {
            crate::screen::note(format_args!("the table {} is still there: {}", self.name, told(&error)));
        }
    }
}

/// What the server said, not only that it said something.
#[cfg(feature = "postgres")]
fn told(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(reason) = cause {
        words = format!("{words}: {reason}");
        cause = reason.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tell_their_key_and_their_version() {
        let mix =
            Mix { seed: 1, products: 100, absent: 0.5, exponent: 1.0, writes: 0.0, coming_and_going: 0, workers: 1 };
        let keys: Vec<String> = numbers(&mix).into_iter().map(key).collect();
        assert!(keys.is_sorted() && keys.len() == 100 && keys.iter().all(|key| key.len() == 20));
        let row = row(&keys[0], 17);
        assert_eq!(version(row.as_bytes()), Some(17));
        assert!(is_of(row.as_bytes(), &keys[0]) && !is_of(row.as_bytes(), &keys[1]));
        assert_eq!((version(b"{\"version\": -1}"), version(b"{}"), version(b"no")), (None, None, None));
    }
}
