//! A real PostgreSQL server in an empty folder, for whichever tests need one at the same time; the last one stops it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_postgres::{Client, NoTls};

use crate::postgres_process::PostgresProcess;

/// A server. Stopped when dropped.
pub struct Server {
    process: PostgresProcess,
    port: u16,
    databases: AtomicU32,
}

impl Server {
    /// The server of this process: started by the first test, shared by those that run beside it.
    pub fn shared() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *running = Arc::downgrade(&server);
            server
        })
    }

    fn start() -> Self {
        // One user needs a password.
        let rules = "local all locked scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n";
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let files = [
            ("pg_hba.conf", rules.to_owned()),
            ("server.crt", certificate.cert.pem()),
            ("server.key", certificate.signing_key.serialize_pem()),
        ];
        // Free a moment ago; nobody else here takes ports that are not given to him.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = ["listen_addresses=127.0.0.1", "ssl=on", "max_connections=90", "max_prepared_transactions=5"];
        let process = PostgresProcess::start(port, &files, &settings);
        Self { process, port, databases: AtomicU32::new(0) }
    }

    /// The address of a database behind the socket file.
    pub fn url(&self, database: &str) -> String {
        self.url_as("tester", database)
    }

    /// The same for another user (and perhaps a password, after a colon).
    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}:{}/{database}", self.process.host(), self.port)
    }

    /// The address over TCP.
    pub fn tcp_url(&self, database: &str) -> String {
        format!("postgres://tester@127.0.0.1:{}/{database}", self.port)
    }

    /// The certificate that the server shows over TCP, made out to `localhost` by itself.
    pub fn certificate(&self) -> PathBuf {
        self.process.folder.path().join("data/server.crt")
    }

    /// A new database for one test, made by some SQL: its name and a connection of somebody else to it.
    pub async fn database(&self, sql: &str) -> (String, Client) {
        self.database_with("", sql).await
    }

    /// The same with options of `CREATE DATABASE`.
    pub async fn database_with(&self, options: &str, sql: &str) -> (String, Client) {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let client = self.client("postgres").await;
        client.batch_execute(&format!("CREATE DATABASE {name} {options}")).await.unwrap();
        let client = self.client(&name).await;
        client.batch_execute(sql).await.unwrap();
        (name, client)
    }

    /// A connection to a database.
    pub async fn client(&self, database: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}
