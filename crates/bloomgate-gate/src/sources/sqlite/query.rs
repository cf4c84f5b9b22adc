//! The keys that a query to a SQLite file gives, for a gate before a service that keeps its rows there: they are listed by
//! the query, and asked for by the query. Nothing is written here.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::place::Place;
use super::rows::Asked;
use super::scanning::{self, Scanned, class};
use super::threads::Threads;
use super::{READERS, failed, reader, still_there};
use crate::Pending;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::sources::{Footing, Scan, Source};

/// The keys that a query gives.
///
/// The file should be in WAL mode: in others a scan holds up whoever writes to it.
#[derive(Debug)]
pub struct SqliteQuery {
    place: Arc<Place>,
    query: Arc<Query>,
    readers: Threads,
}

#[derive(Debug)]
struct Query {
    sql: String,
    key_type: KeyType,
}

impl SqliteQuery {
    /// Opens an existing file for a query that gives one column, the keys: `SELECT sku FROM products`. SQLite does not know the
    /// types of what a query gives, so it is told: text, integers of 64 bits or bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for what is no such query, [`ErrorKind::Unsupported`] for another type, [`ErrorKind::Source`]
    /// for a file that cannot be read.
    pub fn open(path: impl AsRef<Path>, query: &str, key_type: KeyType) -> Result<Self> {
        if !matches!(key_type, KeyType::Text | KeyType::Integer { .. } | KeyType::Bytes) {
            let message = format!("SQLite has no keys of the type {key_type}: say text, integer or bytes");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let path = path.as_ref();
        let place = Place::new(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()))?;
        let query = Query { sql: query.trim().trim_end_matches(';').trim_end().to_owned(), key_type };
        let readers = (0..READERS).map(|_| reader(&place)).collect::<Result<Vec<_>>>()?;
        if let Some(first) = readers.first() {
            query.check(&first.connection)?;
        }
        let readers = Threads::start("sqlite-query", readers).map_err(|error| {
            Error::new(ErrorKind::Source, format!("no thread for SQLite could be started: {error}"))
        })?;
        Ok(Self { place: Arc::new(place), query: Arc::new(query), readers })
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection, &Query) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (place, query) = (self.place.clone(), self.query.clone());
        let done = self.readers.run(true, move |open| {
            if place.look()? != open.file {
                *open = reader(&place)?;
            }
            let done = job(&open.connection, &query)?;
            // The service may have gone over to WAL mode: this read has opened its log then, and nothing keeps it open but
            // connections like this one. What was read of a file that is gone is no answer.
            still_there(&place, open.file)?;
            Ok(done)
        });
        done.await.unwrap_or_else(|| Err(Error::new(ErrorKind::Source, "the threads that read SQLite have ended")))
    }
}

impl Query {
    /// The query as a table `"bloomgate asked"` with the column `key`, for a statement about it. The query reads tables of any
    /// name, and one of this name would be taken for itself.
    fn about(&self, statement: &str) -> String {
        format!("WITH \"bloomgate asked\"(key) AS ({}) {statement}", self.sql)
    }

    fn find(&self, connection: &Connection, key: &Key) -> Result<Option<Bytes>> {
        let doing = |error: rusqlite::Error| failed("asking for a key", &error);
        let sql = self.about("SELECT 1 FROM \"bloomgate asked\" AS asked WHERE asked.key = ?1 LIMIT 1");
        let mut statement = connection.prepare_cached(&sql).map_err(doing)?;
        let asked = Asked { key_type: self.key_type, key };
        let found = statement.query_row([asked], |_| Ok(())).optional().map_err(doing)?;
        Ok(found.map(|()| Bytes::from_static(b"{}")))
    }
}

impl Scanned for Query {
    fn sql(&self) -> String {
        self.about("SELECT key FROM \"bloomgate asked\"")
    }

    fn key_type(&self) -> KeyType {
        self.key_type
    }

    fn check(&self, connection: &Connection) -> Result<()> {
        let refused = |why: &dyn std::fmt::Display| {
            let message = format!("the query of the keys is refused, {why}: write one like SELECT sku FROM products");
            Error::new(ErrorKind::Invalid, message)
        };
        // Within parentheses it can be nothing but a question.
        let statement = connection.prepare(&self.sql()).map_err(|error| refused(&error))?;
        match statement.readonly() {
            true => Ok(()),
            false => Err(refused(&"it changes something")),
        }
    }

    fn stray(&self, value: ValueRef<'_>) -> Error {
        let (found, class) = (value.data_type().to_string().to_lowercase(), class(self.key_type));
        let message =
            format!("the query gives a key of the type {found} where {class} was said: say --key-type {found}");
        Error::new(ErrorKind::Unsupported, message)
    }
}

fn unwritten() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the keys come from a query: nothing is written there, but by the service itself",
    )
}

impl Source for SqliteQuery {
    fn describe(&self) -> String {
        format!("sqlite query {} of {}", self.query.sql, self.place.path.display())
    }

    fn key_type(&self) -> KeyType {
        self.query.key_type
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move {
            self.query.key_type.check(key)?;
            let key = key.clone();
            self.read(move |connection, query| query.find(connection, &key)).await
        })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            keys.iter().try_for_each(|key| self.query.key_type.check(key))?;
            let keys = keys.to_vec();
            self.read(move |connection, query| keys.iter().map(|key| query.find(connection, key)).collect()).await
        })
    }

    fn put_many<'a>(&'a self, _: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Err(unwritten())))
    }

    fn delete<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(std::future::ready(Err(unwritten())))
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(self.read(|connection, query| {
            let count: i64 = connection
                .query_row(&query.about("SELECT count(key) FROM \"bloomgate asked\""), [], |row| row.get(0))
                .map_err(|error| failed("counting keys", &error))?;
            Ok(u64::try_from(count).unwrap_or_default())
        }))
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(scanning::begin_query(self.place.clone(), self.query.clone()))
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.place.footing)
    }

    fn look_around(&self) -> Pending<'_, Result<()>> {
        // With a read: a connection that has the log open keeps it there, and its number from going to another one, for as
        // long as it is remembered whose it is.
        Box::pin(self.read(|connection, _| {
            let looked = connection.query_row("SELECT count(*) FROM main.sqlite_schema", [], |_| Ok(()));
            looked.map_err(|error| failed("looking at the file", &error))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::KeyBatch;

    #[tokio::test]
    async fn keys_are_listed_and_asked_for_by_the_query() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let database = Connection::open(&file).unwrap();
        database
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE products (id INTEGER, sku TEXT, sold INTEGER);
                 INSERT INTO products VALUES (1, 'a', 0), (2, 'b', 1), (3, 'c', 0), (4, NULL, 0)",
            )
            .unwrap();
        let source = SqliteQuery::open(&file, "SELECT sku FROM products WHERE sold = 0;", KeyType::Text).unwrap();
        let (mut scan, mut batch) = (source.scan().await.unwrap(), KeyBatch::default());
        assert!(scan.next(&mut batch).await.unwrap());
        assert_eq!(batch.iter().collect::<Vec<_>>(), [b"a", b"c"]);
        assert!(!scan.next(&mut batch).await.unwrap());
        assert_eq!(source.count().await.unwrap(), 2);
        let found = source.get_many(&["a".into(), "b".into(), "c".into()]).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        assert!(source.put_many(&[]).await.is_err() && source.delete(&"a".into()).await.is_err());
        let integers = SqliteQuery::open(&file, "SELECT id FROM products", KeyType::Integer { bits: 64 }).unwrap();
        assert!(integers.get(&Key::from(4)).await.unwrap().is_some());
        // Tables of the names that statements here have for it.
        for name in ["q", "asked", "key", "\"bloomgate-asked\""] {
            database
                .execute_batch(&format!("CREATE TABLE {name} AS SELECT 'of ' || sku AS sku FROM products"))
                .unwrap();
            let named = SqliteQuery::open(&file, &format!("SELECT sku FROM {name}"), KeyType::Text).unwrap();
            assert_eq!(named.count().await.unwrap(), 3, "{name}");
            assert!(
                named.get(&"of a".into()).await.unwrap().is_some() && named.get(&"a".into()).await.unwrap().is_none()
            );
            let mut scan = named.scan().await.unwrap();
            assert!(scan.next(&mut batch).await.unwrap());
            assert_eq!(batch.iter().collect::<Vec<_>>(), [b"of a", b"of b", b"of c"]);
        }
        let wrong = SqliteQuery::open(&file, "SELECT id FROM products", KeyType::Text).unwrap();
        let mut scan = wrong.scan().await.unwrap();
        assert!(scan.next(&mut batch).await.unwrap_err().to_string().contains("--key-type integer"));
        for query in
            ["", "SELECT", "DELETE FROM products", "SELECT id, sku FROM products", "SELECT 1); DROP TABLE products; --"]
        {
            let error = SqliteQuery::open(&file, query, KeyType::Text).unwrap_err();
            assert!(error.to_string().contains("SELECT sku FROM products"), "{query}: {error}");
        }
        assert!(SqliteQuery::open(&file, "SELECT sku FROM products", KeyType::Uuid).is_err());
    }
}
