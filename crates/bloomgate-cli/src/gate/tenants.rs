//! Many tenants: the table with its tenant column, what single tenants have of their own, and what is told at the start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::service;
use bloomgate_gate::sources::{SqliteTenants, TenantTable};
use bloomgate_gate::tenants::{Own, Tenants};
use bloomgate_gate::{Error, Event};

use super::parts::{self, Unopened, said};
use super::settings::Settings;
use crate::failure::Failure;
use crate::number::{self, counted};
use crate::screen;
use crate::told::{self, Named};

/// The sections of the settings file: `[tenants.NAME]`.
pub const SECTION: &str = "tenants";

/// A setting that a tenant can have of its own.
struct OwnSetting {
    name: &'static str,
    set: fn(&mut Own, &str) -> Result<(), String>,
}

impl Named for OwnSetting {
    fn name(&self) -> &'static str {
        self.name
    }
}

macro_rules! own {
    ($($name:literal |$own:ident, $text:ident| $set:expr;)+) => {
        static OWN: &[OwnSetting] = &[$(OwnSetting {
            name: $name,
            set: |$own, $text| {
                $set;
                Ok(())
            },
        }),+];
    };
}

own! {
    "rate" |own, text| own.rate = Some(number::rate(text)?);
    "policy" |own, text| own.policy = Some(text.parse().map_err(|error: Error| error.to_string())?);
    "weight" |own, text| own.weight = Some(text.parse().map_err(|_| format!("{text:?} is no number"))?);
    "filter-memory" |own, text| own.filter_memory = Some(number::size(text)?);
}

/// What tenants have of their own by a settings file.
pub fn own(path: &Path) -> Result<Vec<(String, Own)>, Failure> {
    let mut all = Vec::new();
    for (tenant, lines) in told::sections(path, SECTION)? {
        let mut own = Own::default();
        for (name, text) in lines {
            let set = told::find(OWN, &name).and_then(|setting| (setting.set)(&mut own, &text));
            set.map_err(|why| Failure::Message(format!("{}: [{SECTION}.{tenant}]: {name}: {why}", path.display())))?;
        }
        all.push((tenant, own));
    }
    Ok(all)
}

/// Opens the table, if it is there within this time.
pub async fn table(settings: &Settings, column: &str, patience: Duration) -> Result<Arc<dyn TenantTable>, Unopened> {
    let url = settings.source.as_str();
    if let Some(path) = url.strip_prefix("sqlite:") {
        let opened = SqliteTenants::open(path, &settings.table, &settings.key, column).map_err(said)?;
        return Ok(Arc::new(opened));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return match tokio::time::timeout(patience, postgres(settings, column)).await {
            Ok(opened) => opened,
            Err(_) => {
                let patience = number::duration(patience);
                Err(Unopened::Unreachable(format!("PostgreSQL did not answer within {patience}")))
            }
        };
    }
    // The same words as for a table without tenants.
    match parts::source(settings, patience).await {
        Err(unopened) => Err(unopened),
        Ok(_) => Err(Failure::Message("--tenant is for tables of SQLite and PostgreSQL".into()).into()),
    }
}

#[cfg(feature = "postgres")]
async fn postgres(settings: &Settings, column: &str) -> Result<Arc<dyn TenantTable>, Unopened> {
    use bloomgate_gate::ErrorKind;
    use bloomgate_gate::sources::PostgresTenants;
    let (table, key) = (&settings.table, &settings.key);
    match PostgresTenants::connect(&settings.source, table, key, column, settings.connections).await {
        Ok(table) => Ok(Arc::new(table)),
        Err(error) if matches!(error.kind(), ErrorKind::Source | ErrorKind::Busy) => {
            Err(Unopened::Unreachable(error.to_string()))
        }
        Err(error) => Err(said(error).into()),
    }
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &Settings, _: &str) -> Result<Arc<dyn TenantTable>, Unopened> {
    let message = "this bloomgate was built without PostgreSQL: build it with the feature postgres";
    Err(Failure::Message(message.into()).into())
}

/// Makes the gates.
pub async fn gates(
    settings: &Settings,
    table: Arc<dyn TenantTable>,
    listener: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Tenants, Failure> {
    let mut builder = Tenants::builder(table)
        .on_event(listener)
        .accept_fewer(settings.accept_fewer)
        .rate(settings.rate)
        .headroom(settings.headroom)
        .filter_bytes(settings.filter_memory, settings.tenant_budget)
        .most_tenants(settings.tenants_most)
        .policy(settings.policy)
        .writers(settings.writers)
        .negatives(settings.negative_entries, settings.negative_ttl)
        .rows_for(settings.rows_for)
        .source_limit(settings.source_at_once, settings.source_waiting)
        .audit_share(settings.audit)
        .rebuild_every(settings.rebuild_every);
    if let Some(cache) = parts::cache(settings).await? {
        builder = builder.cache(cache);
    }
    if let Some(folder) = &settings.data {
        builder = builder.data(folder);
    }
    if let Some(callers) = parts::callers(settings) {
        builder = builder.callers(callers);
    }
    for (tenant, own) in &settings.own {
        builder = builder.tenant(tenant, *own);
    }
    builder.build().map_err(said)
}

/// Where it listens, what is behind it, and commands to try.
pub fn tell(tenants: &Tenants, settings: &Settings, options: &service::Options, url: &str) {
    let stats = tenants.stats();
    screen::tell(format_args!("bloomgate: gate ready on {url}"));
    screen::tell(format_args!("  source  {}, cache {}", stats.source, stats.cache.as_deref().unwrap_or("none")));
    let filters = match stats.tenants.all {
        0 => "are being built; until then lookups go by the policy".to_owned(),
        known => {
            let known = counted(known as u64, "tenant");
            format!("of {known} from the last run; they may say no when they are built anew")
        }
    };
    screen::tell(format_args!("  filters {filters}"));
    let writes = if options.writes { "PUT and DELETE are allowed" } else { "PUT and DELETE are not there" };
    screen::tell(format_args!("  policy  {}, writers {}; {writes}", settings.policy, settings.writers));
    let secured =
        if options.tokens.is_some() && !options.open_reads { " -H 'Authorization: Bearer TOKEN'" } else { "" };
    let table = &options.table;
    screen::tell(format_args!("  try     curl -i{secured} {url}/v1/{table}/TENANT/KEY"));
    screen::tell(format_args!("          curl{secured} {url}/explain/TENANT/KEY"));
    screen::tell(format_args!("          curl{secured} {url}/stats/TENANT"));
}
