//! `bloomgate gate install-feed` and `remove-feed`: the outbox and the triggers by which a gate knows what others write.

use std::io::Write;

use bloomgate_gate::feed::{FeedPlan, FeedWork};
use bloomgate_gate::sources::Sqlite;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::failure::{DONE, Failure, Outcome};

const INSTALLS: &str = "\
Examples:
  bloomgate gate install-feed --source sqlite:shop.db --table products --key sku
  bloomgate gate install-feed --source postgres://owner@db/shop --table products --key sku --reader gate
  bloomgate gate install-feed --source postgres://owner@db/shop --table products --key sku --print > feed.sql

It makes an outbox beside the table (bloomgate_feed_TABLE) and triggers that put every change into it, in the transaction \
that makes the change; a gate with --writers feed follows it. What is there and whole is left alone, so it can be run again.

PostgreSQL (13 or later): run it as the owner of the table, who may create tables and functions in its schema. CREATE TRIGGER \
waits for transactions that have written to the table, and writers that come later wait behind it: for at most 10 s, then it \
gives up and nothing was changed. Writers need no new rights. A gate of another role needs --reader ROLE.

The outbox grows until a gate has read and saved what is in it. Remove the feed of a table that no gate follows any more.

Exit codes: 0 done or nothing to do, 2 error.";

const REMOVES: &str = "\
Example:
  bloomgate gate remove-feed --source sqlite:shop.db --table products

It drops the triggers, the outbox and everything in it. A gate that follows it stops saying no at once.

Exit codes: 0 done or nothing to do, 2 error.";

/// Where the table is.
#[derive(Args)]
struct Place {
    /// Where the table is: `sqlite:FILE` or `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "URL", env = "BLOOMGATE_SOURCE", hide_env_values = true)]
    source: String,
    /// The table; of another schema SCHEMA.TABLE
    #[arg(long, value_name = "NAME")]
    table: String,
    /// Print the SQL and change nothing
    #[arg(long, visible_alias = "dry-run")]
    print: bool,
}

/// The arguments of `install-feed`.
#[derive(Args)]
pub struct Install {
    #[command(flatten)]
    place: Place,
    /// The column that rows are looked up by
    #[arg(long, value_name = "COLUMN")]
    key: String,
    /// Tell keys that come and go, not that a row has other values: less work for writers, but a gate's cache may have old rows for --rows-for
    #[arg(long)]
    only_keys: bool,
    /// A column whose value is told beside the key, for programs of your own: a gate with --tenant follows no feed yet
    #[arg(long, value_name = "COLUMN")]
    tenant: Option<String>,
    /// PostgreSQL: a role under which gates follow the feed; may be given again
    #[arg(long, value_name = "ROLE")]
    reader: Vec<String>,
}

/// The arguments of `remove-feed`.
#[derive(Args)]
pub struct Remove {
    #[command(flatten)]
    place: Place,
}

/// One of the two.
pub enum Verb {
    Install(Install),
    Remove(Remove),
}

impl Verb {
    /// The verbs under `gate`.
    pub fn commands() -> [Command; 2] {
        let install = "Make the feed by which a gate knows what others write: an outbox, filled by triggers";
        let remove = "Remove the feed of a table";
        [
            Install::augment_args(Command::new("install-feed")).about(install).after_long_help(INSTALLS),
            Remove::augment_args(Command::new("remove-feed")).about(remove).after_long_help(REMOVES),
        ]
    }

    /// What was said, if it was one of them.
    pub fn from(matches: &ArgMatches) -> Result<Option<Self>, clap::Error> {
        Ok(match matches.subcommand() {
            Some(("install-feed", matches)) => Some(Self::Install(Install::from_arg_matches(matches)?)),
            Some(("remove-feed", matches)) => Some(Self::Remove(Remove::from_arg_matches(matches)?)),
            _ => None,
        })
    }
}

/// Runs one of them.
pub fn run(verb: &Verb) -> Outcome {
    let (place, done, undone) = match verb {
        Verb::Install(install) => (&install.place, "installed", "is there and whole"),
        Verb::Remove(remove) => (&remove.place, "removed", "has none"),
    };
    let work = work(verb, place)?;
    let mut out = anstream::stdout().lock();
    if place.print {
        if !work.changed {
            writeln!(out, "-- nothing to do")?;
        } else {
            writeln!(out, "BEGIN;")?;
            work.sql.iter().try_for_each(|sql| writeln!(out, "{sql};"))?;
            writeln!(out, "COMMIT;")?;
        }
    } else if work.changed {
        writeln!(out, "{}: {done} its feed, {} ({} statements)", place.table, work.outbox, work.sql.len())?;
    } else {
        writeln!(out, "{}: the feed {undone}; nothing was changed", place.table)?;
    }
    out.flush()?;
    Ok(DONE)
}

fn work(verb: &Verb, place: &Place) -> Result<FeedWork, Failure> {
    let said = |error: bloomgate_gate::Error| Failure::Message(error.to_string());
    let url = place.source.as_str();
    if let Some(path) = url.strip_prefix("sqlite:") {
        return match verb {
            Verb::Install(install) => {
                Sqlite::install_feed(path, &place.table, &install.key, &plan(install), place.print)
            }
            Verb::Remove(_) => Sqlite::remove_feed(path, &place.table, place.print),
        }
        .map_err(said);
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return postgres(verb, place);
    }
    // Not repeated: an address may hold a password.
    Err(Failure::Message(
        "--source names no database that has feeds: sqlite:FILE or postgres://USER@HOST/DATABASE".into(),
    ))
}

fn plan(install: &Install) -> FeedPlan {
    FeedPlan { only_keys: install.only_keys, tenant: install.tenant.clone(), readers: install.reader.clone() }
}

#[cfg(feature = "postgres")]
fn postgres(verb: &Verb, place: &Place) -> Result<FeedWork, Failure> {
    use bloomgate_gate::sources::Postgres;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Message(format!("no runtime: {error}")))?;
    runtime
        .block_on(async {
            match verb {
                Verb::Install(install) => {
                    Postgres::install_feed(&place.source, &place.table, &install.key, &plan(install), place.print).await
                }
                Verb::Remove(_) => Postgres::remove_feed(&place.source, &place.table, place.print).await,
            }
        })
        .map_err(|error| Failure::Message(error.to_string()))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &Verb, _: &Place) -> Result<FeedWork, Failure> {
    Err(Failure::Message("this bloomgate was built without PostgreSQL: build it with the feature postgres".into()))
}
