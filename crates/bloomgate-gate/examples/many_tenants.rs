//! What a thousand tenants cost: how long until all of them have a filter, and how much memory beside the bits.
//!
//! ```text
//! cargo run --release -p bloomgate-gate --example many_tenants -- [TENANTS] [KEYS OF EACH]
//! ```
//!
//! The table is in a SQLite file in a temporary folder, filled before anything is measured. Memory is the growth of the
//! process (`VmRSS`) by a second set of gates before the same table, once all its filters are in force and have answered: what
//! SQLite keeps of its pages is in the first.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use bloomgate_gate::sources::SqliteTenants;
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{Key, Writers};

/// What the process has in memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (tenants, keys) = (number(0, 1000)?, number(1, 1000)?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let mut database = rusqlite::Connection::open(&path)?;
    database.execute_batch(
        "CREATE TABLE products (tenant TEXT, sku TEXT, price INTEGER, PRIMARY KEY (tenant, sku)) WITHOUT ROWID",
    )?;
    let filling = database.transaction()?;
    {
        let mut insert = filling.prepare("INSERT INTO products VALUES (?1, ?2, ?3)")?;
        for tenant in 0..tenants {
            for key in 0..keys {
                insert.execute((format!("tenant-{tenant}"), format!("sku-{key}"), key as i64))?;
            }
        }
    }
    filling.commit()?;
    drop(database);
    let table = Arc::new(SqliteTenants::open(&path, "products", "sku", "tenant")?);
    let first = Tenants::builder(table.clone()).writers(Writers::Sole).most_tenants(1_000_000).build()?;
    first.rebuild_all(false).await?;
    for data in [None, Some(folder.path().join("data")), Some(folder.path().join("data"))] {
        let saved = data.as_ref().is_some_and(|data| data.exists());
        let (before, begun) = (resident(), Instant::now());
        let mut builder = Tenants::builder(table.clone()).writers(Writers::Sole).most_tenants(1_000_000);
        if let Some(data) = &data {
            builder = builder.data(data);
        }
        let gates = builder.build()?;
        let opened = begun.elapsed();
        let built = gates.rebuild_all(false).await?;
        let ready = begun.elapsed();
        let mut found = 0;
        for tenant in 0..tenants {
            let name = Key::from(format!("tenant-{tenant}").as_str());
            found += u64::from(gates.get(&name, &Key::from("sku-0")).await?.row.is_some());
            gates.get(&name, &Key::from("no such product")).await?;
        }
        let (bits, grown) = (gates.stats().budget.spent, resident().saturating_sub(before));
        assert_eq!((built.built as u64, found), (tenants, tenants));
        let kept = match (&data, saved) {
            (None, _) => "nothing kept",
            (Some(_), false) => "kept in a folder",
            (Some(_), true) => "from the folder",
        };
        println!(
            "{tenants} tenants of {keys} keys, {kept}: opened after {:.2} s, ready after {:.2} s; {:.1} MB in all, {:.1} MB \
             of it bits: {} bytes a tenant beside its bits",
            opened.as_secs_f64(),
            ready.as_secs_f64(),
            grown as f64 / 1e6,
            bits as f64 / 1e6,
            grown.saturating_sub(bits) / tenants.max(1)
        );
        let (name, begun) = (Key::from("tenant-7"), Instant::now());
        let mut stopped = 0;
        for number in 0..1_000_000i64 {
            let key = Key::from_canonical(number.to_le_bytes());
            stopped += u64::from(gates.look(&name, &key).is_some());
        }
        let each = begun.elapsed().as_nanos() as f64 / 1e6;
        println!("  {stopped} of 1,000,000 absent keys of one tenant stopped, {each:.0} ns each");
        let begun = Instant::now();
        gates.rebuild(&Key::from("tenant-0"), false).await?;
        let one = begun.elapsed();
        let begun = Instant::now();
        gates.rebuild_all(false).await?;
        println!(
            "  one rebuilt in {:.1} ms, all one after the other in {:.2} s",
            one.as_secs_f64() * 1e3,
            begun.elapsed().as_secs_f64()
        );
        let begun = Instant::now();
        gates.stop().await;
        println!("  stopped in {:.2} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}
