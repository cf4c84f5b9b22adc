//! `gate --tenant`: many tenants before one table of a real SQLite file; how it is told, what it answers, and how it comes back.

use rusqlite::Connection;

use crate::scene::Scene;
use crate::service::{self, Running};

/// The usual source.
const SHOPS: &str = "--source sqlite:shop.db --table products --key sku --tenant shop --writers sole";

/// A folder with three shops.
fn shops() -> Scene {
    let scene = Scene::new();
    let mut database = Connection::open(scene.path("shop.db")).unwrap();
    let table = "CREATE TABLE products (shop TEXT, sku TEXT, price INTEGER, PRIMARY KEY (shop, sku)) WITHOUT ROWID";
    database.execute_batch(table).unwrap();
    let transaction = database.transaction().unwrap();
    for (shop, products) in [("acme", 10), ("globex", 500), ("initech", 4000)] {
        for number in 0..products {
            let row = (shop, format!("sku-{number}"), number);
            transaction.execute("INSERT INTO products VALUES (?1, ?2, ?3)", row).unwrap();
        }
    }
    transaction.commit().unwrap();
    scene
}

fn ready(scene: &Scene, arguments: &str) -> Running {
    let gate = Running::gate(scene, arguments, &[]);
    gate.wait_for("bloomgate: filters ready after ");
    gate
}

#[test]
fn each_tenant_is_answered_for_by_itself_and_comes_back_warm() {
    let scene = shops();
    let gate = ready(&scene, &format!("{SHOPS} --allow-writes"));
    assert!(gate.said().contains("3 tenants, 4,510 keys; absent keys are answered here"), "{}", gate.said());
    assert_eq!(gate.get("/v1/products/acme/sku-7").json()["price"], 7);
    assert_eq!(gate.get("/v1/products/acme/sku-77").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(gate.get("/v1/products/globex/sku-77").outcome(), (200, Some("source")));
    assert_eq!(gate.get("/v1/products/nobody/sku-7").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(gate.ask("PUT", "/v1/products/new/sku-1", "", r#"{"price":5}"#).status, 204);
    assert_eq!(gate.get("/v1/products/new/sku-1").json()["shop"], "new");
    assert_eq!(gate.ask("POST", "/rebuild/globex?wait=true", "", "").json()["version"], 2);
    assert_eq!(gate.get("/stats/acme").json()["filter"]["version"], 1);
    gate.wait_for("bloomgate: tenant \"globex\": filter rebuilt in ");
    let said = gate.stop();
    assert!(said.ends_with("bloomgate: stopped\n"), "{said}");
    let again = ready(&scene, SHOPS);
    assert!(again.said().contains("  filters of 4 tenants from the last run"), "{}", again.said());
    assert_eq!(again.get("/v1/products/new/sku-1").status, 200);
    assert_eq!(again.get("/stats/globex").json()["filter"]["version"], 3);
    assert_eq!(again.ask("PUT", "/v1/products/new/sku-2", "", "{}").status, 405, "writes were not allowed this time");
    again.stop();
    // The folder is that of gates with tenants.
    let without = "--source sqlite:shop.db --table products --key shop";
    service::refused(
        &scene,
        &format!("gate --listen 127.0.0.1:0 {without}"),
        &[],
        &["no unique index covers it alone"],
    );
}

#[test]
fn tenants_have_settings_of_their_own_and_mistakes_in_them_are_told() {
    let scene = shops();
    let file = |own: &str| {
        format!(
            "source = \"sqlite:shop.db\"\ntable = \"products\"\nkey = \"sku\"\ntenant = \"shop\"\nwriters = \"sole\"\ndata = \
             \"none\"\nfilter-memory = \"6kB\"\ntenant-budget = \"cost-first\"\n{own}"
        )
    };
    let own = "[tenants.acme]\nrate = \"0.01%\"\npolicy = \"closed\"\nweight = 10\n[tenants.globx]\nfilter-memory = \"1kB\"\n";
    scene.write("gate.toml", file(own));
    let gate = ready(&scene, "--config gate.toml");
    gate.wait_for("note: the tenant \"globx\" has settings of its own and no rows; did you mean \"globex\"?");
    let acme = gate.get("/stats/acme").json();
    assert_eq!((&acme["asked_rate"], &acme["policy"], &acme["weight"]), (&1e-4.into(), &"closed".into(), &10.0.into()));
    let all = gate.get("/stats").json();
    assert_eq!((&all["tenants"]["ready"], &all["budget"]["spending"]), (&3.into(), &"cost-first".into()));
    assert!(all["budget"]["spent"].as_u64().unwrap() <= 6000 && all["tenants"]["loosened"] != 0, "{all}");
    gate.stop();
    for (own, says) in [
        ("[tenants.acme]\nrat = 1\n", &["[tenants.acme]", "did you mean 'rate'"][..]),
        ("[tenants.acme]\npolicy = \"ajar\"\n", &["open, closed, shadow"]),
        ("[tenants.acme]\nweight = \"much\"\n", &["no number"]),
        ("[tenants.acme]\nweight = 0\n", &["acme", "weight"]),
        ("[tenants]\nacme = 1\n", &["[tenants.acme] is a section"]),
    ] {
        scene.write("wrong.toml", file(own));
        service::refused(&scene, "gate --listen 127.0.0.1:0 --config wrong.toml", &[], says);
    }
    scene.write("lone.toml", "[tenants.acme]\nrate = 0.1\n");
    let lone = "gate --listen 127.0.0.1:0 --config lone.toml --source sqlite:shop.db --table products --key sku";
    service::refused(&scene, lone, &[], &["acme", "without --tenant"]);
    let refused = |arguments: &str, says: &[&str]| {
        service::refused(&scene, &format!("gate --listen 127.0.0.1:0 {arguments}"), &[], says)
    };
    refused("--source http://h/{key} --table t --tenant shop", &["HTTP source", "whose they are"]);
    refused(&format!("{SHOPS} --filter redis://localhost"), &["--filter redis://"]);
    refused(&format!("{SHOPS} --tenant-budget lavish"), &["strict, cost-first"]);
    // A feed may tell whose a row is, and no gate with tenants follows one yet.
    let feed = SHOPS.replace("--writers sole", "--writers feed");
    let words = ["tenants and writers = feed do not go together yet", "writers = sole", "leave the tenants out"];
    refused(&feed, &words);
    refused(&format!("{SHOPS} --tenants-most 0"), &["not between 1 and"]);
    refused("--source sqlite:shop.db --table products --key sku --tenant shp", &["shop"]);
    // More tenants than allowed: lookups go on to the source, and what to do is told.
    let few = Running::gate(&scene, &format!("{SHOPS} --data none --tenants-most 2"), &[]);
    few.wait_for("error: the filters of all tenants could not be built");
    assert!(few.said().contains("--tenants-most"));
    assert_eq!(few.get("/v1/products/acme/sku-7").outcome(), (200, Some("bypass")));
    few.stop();
}
