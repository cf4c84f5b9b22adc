//! A real PostgreSQL server in an empty folder, for whichever tests need one at the same time; the last one stops it.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

/// Who runs the server when we are root, which it refuses to be run by: `nobody`, on every Unix.
const NOBODY: u32 = 65534;

/// A server with its folder. Stopped when dropped.
pub struct Server {
    folder: tempfile::TempDir,
    child: Child,
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
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let made = tool("initdb", folder.path())
            .args(["--no-sync", "--auth=trust", "--username=tester", "--encoding=UTF8", "--no-locale", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // One user needs a password.
        let rules = "local all locked scram-sha-256\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        std::fs::write(data.join("server.crt"), certificate.cert.pem()).unwrap();
        let key = data.join("server.key");
        std::fs::write(&key, certificate.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        if is_root() {
            chown(&key, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        // Free a moment ago; nobody else here takes ports that are not given to him.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = tool("postgres", folder.path())
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
                "-c",
                "ssl=on",
                "-c",
                "max_connections=60",
                "-k",
            ])
            .arg(folder.path())
            .arg("-p")
            .arg(port.to_string())
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { folder, child, port, databases: AtomicU32::new(0) };
        let begin = Instant::now();
        let ready = |server: &Self| {
            let asked = tool("pg_isready", server.folder.path())
                .args(["-q", "-t", "1", "-d", &server.url("postgres")])
                .status();
            asked.unwrap().success()
        };
        while !ready(&server) {
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended");
            assert!(begin.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The address of a database behind the socket file.
    pub fn url(&self, database: &str) -> String {
        self.url_as("tester", database)
    }

    /// The same for another user (and perhaps a password, after a colon).
    pub fn url_as(&self, user: &str, database: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://{user}@{folder}:{}/{database}", self.port)
    }

    /// The address over TCP.
    pub fn tcp_url(&self, database: &str) -> String {
        format!("postgres://tester@127.0.0.1:{}/{database}", self.port)
    }

    /// The certificate that the server shows over TCP, made out to `localhost` by itself.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("data/server.crt")
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

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        // At once: there is nothing to keep.
        _ = tool("pg_ctl", self.folder.path()).args(["stop", "-s", "-m", "immediate", "-D"]).arg(data).status();
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// A program of PostgreSQL, from the path or from where Debian keeps them.
fn tool(name: &str, folder: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found: Option<PathBuf> = versions
        .map(|version| version.path().join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    let mut command = Command::new(found.unwrap_or_else(|| panic!("{name} is missing: install PostgreSQL")));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
