//! Random tenants and keys, written, deleted, looked up and rebuilt at the same time, each answer held against a record of
//! every write: no tenant has another's row, no "no" is wrong, no row comes back. Seeds are fixed.

use std::sync::{Arc, Mutex};

use bloomgate_gate::sources::TenantTable;
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{Key, Outcome};
use bytes::Bytes;

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// What is known of one row.
#[derive(Clone, Copy, Default)]
struct Cell {
    value: Option<u64>,
    /// Rises when a write begins and when it ends: odd while one is under way.
    changes: u64,
}

/// What was met: a test that never meets what it is about proves nothing.
#[derive(Debug, Default)]
pub struct Met {
    pub judged: u64,
    pub filter_no: u64,
    pub strangers: u64,
    pub rebuilds: u64,
    pub scans: u64,
}

/// Runs a schedule of so many steps by so many workers. The table has the columns `tenant`, `key` and `value`, and is empty.
pub async fn run(tenants: Tenants, seed: u64, workers: u64, steps: u64, names: &[&str]) -> Met {
    const KEYS: u64 = 40;
    let table: Vec<(Key, String)> =
        names.iter().map(|name| (tenants.parse_tenant(name).unwrap(), (*name).to_owned())).collect();
    let cells = Arc::new(Mutex::new(vec![Cell::default(); table.len() * KEYS as usize]));
    let turns: Arc<Vec<tokio::sync::Mutex<()>>> =
        Arc::new((0..table.len() * KEYS as usize).map(|_| Default::default()).collect());
    let met = Arc::new(Mutex::new(Met::default()));
    let table = Arc::new(table);
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let (tenants, cells, turns) = (tenants.clone(), cells.clone(), turns.clone());
            let (met, table) = (met.clone(), table.clone());
            let mut random = Random(seed.wrapping_mul(1000) + worker);
            tokio::spawn(async move {
                for step in 0..steps {
                    let (of, number) = (random.below(table.len() as u64) as usize, random.below(KEYS));
                    let ((tenant, name), at) = (&table[of], of * KEYS as usize + number as usize);
                    let key = tenants.parse_key(&format!("{number}")).unwrap();
                    let change = |value: Option<Option<u64>>| {
                        let cell = &mut cells.lock().unwrap()[at];
                        cell.changes += 1;
                        if let Some(value) = value {
                            cell.value = value;
                        }
                    };
                    match random.below(100) {
                        0..60 => {
                            let before = cells.lock().unwrap()[at];
                            let known = tenants.has(tenant);
                            let answer = match tenants.look(tenant, &key) {
                                Some(answer) => answer,
                                None if random.below(4) == 0 => tenants
                                    .get_each(tenant, std::slice::from_ref(&key))
                                    .await
                                    .unwrap()
                                    .remove(0)
                                    .unwrap(),
                                None => tenants.get(tenant, &key).await.unwrap(),
                            };
                            let after = cells.lock().unwrap()[at];
                            if before.changes != after.changes || before.changes % 2 == 1 {
                                continue;
                            }
                            let found = answer.row.as_ref().map(|row| {
                                let row: serde_json::Value = serde_json::from_slice(row).unwrap();
                                assert_eq!(row["tenant"], name.as_str(), "seed {seed}");
                                row["value"].as_u64().unwrap()
                            });
                            assert_eq!(
                                found, before.value,
                                "seed {seed}, step {step}, {tenant:?} {number}: {answer:?}"
                            );
                            let mut met = met.lock().unwrap();
                            met.judged += 1;
                            met.filter_no += u64::from(answer.outcome == Outcome::AbsentByFilter);
                            met.strangers += u64::from(!known);
                        }
                        60..80 => {
                            let _turn = turns[at].lock().await;
                            let value = random.below(1 << 40);
                            change(None);
                            let row = serde_json::json!({"tenant": name, "value": value}).to_string();
                            tenants.put(tenant, key, Bytes::from(row)).await.unwrap();
                            change(Some(Some(value)));
                        }
                        80..92 => {
                            let _turn = turns[at].lock().await;
                            change(None);
                            tenants.delete(tenant, &key).await.unwrap();
                            change(Some(None));
                        }
                        92..98 => {
                            if tenants.has(tenant) {
                                // Fewer are believed: deletes are counted, and so is what comes between.
                                tenants.rebuild(tenant, true).await.unwrap();
                                met.lock().unwrap().rebuilds += 1;
                            }
                        }
                        // Busy: another worker rebuilds all already.
                        _ => met.lock().unwrap().scans += u64::from(tenants.rebuild_all(true).await.is_ok()),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let stats = tenants.stats();
    assert_eq!((stats.audit.wrong, stats.strangers.wrong), (0, 0), "seed {seed}");
    tenants.stop().await;
    std::mem::take(&mut *met.lock().unwrap())
}

/// A table for schedules, in whatever it is.
pub fn gates(table: Arc<dyn TenantTable>) -> bloomgate_gate::tenants::TenantsBuilder {
    let cache = bloomgate_gate::caches::LocalCache::new(1 << 20).unwrap();
    Tenants::builder(table)
        .writers(bloomgate_gate::Writers::Sole)
        .least_keys(64)
        .cache(Arc::new(cache))
        .audit_share(0.2)
        .rebuild_every(None)
}
