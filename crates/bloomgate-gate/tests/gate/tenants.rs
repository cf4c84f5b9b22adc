//! Many tenants before one table of a real SQLite file, and before one in memory where a test has to hold a read: each has its
//! own filter, rows, rate and policy, and no other feels what it does.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::sources::{SqliteTenants, TenantTable};
use bloomgate_gate::tenants::{Own, Spending, Tenants, TenantsBuilder};
use bloomgate_gate::{ErrorKind, Event, Key, Outcome, Policy, State, Writers};
use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::tables::{refused, text};
use crate::tenant_memory::MemoryTable;
use crate::tenant_schedules as schedules;

struct File {
    folder: TempDir,
    path: PathBuf,
    other: Connection,
}

const PRODUCTS: &str =
    "CREATE TABLE products (tenant TEXT, key TEXT, value INTEGER, PRIMARY KEY (tenant, key)) WITHOUT ROWID";

fn file(sql: &str) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch(sql).unwrap();
    File { folder, path, other }
}

impl File {
    /// A shop with tenants of so many products each, `p0`, `p1`, ...
    fn shop(tenants: &[(&str, usize)]) -> Self {
        let mut file = file(PRODUCTS);
        let filling = file.other.transaction().unwrap();
        for (tenant, products) in tenants {
            for number in 0..*products {
                let row = (tenant, format!("p{number}"), number as i64);
                filling.execute("INSERT INTO products VALUES (?1, ?2, ?3)", row).unwrap();
            }
        }
        filling.commit().unwrap();
        file
    }

    fn open(&self) -> Arc<dyn TenantTable> {
        Arc::new(SqliteTenants::open(&self.path, "products", "key", "tenant").unwrap())
    }

    fn gates(&self) -> TenantsBuilder {
        sole(self.open())
    }
}

fn sole(table: Arc<dyn TenantTable>) -> TenantsBuilder {
    Tenants::builder(table).writers(Writers::Sole).rebuild_every(None)
}

async fn ready(builder: TenantsBuilder) -> Tenants {
    let tenants = builder.build().unwrap();
    tenants.rebuild_all(false).await.unwrap();
    tenants
}

fn key(text: &str) -> Key {
    text.into()
}

async fn value(tenants: &Tenants, tenant: &str, of: &str) -> Option<String> {
    tenants.get(&key(tenant), &key(of)).await.unwrap().row.map(text)
}

async fn outcome(tenants: &Tenants, tenant: &str, of: &str) -> Outcome {
    tenants.get(&key(tenant), &key(of)).await.unwrap().outcome
}

fn row(value: u64) -> Bytes {
    format!("{{\"value\":{value}}}").into()
}

/// A key of a tenant that its filter knows to be absent.
fn absent(tenants: &Tenants, tenant: &str) -> Key {
    let mut names = (0..).map(|number| key(&format!("absent-{number}")));
    names.find(|name| tenants.look(&key(tenant), name).is_some()).unwrap()
}

#[tokio::test]
async fn tenants_are_found_and_each_has_a_filter_of_its_own_size() {
    let file = File::shop(&[("acme", 10), ("globex", 1000), ("initech", 20_000)]);
    let tenants = ready(file.gates()).await;
    assert_eq!(tenants.len(), 3);
    assert_eq!(value(&tenants, "globex", "p7").await.unwrap(), r#"{"tenant":"globex","key":"p7","value":7}"#);
    assert_eq!(outcome(&tenants, "initech", "p19999").await, Outcome::Source);
    let no = tenants.get(&key("acme"), &absent(&tenants, "acme")).await.unwrap();
    assert_eq!((no.outcome, no.row, no.version), (Outcome::AbsentByFilter, None, 1));
    let sizes: Vec<u64> = ["acme", "globex", "initech"]
        .map(|name| tenants.stats_of(&key(name)).unwrap().stats.filter.unwrap().bytes.unwrap())
        .to_vec();
    assert!(sizes[0] < 1000 && sizes[1] < 6_000 && sizes[2] > 40_000 && sizes[2] < 100_000, "{sizes:?}");
    let stats = tenants.stats();
    assert_eq!((stats.tenants.ready, stats.scans, stats.state, stats.blocking), (3, 1, "ready", true));
    assert_eq!(stats.budget.spent, sizes.iter().sum::<u64>());
    // A batch is a batch of one tenant.
    let keys = [key("p1"), key("p10"), key("nothing at all")];
    let answers = tenants.get_each(&key("acme"), &keys).await.unwrap();
    let found: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().row.is_some()).collect();
    assert_eq!(found, [true, false, false]);
}

#[tokio::test]
async fn tenants_that_nobody_knows_are_absent_and_cost_nothing() {
    let table = MemoryTable::with([("acme".to_owned(), "p1".to_owned())]);
    let tenants = sole(table.clone()).build().unwrap();
    // Before all tenants are known the source is asked, and nothing is made.
    let before = tenants.get(&key("acme"), &key("p1")).await.unwrap();
    assert_eq!((before.outcome, before.row.is_some(), before.version), (Outcome::Bypass, true, 0));
    assert_eq!((tenants.len(), tenants.state()), (0, State::Loading));
    tenants.rebuild_all(false).await.unwrap();
    let reads = table.0.reads.load(SeqCst);
    for number in 0..10_000 {
        let no = tenants.get(&key(&format!("made up {number}")), &key("p1")).await.unwrap();
        assert_eq!((no.outcome, no.row, no.version), (Outcome::AbsentByFilter, None, 1));
    }
    assert!(!tenants.delete(&key("made up"), &key("p1")).await.unwrap());
    assert_eq!((tenants.len(), table.0.reads.load(SeqCst)), (1, reads), "nothing was made, and nothing asked for");
    assert_eq!(tenants.stats().strangers.absent_by_filter, 10_000);
    assert!(tenants.explain(&key("made up"), &key("p1")).await.unwrap().decision.contains("no tenant of this name"));
    // Where others write too, a tenant may come at any time: the source is asked.
    let watching = Tenants::builder(table.clone()).build().unwrap();
    watching.rebuild_all(false).await.unwrap();
    table.0.rows.lock().unwrap().insert((b"new".to_vec(), b"p1".to_vec()), row(1));
    assert_eq!(outcome(&watching, "new", "p1").await, Outcome::Bypass);
    assert_eq!(watching.len(), 1, "a lookup makes no tenant");
    watching.rebuild_all(false).await.unwrap();
    assert_eq!(watching.len(), 2, "a rebuild finds it");
    assert_eq!(outcome(&watching, "new", "p1").await, Outcome::Bypass, "it only watches");
    assert_eq!(watching.stats_of(&key("acme")).unwrap().stats.state, "ready");
}

#[tokio::test]
async fn a_new_tenant_has_its_filter_before_its_first_row() {
    let file = File::shop(&[("acme", 100)]);
    let tenants = ready(file.gates().most_tenants(3)).await;
    refused(tenants.put(&key("new"), key("p1"), Bytes::from_static(b"{")).await, ErrorKind::Invalid, &["JSON"]);
    assert_eq!(tenants.len(), 1, "what cannot be written makes no tenant");
    tenants.put(&key("new"), key("p1"), row(5)).await.unwrap();
    assert!(matches!(tenants.state_of(&key("new")), State::Ready { version: 1, .. }));
    assert_eq!(value(&tenants, "new", "p1").await.unwrap(), r#"{"tenant":"new","key":"p1","value":5}"#);
    assert_eq!(outcome(&tenants, "new", "p2").await, Outcome::AbsentByFilter, "without any scan");
    assert_eq!(tenants.stats().scans, 1);
    // It grows past the room it began with, and is rebuilt alone.
    for number in 0..400 {
        tenants.put(&key("new"), key(&format!("q{number}")), row(number)).await.unwrap();
    }
    tenants.start();
    let grown = async {
        while tenants.stats_of(&key("new")).unwrap().stats.filter.unwrap().version < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), grown).await.expect("it is rebuilt");
    let filter = tenants.stats_of(&key("new")).unwrap().stats.filter.unwrap();
    assert_eq!((filter.scanned, filter.capacity), (401, 601));
    assert_eq!(tenants.stats_of(&key("acme")).unwrap().stats.filter.unwrap().version, 1, "no other is touched");
    // No more than allowed, and what to do.
    tenants.put(&key("third"), key("p1"), row(1)).await.unwrap();
    refused(tenants.put(&key("fourth"), key("p1"), row(1)).await, ErrorKind::Invalid, &["3 tenants", "--tenants-most"]);
    assert_eq!(outcome(&tenants, "fourth", "p1").await, Outcome::AbsentByFilter);
    tenants.stop().await;
}

#[tokio::test]
async fn two_tenants_with_one_key_never_see_each_others_rows() {
    let file = File::shop(&[("a", 5), ("ab", 5)]);
    let cache = Arc::new(LocalCache::new(1 << 20).unwrap());
    let tenants = ready(file.gates().cache(cache)).await;
    for _ in 0..2 {
        for tenant in ["a", "ab"] {
            let found = value(&tenants, tenant, "p3").await.unwrap();
            assert!(found.contains(&format!("\"tenant\":\"{tenant}\"")), "{found}");
        }
    }
    tenants.put(&key("a"), key("p3"), row(99)).await.unwrap();
    assert!(value(&tenants, "a", "p3").await.unwrap().contains("99"));
    assert_eq!(outcome(&tenants, "ab", "p3").await, Outcome::Cache, "the other's row is still in the cache");
    assert!(value(&tenants, "ab", "p3").await.unwrap().contains("\"value\":3"));
    assert!(tenants.delete(&key("a"), &key("p3")).await.unwrap());
    assert_eq!(value(&tenants, "a", "p3").await, None);
    assert_eq!(outcome(&tenants, "a", "p3").await, Outcome::NegativeCached, "a delete keeps its bits");
    assert!(value(&tenants, "ab", "p3").await.is_some(), "what is remembered of one says nothing of the other");
    // A row that names another tenant is refused, whatever the path says.
    let theirs = Bytes::from_static(br#"{"tenant":"ab","value":1}"#);
    refused(tenants.put(&key("a"), key("p9"), theirs).await, ErrorKind::Invalid, &["tenant", "\"a\""]);
    let own = Bytes::from_static(br#"{"TENANT":"a","value":1}"#);
    tenants.put(&key("a"), key("p9"), own).await.unwrap();
    assert_eq!((value(&tenants, "ab", "p9").await, tenants.len()), (None, 2));
}

#[tokio::test]
async fn one_tenant_is_rebuilt_without_touching_the_others() {
    let table = MemoryTable::with(
        (0..30).flat_map(|tenant| (0..50).map(move |number| (format!("t{tenant}"), format!("p{number}")))),
    );
    let tenants = ready(sole(table.clone())).await;
    let others: Vec<Key> = (1..30).map(|tenant| key(&format!("t{tenant}"))).collect();
    for tenant in &others {
        tenants.get(tenant, &key("p1")).await.unwrap();
        tenants.get(tenant, &key("absent")).await.unwrap();
    }
    let told = |tenant: &Key| {
        let stats = tenants.stats_of(tenant).unwrap().stats;
        let filter = stats.filter.unwrap();
        (filter.version, filter.watermark_ms, stats.lookups.source, stats.lookups.absent_by_filter, stats.rebuild.done)
    };
    let before: Vec<_> = others.iter().map(told).collect();
    let (scans, spent) = (table.0.scans.load(SeqCst), tenants.stats().budget.spent);
    // Its scan is held at the sample that is asked of the source: lookups of all others go on meanwhile.
    let held = table.0.hold.write().await;
    let rebuilding = tokio::spawn({
        let tenants = tenants.clone();
        async move { tenants.rebuild(&key("t0"), false).await }
    });
    while tenants.stats_of(&key("t0")).unwrap().stats.rebuild.running.is_none_or(|running| running.scanned < 50) {
        tokio::task::yield_now().await;
    }
    for tenant in &others {
        assert!(tenants.look(tenant, &key("absent")).is_some());
    }
    assert_eq!(tenants.stats().budget.spent, spent, "one more is there, and only one");
    drop(held);
    let rebuilt = rebuilding.await.unwrap().unwrap();
    assert_eq!((rebuilt.version, rebuilt.keys, table.0.scans.load(SeqCst)), (2, 50, scans + 1));
    let after: Vec<_> = others.iter().map(told).collect();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((before.0, before.1, before.2, before.3 + 1, before.4), *after);
    }
    refused(tenants.rebuild(&key("nobody"), false).await, ErrorKind::Invalid, &["nobody"]);
    // All of them, one after the other: a scan each, and new versions.
    let all = tenants.rebuild_all(false).await.unwrap();
    assert_eq!((all.built, all.failed, all.keys, table.0.scans.load(SeqCst)), (30, 0, 1500, scans + 31));
    assert_eq!(tenants.stats_of(&others[0]).unwrap().stats.filter.unwrap().version, 2);
}

#[tokio::test]
async fn a_tenant_that_lost_its_rows_is_not_believed_and_costs_no_other() {
    let table = MemoryTable::with(
        (0..3).flat_map(|tenant| (0..50).map(move |number| (format!("t{tenant}"), format!("p{number}")))),
    );
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = events.clone();
    let tenants =
        ready(sole(table.clone()).on_event(move |event| heard.lock().unwrap().push(format!("{event:?}")))).await;
    table.0.rows.lock().unwrap().retain(|(tenant, _), _| tenant != b"t1");
    let all = tenants.rebuild_all(false).await.unwrap();
    assert_eq!((all.built, all.failed, all.failures[0].0.as_str()), (2, 1, "t1"));
    assert!(all.failures[0].1.contains("0 keys, and 50 were expected"), "{all:?}");
    assert!(events.lock().unwrap().iter().any(|event| event.contains("OfTenant") && event.contains("\"t1\"")));
    assert_eq!(outcome(&tenants, "t1", "p1").await, Outcome::NotFound, "its filter of before is in force");
    tenants.rebuild(&key("t1"), true).await.unwrap();
    assert_eq!(outcome(&tenants, "t1", "p1").await, Outcome::AbsentByFilter);
}

#[tokio::test]
async fn a_wrong_no_breaks_the_filter_of_its_tenant_alone() {
    let file = File::shop(&[("acme", 100), ("globex", 100)]);
    let tenants = ready(file.gates().audit_share(1.0)).await;
    let (lost, fine) = (absent(&tenants, "acme"), absent(&tenants, "globex"));
    tenants.start();
    let past = "INSERT INTO products VALUES ('acme', ?1, 1)";
    file.other.execute(past, [std::str::from_utf8(lost.canonical()).unwrap()]).unwrap();
    let found = async {
        while tenants.get(&key("acme"), &lost).await.unwrap().row.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("an audit finds it");
    assert!(tenants.stats_of(&key("acme")).unwrap().stats.audit.wrong >= 1);
    let other = tenants.stats_of(&key("globex")).unwrap().stats;
    assert_eq!((other.audit.wrong, other.filter.unwrap().version, other.state), (0, 1, "ready"));
    assert_eq!(tenants.get(&key("globex"), &fine).await.unwrap().outcome, Outcome::AbsentByFilter);
    // A tenant that came past the gate: the set was wrong about it, no filter was.
    file.other.execute("INSERT INTO products VALUES ('stranger', 'p1', 1)", []).unwrap();
    let found = async {
        while tenants.get(&key("stranger"), &key("p1")).await.unwrap().row.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("an audit finds it");
    assert!(tenants.stats().strangers.wrong >= 1);
    tenants.stop().await;
}

#[tokio::test]
async fn what_moves_the_ground_takes_every_no_back() {
    let table = MemoryTable::with([("a".to_owned(), "p1".to_owned()), ("b".to_owned(), "p1".to_owned())]);
    let tenants = ready(sole(table.clone())).await;
    assert_eq!(outcome(&tenants, "a", "p2").await, Outcome::AbsentByFilter);
    assert_eq!(outcome(&tenants, "c", "p2").await, Outcome::AbsentByFilter);
    table.0.footing.moved("another server");
    for tenant in ["a", "b", "c"] {
        assert_eq!(outcome(&tenants, tenant, "p2").await, Outcome::Bypass, "{tenant}");
    }
    assert_eq!(tenants.state(), State::Loading);
    // A tenant that is made now may have rows there: its filter says nothing until it is built.
    table.0.rows.lock().unwrap().insert((b"d".to_vec(), b"old".to_vec()), row(1));
    tenants.put(&key("d"), key("new"), row(2)).await.unwrap();
    assert_eq!(outcome(&tenants, "d", "old").await, Outcome::Bypass);
    tenants.rebuild_all(false).await.unwrap();
    assert_eq!(
        (outcome(&tenants, "d", "old").await, outcome(&tenants, "d", "p2").await),
        (Outcome::Source, Outcome::AbsentByFilter)
    );
}

#[tokio::test]
async fn a_flood_of_one_tenant_leaves_the_others_their_share_of_the_source() {
    let rows = (0..3).flat_map(|tenant| (0..10).map(move |number| (format!("t{tenant}"), format!("p{number}"))));
    let table = MemoryTable::with(rows);
    // Not ready: everything goes on to the source.
    let tenants = sole(table.clone()).source_limit(4, 64).build().unwrap();
    for tenant in 0..3 {
        tenants.delete(&key(&format!("t{tenant}")), &key("nothing")).await.unwrap();
    }
    let held = table.0.hold.write().await;
    let ask = |tenant: &'static str, of: String| {
        let tenants = tenants.clone();
        tokio::spawn(async move { tenants.get(&key(tenant), &key(&of)).await })
    };
    let flood: Vec<_> = (0..500).map(|number| ask("t0", format!("flood {number}"))).collect();
    while tenants.stats_of(&key("t0")).unwrap().stats.at_source.waiting < 64 {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> =
        (0..10).flat_map(|number| [ask("t1", format!("p{number}")), ask("t2", format!("p{number}"))]).collect();
    let waits = |tenant| tenants.stats_of(&key(tenant)).unwrap().stats.at_source.waiting;
    while waits("t1") + waits("t2") < 20 {
        tokio::task::yield_now().await;
    }
    drop(held);
    for other in others {
        assert!(other.await.unwrap().unwrap().row.is_some(), "none of the others is refused");
    }
    let mut busy = 0;
    for one in flood {
        match one.await.unwrap() {
            Ok(answer) => assert_eq!(answer.outcome, Outcome::Bypass),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy);
                busy += 1;
            }
        }
    }
    assert!(busy >= 400, "{busy} of the flood were refused");
    let stats = |tenant| tenants.stats_of(&key(tenant)).unwrap().stats;
    assert_eq!((stats("t1").lookups.refused_busy, stats("t2").lookups.refused_busy), (0, 0));
    assert_eq!(stats("t0").lookups.refused_busy, busy);
}

#[tokio::test]
async fn policies_and_rates_are_those_of_each_tenant() {
    let file = File::shop(&[("careful", 100), ("watched", 100), ("usual", 100)]);
    let own = |policy| Own { policy: Some(policy), rate: Some(0.05), ..Own::default() };
    let builder = || file.gates().tenant("careful", own(Policy::Closed)).tenant("watched", own(Policy::Shadow));
    let tenants = builder().build().unwrap();
    // Nothing is known yet, and who is careful is known only by its settings.
    tenants.delete(&key("careful"), &key("nothing")).await.unwrap();
    refused(tenants.get(&key("careful"), &key("p1")).await, ErrorKind::NotReady, &["closed"]);
    assert_eq!(outcome(&tenants, "usual", "p1").await, Outcome::Bypass);
    tenants.rebuild_all(false).await.unwrap();
    assert_eq!(outcome(&tenants, "careful", "p1").await, Outcome::Source);
    assert_eq!(outcome(&tenants, "watched", "no such product").await, Outcome::Bypass, "never blocked");
    let told = |tenant| tenants.stats_of(&key(tenant)).unwrap();
    assert_eq!((told("careful").asked_rate, told("usual").asked_rate), (0.05, 0.001));
    assert_eq!((told("careful").stats.policy, told("watched").stats.policy), ("closed", "shadow"));
    let wrong =
        [(Own { rate: Some(0.9), ..Own::default() }, "rate"), (Own { weight: Some(0.0), ..Own::default() }, "weight")];
    for (own, says) in wrong {
        refused(file.gates().tenant("usual", own).build(), ErrorKind::Invalid, &["usual", says]);
    }
    // Settings for a tenant without rows are told of, with the one that may be meant.
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = events.clone();
    let built = file.gates().tenant("ussual", Own::default()).on_event(move |event| heard.lock().unwrap().push(event));
    ready(built).await;
    let events = events.lock().unwrap();
    let missing = events.iter().find_map(|event| match event {
        Event::TenantWithoutRows { tenant, near } => Some((tenant.as_str(), near.as_deref())),
        _ => None,
    });
    assert_eq!(missing, Some(("ussual", Some("usual"))));
}

#[tokio::test]
async fn a_budget_that_is_too_small_is_spent_as_was_said() {
    let file = File::shop(&[("small", 1000), ("middle", 4000), ("large", 20_000)]);
    let all = ready(file.gates().headroom(1.0)).await.stats().budget.spent;
    // Strict: rates are kept, the largest goes without, and its lookups go on to the source.
    let strict = ready(file.gates().headroom(1.0).filter_bytes(all - 1, Spending::Strict)).await;
    let stats = strict.stats();
    assert_eq!((stats.tenants.ready, stats.tenants.without_room, stats.not_ready[0].tenant.as_str()), (2, 1, "large"));
    assert!(stats.budget.spent < all / 2);
    assert_eq!(outcome(&strict, "large", "absent").await, Outcome::Bypass);
    assert_eq!(outcome(&strict, "large", "p1").await, Outcome::Bypass);
    assert_eq!(strict.stats_of(&key("middle")).unwrap().allotted_rate, Some(0.001));
    refused(strict.rebuild(&key("large"), false).await, ErrorKind::Invalid, &["--filter-memory", "cost-first"]);
    // By weight instead.
    let heavy = Own { weight: Some(10.0), ..Own::default() };
    let weighed = file.gates().headroom(1.0).filter_bytes(all - 1, Spending::Strict).tenant("large", heavy);
    let weighed = ready(weighed).await;
    assert_eq!(weighed.stats_of(&key("large")).unwrap().stats.state, "ready");
    assert_eq!(weighed.stats().not_ready[0].tenant, "middle");
    // Cost first: everybody has a filter, looser where fewer absent keys are asked for.
    let cost = ready(file.gates().headroom(1.0).filter_bytes(all / 2, Spending::CostFirst)).await;
    assert_eq!(cost.stats().tenants.ready, 3);
    assert!(cost.stats().budget.spent <= all / 2);
    for number in 0..20_000 {
        cost.get(&key("large"), &key(&format!("absent {number}"))).await.unwrap();
    }
    let before = cost.stats_of(&key("large")).unwrap().allotted_rate.unwrap();
    cost.rebuild_all(false).await.unwrap();
    // None is as good as a filter that lets everything through: what it would take saves more where keys are asked for.
    let after = |name: &str| cost.stats_of(&key(name)).unwrap().allotted_rate.unwrap_or(1.0);
    assert!(after("large") < before, "{} {before}", after("large"));
    assert!(after("large") < after("middle"), "{} {}", after("large"), after("middle"));
    assert!(cost.stats().budget.spent <= all / 2 && after("large") > 0.001, "{:?}", cost.stats().budget);
    // A limit of its own.
    let limited = Own { filter_memory: Some(5_000), ..Own::default() };
    let limited =
        ready(file.gates().headroom(1.0).filter_bytes(1 << 30, Spending::CostFirst).tenant("large", limited)).await;
    assert_eq!(limited.stats().tenants.without_room, 1, "20,000 keys do not fit into 5 kB at any rate worth having");
}

#[tokio::test]
async fn a_restart_is_warm_and_what_is_damaged_costs_its_tenant_alone() {
    let file = File::shop(&[("a", 300), ("b", 300), ("c", 300)]);
    let data = file.folder.path().join("data");
    let tenants = ready(file.gates().data(&data)).await;
    tenants.put(&key("d"), key("p1"), row(1)).await.unwrap();
    tenants.stop().await;
    drop(tenants);
    let folders: Vec<PathBuf> =
        std::fs::read_dir(data.join("tenants")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 4);
    let bits = folders[0].join("filter.bloom");
    let mut bytes = std::fs::read(&bits).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&bits, bytes).unwrap();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = events.clone();
    let again = file.gates().data(&data).on_event(move |event| heard.lock().unwrap().push(format!("{event:?}")));
    let again = again.build().unwrap();
    let stats = again.stats();
    assert_eq!((stats.tenants.all, stats.tenants.stale, stats.tenants.loading), (4, 3, 1), "before any scan");
    assert_eq!(events.lock().unwrap().iter().filter(|event| event.contains("SavedUnusable")).count(), 1);
    again.rebuild_all(false).await.unwrap();
    assert_eq!(again.stats().tenants.ready, 4);
    assert_eq!(outcome(&again, "d", "p1").await, Outcome::Source);
    again.stop().await;
    drop(again);
    // One that lost its rows while nobody looked is not believed, though the table does not even name it any more.
    file.other.execute("DELETE FROM products WHERE tenant = 'b'", []).unwrap();
    let third = file.gates().data(&data).build().unwrap();
    let all = third.rebuild_all(false).await.unwrap();
    assert_eq!((all.built, all.failures.len(), all.failures[0].0.as_str()), (3, 1, "b"));
    assert_eq!(outcome(&third, "b", "p1").await, Outcome::Bypass);
    // The folder is this table's, and that of gates with tenants.
    refused(file.gates().data(&data).build(), ErrorKind::Invalid, &["another gate uses it"]);
    third.stop().await;
    drop(third);
    let other = crate::tenants::file(PRODUCTS);
    refused(other.gates().data(&data).build(), ErrorKind::Invalid, &["--data"]);
}

#[tokio::test]
async fn columns_that_a_filter_cannot_follow_are_refused_as_tenants_too() {
    let open = |file: &File, key: &str, tenant: &str| SqliteTenants::open(&file.path, "t", key, tenant);
    let tables = [
        (
            "CREATE TABLE t (k TEXT, o TEXT COLLATE NOCASE, UNIQUE (o, k))",
            ErrorKind::Unsupported,
            "t.o: it is compared by COLLATE NOCASE",
        ),
        ("CREATE TABLE t (k TEXT, o REAL, UNIQUE (o, k))", ErrorKind::Unsupported, "declared REAL"),
        (
            "CREATE TABLE t (k TEXT UNIQUE, o TEXT)",
            ErrorKind::Unsupported,
            "and the tenant together: run CREATE UNIQUE INDEX … ON \"t\" (\"o\", \"k\")",
        ),
        ("CREATE TABLE t (k TEXT, o TEXT, x INT, UNIQUE (o, k, x))", ErrorKind::Unsupported, "no unique index"),
        ("CREATE TABLE t (k TEXT, owner TEXT)", ErrorKind::Invalid, "owner"),
    ];
    for (sql, kind, says) in tables {
        refused(open(&file(sql), "k", "o"), kind, &[says]);
    }
    let fine = file(
        "CREATE TABLE t (k TEXT, o INTEGER, UNIQUE (k, o)); INSERT INTO t VALUES ('x', 7), ('x', 42), (NULL, 9), ('y', NULL)",
    );
    refused(open(&fine, "k", "k"), ErrorKind::Invalid, &["at once"]);
    let tenants = ready(sole(Arc::new(open(&fine, "k", "o").unwrap()))).await;
    // Tenants are parsed as the column's type says, as keys are.
    for (spelling, found) in [("042", true), (" 7", true), ("8", false)] {
        let tenant = tenants.parse_tenant(spelling).unwrap();
        assert_eq!(tenants.get(&tenant, &key("x")).await.unwrap().row.is_some(), found, "{spelling}");
    }
    assert_eq!(tenants.parse_tenant("acme").unwrap_err().kind(), ErrorKind::BadKey);
    refused(tenants.get(&key("acme"), &key("x")).await, ErrorKind::BadKey, &[]);
    // A value of another type than the column's is not left out.
    fine.other.execute_batch("INSERT INTO t VALUES ('z', 'seven')").unwrap();
    refused(tenants.rebuild_all(false).await, ErrorKind::Unsupported, &["t.o holds a value of type text"]);
}

/// The measured rate against the exact one to expect of the filters that were built, two-sided at z = 4.5, and that one
/// against the promise. A filter of a few lines is luckier or unluckier than the mean of all such: so there are forty of the
/// small ones, and how far they are apart is measured too.
#[tokio::test]
async fn each_tenant_has_the_rate_that_was_promised() {
    // Keys of each, how many tenants, the rate asked for, lookups of each.
    let sizes = [(10, 40, 0.05, 20_000), (1_000, 40, 0.02, 20_000), (100_000, 2, 0.01, 200_000)];
    let name = |keys: usize, number: usize| format!("{keys} keys, {number}");
    let rows = sizes.iter().flat_map(|&(keys, tenants, ..)| {
        let of = move |number| (0..keys).map(move |key| (name(keys, number), format!("p{key}")));
        (0..tenants).flat_map(of)
    });
    let secret = bloomgate::Secret::from_bytes([7; 32]);
    let gates = sole(MemoryTable::with(rows)).headroom(1.0).least_keys(1).secret(secret);
    let mut builder = gates.negatives(0, Duration::ZERO).audit_share(0.0);
    for (keys, tenants, rate, _) in sizes {
        for number in 0..tenants {
            builder = builder.tenant(name(keys, number), Own { rate: Some(rate), ..Own::default() });
        }
    }
    let gates = ready(builder).await;
    for (keys, tenants, asked, lookups) in sizes {
        let (mut measured, mut expected) = (Vec::new(), 0.0);
        for number in 0..tenants {
            let tenant = key(&name(keys, number));
            let passes = |number: &u64| gates.look(&tenant, &key(&format!("absent {number}"))).is_none();
            measured.push((0..lookups).filter(passes).count() as f64 / lookups as f64);
            expected += gates.stats_of(&tenant).unwrap().stats.filter.unwrap().expected_rate / tenants as f64;
        }
        let mean = measured.iter().sum::<f64>() / tenants as f64;
        let apart = measured.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (tenants - 1) as f64;
        let asked_for = tenants as f64 * lookups as f64;
        let by_chance = expected * (1.0 - expected) / asked_for;
        let spread = (apart / tenants as f64).max(by_chance).sqrt().max(1.0 / asked_for);
        assert!((mean - expected).abs() <= 4.5 * spread, "{keys}: {mean} measured, {expected} expected, {spread}");
        assert!(expected <= asked * 1.0001, "{keys}: {expected} where {asked} was asked for");
        // Whole lines of memory: a filter of ten keys is one, better than asked for; large ones are not.
        assert!(keys == 10 || expected > asked * 0.7, "{keys}: {expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_sqlite_while_tenants_come_change_and_are_rebuilt() {
    let mut all = schedules::Met::default();
    for seed in 1..=3 {
        let file = file(PRODUCTS);
        let tenants = schedules::gates(file.open()).build().unwrap();
        tenants.start();
        let met = schedules::run(tenants, seed, 8, 250, &["a", "b", "ab", "o'brien; --", "é", ""]).await;
        all = schedules::Met {
            judged: all.judged + met.judged,
            filter_no: all.filter_no + met.filter_no,
            strangers: all.strangers + met.strangers,
            rebuilds: all.rebuilds + met.rebuilds,
            scans: all.scans + met.scans,
        };
    }
    assert!(all.judged > 2000 && all.filter_no > 100 && all.rebuilds > 100 && all.scans > 5, "{all:?}");
}

#[test]
fn no_interleaving_of_tenants_gives_a_wrong_answer() {
    // BLOOMGATE_SCHEDULES: more of them, as the soak asks for.
    let schedules = std::env::var("BLOOMGATE_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut all = schedules::Met::default();
    for seed in 1..=schedules {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let met = runtime.block_on(async {
            let table = MemoryTable::with([]);
            *table.0.yields.lock().unwrap() = Some(seed);
            let tenants = schedules::gates(table).build().unwrap();
            if seed % 2 == 0 {
                tenants.start();
            }
            schedules::run(tenants, seed, 6, 60, &["a", "b", "ab", "c"]).await
        });
        all = schedules::Met {
            judged: all.judged + met.judged,
            filter_no: all.filter_no + met.filter_no,
            strangers: all.strangers + met.strangers,
            rebuilds: all.rebuilds + met.rebuilds,
            scans: all.scans + met.scans,
        };
    }
    assert!(
        all.filter_no > schedules * 5 && all.strangers > schedules && all.rebuilds > schedules && all.scans > schedules,
        "{all:?}"
    );
}
