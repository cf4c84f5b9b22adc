//! Connections to a server: made, set up, pooled, and given up when they fall silent.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_postgres::{
    Client, Connect, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Connection, Socket};

use super::address::Address;
use super::identity::Whereabouts;
use super::keeper::Hold;
use super::tls::{Session, Tls};
use super::{STATEMENT, failed, tell, was_refused};
use crate::error::{Error, ErrorKind, Result};

/// How long a caller waits for a connection of the pool.
const WAIT: Duration = Duration::from_secs(5);
/// How much longer than the server's own limit we wait for its answer.
const GRACE: Duration = Duration::from_secs(2);

/// Makes connections to one server.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    address: Address,
    /// Where they lead.
    pub whereabouts: Arc<Whereabouts>,
}

impl Connections {
    pub fn new(address: Address) -> Self {
        Self { address, whereabouts: Arc::default() }
    }

    /// A pool of at most so many of them.
    pub fn pool(&self, connections: usize) -> Result<Pool> {
        // A closed connection is known as such; asking each one before its use would double every lookup's wait.
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(self.address.config.clone(), self.clone(), config);
        let whereabouts = self.whereabouts.clone();
        let look = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let whereabouts = whereabouts.clone();
            Box::pin(async move { whereabouts.check_pooled(client).await.map_err(HookError::message) })
        });
        Pool::builder(manager)
            .max_size(connections)
            .post_create(look)
            .wait_timeout(Some(WAIT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::new(ErrorKind::Invalid, format!("a pool of {connections} connections: {error}")))
    }

    /// A connection of a pool.
    pub async fn from(&self, pool: &Pool) -> Result<Client> {
        pool.get().await.map_err(|error| self.pooled(pool, error))
    }

    fn pooled(&self, pool: &Pool, error: PoolError) -> Error {
        match error {
            PoolError::Backend(error) => self.refused(&error),
            PoolError::PostCreateHook(error) => self
                .whereabouts
                .refusal()
                .unwrap_or_else(|| Error::new(ErrorKind::Source, format!("{}: {error}", self.address.name))),
            PoolError::Timeout(TimeoutType::Wait) => Error::new(
                ErrorKind::Busy,
                format!(
                    "all {} connections to {} have been busy for {WAIT:?}: try again, or allow more",
                    pool.status().max_size,
                    self.address.name
                ),
            ),
            other => Error::new(ErrorKind::Source, format!("{}: {other}", self.address.name)),
        }
    }

    /// The first connection of a pool. What the server refuses now it refuses for ever: a login, a database; that is told as
    /// a mistake in the address, and a server that is not there is not.
    pub async fn first(&self, pool: &Pool) -> Result<Client> {
        match pool.get().await {
            Ok(client) => Ok(client),
            Err(PoolError::Backend(error)) if is_mistake(&error) => {
                Err(Error::new(ErrorKind::Invalid, self.refused(&error).to_string()))
            }
            Err(error) => Err(self.pooled(pool, error)),
        }
    }

    /// A connection of its own, driven by whoever waits for it.
    pub async fn alone(&self) -> Result<(tokio_postgres::Client, Line)> {
        let connected = self.address.config.connect(self.address.tls.clone()).await;
        let (client, connection) = connected.map_err(|error| self.refused(&error))?;
        let mut line = Line { connection: Some(Box::pin(connection)) };
        line.drive(self.whereabouts.check(&client)).await?;
        Ok((client, line))
    }

    /// A connection of its own with a task that drives it. If it ends while it holds something, its end is one of the ground
    /// too.
    pub async fn watched(&self, hold: Arc<Hold>) -> Result<(tokio_postgres::Client, AbortHandle)> {
        let connected =
            open(&self.address.config, self.address.tls.clone(), Some((hold, self.whereabouts.clone()))).await;
        let (client, task) = connected.map_err(|error| self.refused(&error))?;
        self.whereabouts.check(&client).await?;
        Ok((client, task.abort_handle()))
    }

    fn refused(&self, error: &tokio_postgres::Error) -> Error {
        let told = tell(error);
        let hint = if told.contains("password missing") || told.contains("no password") {
            ": write the password into the address or set the environment variable PGPASSWORD"
        } else if told.contains("invalid peer certificate") {
            ": give its authority by sslrootcert=FILE, or check less by another sslmode"
        } else if told.contains("does not support TLS") {
            ": set it up there, or allow sslmode=disable"
        } else {
            ""
        };
        let kind = failed("", error).kind();
        let kind = if kind == ErrorKind::Invalid { ErrorKind::Source } else { kind };
        Error::new(kind, format!("PostgreSQL, connecting to {}: {told}{hint}", self.address.name))
    }
}

/// Whether trying again cannot help: the server refused the login (class 28) or has no such database (3D000), or the
/// address itself lacks a password or a certificate.
fn is_mistake(error: &tokio_postgres::Error) -> bool {
    let told = tell(error);
    let words = ["password missing", "no password", "invalid peer certificate", "does not support TLS"];
    error.code().is_some_and(|code| code.code().starts_with("28") || code == &SqlState::INVALID_CATALOG_NAME)
        || words.iter().any(|words| told.contains(words))
}

type Opened = std::result::Result<(tokio_postgres::Client, JoinHandle<()>), tokio_postgres::Error>;

impl Connect for Connections {
    fn connect(&self, config: &Config) -> std::pin::Pin<Box<dyn Future<Output = Opened> + Send + '_>> {
        let (config, tls) = (config.clone(), self.address.tls.clone());
        Box::pin(async move { open(&config, tls, None).await })
    }
}

/// Connects and limits how long a statement may take, unless the address has its own limit.
async fn open(config: &Config, tls: Tls, watched: Option<(Arc<Hold>, Arc<Whereabouts>)>) -> Opened {
    let (client, connection) = config.connect(tls).await?;
    let ending = Ending(watched);
    let task = tokio::spawn(async move {
        let _ending = ending;
        // How it ended is told to whoever asks by it.
        _ = connection.await;
    });
    if !config.get_options().is_some_and(|options| options.contains("statement_timeout")) {
        client.batch_execute(&format!("SET statement_timeout = {}", STATEMENT.as_millis())).await?;
    }
    Ok((client, task))
}

/// Tells of the end of a connection that held something, however it ends.
struct Ending(Option<(Arc<Hold>, Arc<Whereabouts>)>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some((hold, whereabouts)) = &self.0
            && hold.end()
        {
            whereabouts
                .footing
                .moved("the connection that held the lock of the table is gone, and perhaps another gate has it");
        }
    }
}

/// A connection that no task of its own drives: ten million rows by way of another task are thousands of times that one
/// thread wakes another (0.37 s of the kernel's time, 0.14 s without). Dropping it closes the socket.
pub(super) struct Line {
    connection: Option<Pin<Box<Connection<Socket, Session>>>>,
}

impl Line {
    /// Waits for something that needs the connection.
    pub async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.poll(context, |context| work.as_mut().poll(context))).await
    }

    /// Polls something that needs the connection, and the connection. Once that has ended, the work is told so.
    pub fn poll<T>(&mut self, context: &mut Context<'_>, mut work: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if let Poll::Ready(done) = work(context) {
            return Poll::Ready(done);
        }
        if self.connection.as_mut().is_some_and(|connection| connection.as_mut().poll(context).is_ready()) {
            self.connection = None;
        }
        work(context)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    Said(tokio_postgres::Error),
    /// Neither an answer nor the end of the connection came in time.
    Silent,
}

impl Lost {
    /// Whether the connection is gone, so that another one may do better.
    pub fn was_lost(&self) -> bool {
        matches!(self, Self::Said(error) if !was_refused(error))
    }

    /// Whether the statement was prepared for a table that has other columns by now: the connection has it so for ever, and
    /// another one has not.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Said(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
            && error.as_db_error().is_some_and(|said| said.message().contains("cached plan")))
    }

    pub fn in_reading(&self) -> Error {
        self.told("reading")
    }

    pub fn told(&self, doing: &str) -> Error {
        match self {
            Self::Said(error) => failed(doing, error),
            Self::Silent => Error::new(
                ErrorKind::Source,
                format!(
                    "PostgreSQL, {doing}: no answer within {:?}: look at the server and the network",
                    STATEMENT + GRACE
                ),
            ),
        }
    }

    /// Takes a connection that is gone or silent out of its pool: the next one to ask by it would fare no better.
    pub fn leave(&self, client: Client) {
        if matches!(self, Self::Silent) || self.was_lost() || self.is_outdated() {
            drop(Client::take(client));
        }
    }
}

/// Waits for an answer somewhat longer than the server may take.
pub(super) async fn within<T>(
    answer: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
) -> std::result::Result<T, Lost> {
    match tokio::time::timeout(STATEMENT + GRACE, answer).await {
        Ok(answer) => answer.map_err(Lost::Said),
        Err(_) => Err(Lost::Silent),
    }
}
