//! Which server a connection leads to. An address may lead to another one than it did at the start: after a failover, by
//! a proxy, by a name of several hosts. A standby is refused, since it may lack what was committed a moment ago; another
//! primary moves the ground under the filter.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::Client;
use tokio_postgres::types::Oid;

use super::{Said, failed, was_refused};
use crate::error::{Error, ErrorKind, Result};
use crate::sources::Footing;

/// A database of one server in one history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    /// What `initdb` gave the server, or since when it runs and where, if that may not be read.
    server: String,
    /// Rises with each promotion of a standby.
    timeline: String,
    database: Oid,
}

/// What is known of where connections lead.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    pub footing: Footing,
    known: Mutex<Option<Identity>>,
    /// Why a connection of the pool was refused last: the pool itself carries only texts.
    refusal: Mutex<Option<Error>>,
}

/// The name of the first file of the log that is to come begins with the timeline: unlike the control file, it is of now.
const EXACT: &str = "
    SELECT pg_catalog.pg_is_in_recovery(), (SELECT control.system_identifier::text FROM pg_catalog.pg_control_system() AS control),
           CASE WHEN pg_catalog.pg_is_in_recovery() THEN ''
                ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END,
           (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

/// What everybody may ask, and servers that only speak like PostgreSQL know too.
const ROUGH: &str = "
    SELECT pg_catalog.pg_is_in_recovery(),
           pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), pg_catalog.inet_server_addr(), pg_catalog.inet_server_port()),
           '', (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

impl Whereabouts {
    /// Looks where a new connection leads; refuses a standby.
    pub async fn check(self: &Arc<Self>, client: &Client) -> Result<()> {
        let (standby, identity) = ask(client).await.map_err(|error| failed("asking which server it is", &error))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if standby {
            // At the start the address is wrong; later it may lead to the primary again.
            let kind = if known.is_none() { ErrorKind::Unsupported } else { ErrorKind::Source };
            return Err(Error::new(
                kind,
                "this PostgreSQL is a standby: it may lack what was committed a moment ago, and a filter built from it would \
                 say no to such keys. Name the primary",
            ));
        }
        let moved = known.as_ref().is_some_and(|known| *known != identity);
        *known = Some(identity);
        drop(known);
        if moved {
            self.footing.moved("the address leads to another server, database or history than before");
        }
        Ok(())
    }

    /// [`check`](Self::check) for the pool, which keeps only texts of errors.
    pub async fn check_pooled(self: &Arc<Self>, client: &Client) -> std::result::Result<(), String> {
        self.check(client).await.map_err(|error| {
            let told = error.to_string();
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            told
        })
    }

    /// Why a connection of the pool was refused.
    pub fn refusal(&self) -> Option<Error> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn ask(client: &Client) -> Said<(bool, Identity)> {
    let row = match client.query_one(EXACT, &[]).await {
        Err(error) if was_refused(&error) => client.query_one(ROUGH, &[]).await?,
        row => row?,
    };
    let identity = Identity { server: row.try_get(1)?, timeline: row.try_get(2)?, database: row.try_get(3)? };
    Ok((row.try_get(0)?, identity))
}
