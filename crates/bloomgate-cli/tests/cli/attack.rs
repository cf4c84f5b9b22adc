//! `attack`: the numbers add up, absent keys stay away from the database, no "no" is wrong. Times are looked at, never
//! judged.

use crate::scene::{Ran, Scene, json_list, json_object};

const FRONTS: [&str; 5] = ["nothing", "cache", "negative-cache", "gate", "gate-resp"];

/// The fields of one front.
struct Front(Vec<(String, String)>);

impl Front {
    fn all(ran: &Ran) -> Vec<Self> {
        json_list(&ran.field("fronts")).iter().map(|front| Self(json_object(front))).collect()
    }

    #[track_caller]
    fn text(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(key, _)| key == name);
        &field.unwrap_or_else(|| panic!("{name} is not in {:?}", self.0)).1
    }

    #[track_caller]
    fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name}: {:?}", self.text(name)))
    }

    #[track_caller]
    fn inner(&self, object: &str, name: &str) -> f64 {
        Front(json_object(self.text(object))).number(name)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).collect()
    }
}

const SMALL: &str = "--products 2k --requests 20k --json";

#[test]
fn absent_keys_reach_the_database_unless_a_gate_stands_in_front() {
    let scene = Scene::new();
    let ran = scene.run(&format!("attack {SMALL}")).code(0);
    assert_eq!((ran.number("requests"), ran.number("products"), ran.field("good")), (20e3, 2e3, "true".into()));
    let fronts = Front::all(&ran);
    assert_eq!(fronts.iter().map(|front| front.text("front").trim_matches('"')).collect::<Vec<_>>(), FRONTS);
    let absent = fronts[0].number("absent_lookups");
    // 19,000 of 20,000, give or take 31: within five deviations.
    assert!((18_845.0..19_155.0).contains(&absent), "{absent}");
    for front in &fronts {
        let name = front.text("front");
        // The same requests for all.
        assert_eq!(front.number("absent_lookups"), absent, "{name}");
        assert_eq!(front.number("present_lookups"), 20_000.0 - absent, "{name}");
        for wrong in ["wrong_no", "wrong_yes", "wrong_row", "errors", "puts", "deletes", "moving_lookups"] {
            assert_eq!(front.number(wrong), 0.0, "{name}: {wrong}");
        }
        let ended: f64 = json_object(front.text("outcomes")).iter().map(|(_, many)| many.parse::<f64>().unwrap()).sum();
        assert_eq!((front.number("requests"), ended), (20e3, 20e3), "{name}");
        for time in ["mean", "p50", "p99", "max"] {
            assert!(front.inner("latency_seconds", time) > 0.0, "{name}: {time}");
        }
        assert!(front.inner("latency_seconds", "p50") <= front.inner("latency_seconds", "p99"));
        if cfg!(target_os = "linux") {
            assert!(front.number("database_cpu_seconds") >= 0.0);
        }
    }
    let database = |at: usize| fronts[at].number("reached_database");
    // Products are in the caches, so what reaches the database is absent: all of it, but for the gate. A key of the
    // negative cache is never asked for twice.
    assert_eq!([database(0), database(1), database(2)], [20e3, absent, absent]);
    assert_eq!((fronts[0].text("reached_cache"), fronts[1].number("reached_cache")), ("null", 20e3));
    assert_eq!((fronts[0].text("blocked_by_filter"), fronts[2].text("false_positives")), ("null", "null"));
    for front in &fronts[3..] {
        let name = front.text("front");
        let through = front.inner("false_positives", "count");
        assert_eq!(front.number("reached_database"), through, "{name}");
        assert_eq!(front.number("blocked_by_filter"), absent - through, "{name}");
        assert_eq!(front.number("reached_cache"), 20_000.0 - absent + through, "{name}");
        assert_eq!(front.inner("false_positives", "true_negatives"), absent, "{name}");
        // 19 at most are promised, give or take 4.4.
        assert!(through <= 42.0, "{name}: {through}");
    }
}

#[test]
fn the_rate_is_that_of_the_filter_to_both_sides() {
    let scene = Scene::new();
    // What a filter with room for half as many keys again has by theory, not what was asked for (1,900 of 38,000).
    let filter: bloomgate::bloom::Blocked =
        bloomgate::bloom::Blocked::builder().items(30_000).rate(0.05).build().unwrap();
    let expected = filter.expected_rate_at(20_000);
    assert!((0.004..0.02).contains(&expected), "{expected}");
    let ran = scene.run("attack --products 20k --requests 40k --rate 5% --only gate --json").code(0);
    let front = &Front::all(&ran)[0];
    let through = front.inner("false_positives", "count");
    // About 300: 4.5 deviations are 26 % of it, the luck of one filter with its keys 11 %.
    let ratio = through / front.inner("false_positives", "true_negatives") / expected;
    assert!((0.63..1.37).contains(&ratio), "{through}: {ratio} of {expected}");
    let (low, rate, high) = (
        front.inner("false_positives", "low"),
        front.inner("false_positives", "rate"),
        front.inner("false_positives", "high"),
    );
    assert!(low < rate && rate < high && high < 1.4 * rate, "{low} {rate} {high}");
    let measured = scene.run("attack measure --products 20k --keys 60k --rate 5% --json").code(0);
    assert_eq!((measured.field("rate_is_kept"), measured.field("rate_is_expected")), ("true".into(), "true".into()));
    assert_eq!(measured.number("fake_keys"), 60e3);
    assert_eq!(measured.number("reached_database"), measured.number("false_positives"));
    let expected = measured.number("expected_rate");
    assert!((0.5..2.0).contains(&(measured.number("rate") / expected)) && expected < 0.05, "{expected}");
    let screen = scene.run("attack measure --products 2k --keys 20k").code(0).out();
    for words in ["20,000 fake keys", "promised: at most 0.1 %", "99 % interval", "reached the database"] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let scene = Scene::new();
    let counts = |seed: u32| {
        let ran = scene.run(&format!("attack {SMALL} --seed {seed} --only nothing,cache --cold --zipf 1.2")).code(0);
        let fronts = Front::all(&ran);
        let of =
            |front: &Front| ["absent_lookups", "present_lookups", "reached_database"].map(|name| front.number(name));
        // Two workers may miss the same row at once: what a cold cache saves differs by a little.
        let cold = of(&fronts[1])[2];
        (of(&fronts[0]), cold)
    };
    let (first, cold) = counts(1);
    let (again, cold_again) = counts(1);
    assert_eq!(first, again);
    assert!((cold - cold_again).abs() < 100.0 && cold < 20_000.0 - 200.0, "{cold} {cold_again}");
    assert_ne!(first, counts(2).0);
}

#[test]
fn writes_and_rebuilds_make_no_answer_wrong() {
    let scene = Scene::new();
    let command = "attack --products 2k --requests 20k --writes 10% --rebuilds 5 --absent 0.5 --json --only nothing,gate,gate-resp";
    let ran = scene.run(command).code(0);
    let fronts = Front::all(&ran);
    for front in &fronts {
        let name = front.text("front");
        for wrong in ["wrong_no", "wrong_yes", "wrong_row", "errors"] {
            assert_eq!(front.number(wrong), 0.0, "{name}: {wrong} {}", front.text("shown"));
        }
        assert_eq!(front.number("rebuilds"), if name == "\"nothing\"" { 0.0 } else { 5.0 }, "{name}");
        // 2,000 of 20,000, give or take 42; a quarter of the others are for keys that are written.
        let writes = front.number("puts") + front.number("deletes");
        assert!((1_790.0..2_210.0).contains(&writes) && front.number("deletes") > 400.0, "{name}: {writes}");
        assert!((4_100.0..4_900.0).contains(&front.number("moving_lookups")), "{name}");
        let lookups = ["present_lookups", "absent_lookups", "moving_lookups"].map(|kind| front.number(kind));
        assert_eq!(lookups.iter().sum::<f64>() + writes, 20e3, "{name}");
        assert_eq!(lookups, ["present_lookups", "absent_lookups", "moving_lookups"].map(|kind| fronts[0].number(kind)));
    }
}

#[test]
fn the_screen_and_the_picture_say_what_the_numbers_say() {
    let scene = Scene::new();
    let ran = scene.run("attack run --products 2k --requests 20k --svg attack.svg").code(0);
    assert!(ran.err().is_empty(), "no progress where there is no terminal: {}", ran.err());
    let screen = ran.out();
    for words in [
        "20,000 requests",
        "2,000 products in SQLite",
        "Lookups that reached the database",
        "Latency of a lookup",
        "nothing in front",
        "negative cache",
        "bloomgate, RESP",
        "DB CPU",
        "Wrong \"no\": 0 in 100,000 answers",
        "never reached the database",
        "█",
    ] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("keeps half of its rate"), "{screen}");
    let picture = String::from_utf8(scene.read("attack.svg")).unwrap();
    assert!(picture.starts_with("<?xml") && picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
    for words in [
        "Lookups that reach the database",
        "lookups at the database",
        "20,000",
        "p99 latency",
        "database CPU",
        "bloomgate, RESP",
        "called without a network",
    ] {
        assert!(picture.contains(words), "{words:?} is not in\n{picture}");
    }
    assert_eq!(scene.files(), ["attack.svg"], "nothing is left behind");
    let plain = scene.run("attack --ascii --products 1k --requests 2k --only cache --only gate").code(0).out();
    assert!(plain.is_ascii() && plain.contains('#') && !plain.contains("nothing in front"), "{plain}");
    let drawn = scene.run("attack --products 1k --requests 2k --only gate --svg -").code(0).out();
    assert!(drawn.starts_with("<?xml") && drawn.ends_with("</svg>\n"));
}

#[test]
fn the_json_has_the_fields_that_it_had() {
    let scene = Scene::new();
    let ran = scene.run("attack --products 1k --requests 2k --only gate --json").code(0);
    let top: Vec<String> = json_object(ran.out().trim_end()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        top.join(" "),
        "products requests workers absent_share zipf writes_share rate seed source cache resp debug_build fronts good"
    );
    let front = &Front::all(&ran)[0];
    assert_eq!(
        front.names().join(" "),
        "front requests present_lookups absent_lookups moving_lookups puts deletes rebuilds blocked_by_filter \
         reached_cache reached_database outcomes seconds requests_per_second latency_seconds database_cpu_seconds \
         false_positives wrong_no wrong_yes wrong_row errors shown"
    );
    let inner =
        |name: &str| json_object(front.text(name)).into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(" ");
    assert_eq!(inner("outcomes"), "absent-by-filter negative-cached cache source not-found bypass");
    assert_eq!(inner("latency_seconds"), "mean p50 p99 max");
    assert_eq!(inner("false_positives"), "count true_negatives rate low high kept");
}

#[test]
fn chosen_keys_break_a_public_hash_and_not_a_secret_one() {
    let scene = Scene::new();
    let ran = scene.run("attack poison --products 2k --chosen 500 --json").code(0);
    assert_eq!(ran.field("good"), "true");
    let filters: Vec<Front> = json_list(&ran.field("filters")).iter().map(|one| Front(json_object(one))).collect();
    assert_eq!(
        filters.iter().map(|one| one.text("filter")).collect::<Vec<_>>(),
        ["\"redisbloom\"", "\"xxh3\"", "\"keyed\""]
    );
    for filter in &filters {
        let rate = |of: &str| filter.inner(of, "rate");
        let name = filter.text("filter");
        // A filter that is half full, and one that is full: as promised, 1 %.
        assert!(rate("random") < 0.005 && (0.004..0.013).contains(&rate("full_of_honest")), "{name}");
        if filter.text("keyed") == "true" {
            // 500 keys at half a per cent at most: 15 would be beyond five deviations.
            assert!(filter.inner("chosen", "maybes") < 15.0, "{name}");
            assert!((0.75..1.33).contains(&(rate("full_of_chosen") / rate("full_of_honest"))), "{name}");
        } else {
            assert_eq!(rate("chosen"), 1.0, "{name}");
            assert!(rate("full_of_chosen") > 1.8 * rate("full_of_honest"), "{name}");
        }
    }
    let screen = scene.run("attack poison --products 1k --chosen 100").code(0).out();
    assert!(screen.contains("100 %") && screen.contains("Under a secret"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

#[test]
fn keys_that_got_through_come_back_in_vain() {
    let scene = Scene::new();
    let ran = scene.run("attack replay --products 20k --rate 5% --found 50 --times 40 --json").code(0);
    let of = |gate: &str| Front(json_object(&ran.field(gate)));
    let (gate, forgetful) = (of("gate"), of("forgetful_gate"));
    assert_eq!((gate.number("found"), gate.number("replays")), (50.0, 2000.0));
    // Their "no" was remembered when they were found.
    assert_eq!((gate.number("reached_database"), ran.field("good")), (0.0, "true".into()));
    // Without memory all of them are queries, but for those that wait for the answer of one that is under way.
    assert!((500.0..=2000.0).contains(&forgetful.number("reached_database")), "{}", ran.out());
    assert!(gate.number("tried") > 0.5 * 50.0 / 0.05, "{}", ran.out());
    let screen = scene.run("attack replay --products 20k --rate 5% --found 20 --times 10").code(0).out();
    assert!(screen.contains("0 of 200") && screen.contains("at most once"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

#[test]
fn what_cannot_be_found_is_not_looked_for_for_ever() {
    let scene = Scene::new();
    let said = ["next to nothing to replay", "room for 10,000 keys and holds 1,000", "--products"];
    scene.run("attack replay --found 5 --times 3 --products 1k").refused(&said);
}

#[test]
fn rates_too_small_to_meet_are_not_called_nothing() {
    let scene = Scene::new();
    let screen = scene.run("attack measure --products 1k --keys 2k --rate 1e-9").code(0).out();
    assert!(screen.contains("promised: at most 0.0000001 %"), "{screen}");
}

#[cfg(all(unix, feature = "redis"))]
#[test]
fn nothing_of_it_stays_in_a_redis_of_others() {
    let server = crate::redis_server::RedisServer::start();
    let mut client = server.client("", 0);
    redis::cmd("SET").arg("theirs").arg(1).exec(&mut client).unwrap();
    let mut left = || redis::cmd("DBSIZE").query::<u64>(&mut client).unwrap();
    let (scene, url) = (Scene::new(), server.url("", ""));
    let ran = scene.run(&format!("attack {SMALL} --redis {url} --only cache,gate")).code(0);
    assert_eq!((ran.field("cache"), left()), ("\"Redis\"".into(), 1));
    assert!(ran.err().is_empty(), "{}", ran.err());
    // Nor of one that is interrupted.
    let arguments = format!("attack --products 5k --requests 1G --redis {url} --only cache --quiet");
    let mut running = crate::service::bloomgate(&scene, &arguments, &[])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while left() < 4_000 {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let told = std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(told.success());
    running.wait().unwrap();
    assert_eq!(left(), 1);
}

#[cfg(all(unix, feature = "postgres"))]
#[test]
fn a_real_postgresql_is_attacked_and_left_as_it_was() {
    let server = crate::postgres::Server::start();
    let scene = Scene::new();
    let address = server.address("tester");
    let ran = scene.run(&format!("attack {SMALL} --source {address} --only nothing,gate")).code(0);
    assert_eq!(ran.field("source"), "\"PostgreSQL\"");
    let fronts = Front::all(&ran);
    assert_eq!(fronts[0].number("reached_database"), 20e3);
    assert!(fronts[1].number("reached_database") <= 42.0, "{}", fronts[1].text("reached_database"));
    // 20,000 queries take some of a processor's time, 42 take less.
    if cfg!(target_os = "linux") {
        let cpu = [&fronts[0], &fronts[1]].map(|front| front.number("database_cpu_seconds"));
        assert!(cpu[0] > 0.05 && cpu[1] < cpu[0] / 2.0, "{cpu:?}");
    }
    let written = scene.run(&format!("attack {SMALL} --source {address} --only gate --writes 5% --rebuilds 3")).code(0);
    let front = &Front::all(&written)[0];
    assert_eq!((front.number("wrong_no"), front.number("rebuilds")), (0.0, 3.0), "{}", front.text("shown"));
    let tables = server.connect().query("SELECT 1 FROM pg_tables WHERE tablename LIKE 'bloomgate%'", &[]);
    assert!(tables.unwrap().is_empty(), "our table is removed");
    scene
        .run(&format!("attack {SMALL} --source {}", address.replace("tester", "nobody-here")))
        .refused(&["nobody-here"]);
}

#[test]
fn nonsense_is_refused() {
    let scene = Scene::new();
    for (arguments, said) in [
        ("--products 0", &["1 to 100,000,000 products"][..]),
        ("--requests 0", &["requests"]),
        ("--workers 0", &["workers"]),
        ("--absent 2", &["share"]),
        ("--writes 90%", &["at most 0.5"]),
        ("--rate 5", &["write 5%"]),
        ("--zipf 9", &["0 to 5"]),
        ("--only everything", &["negative-cache"]),
        ("--source mysql://here", &["postgres://"]),
        ("--source postgres://me:secret@127.0.0.1:1/x", &["postgres://127.0.0.1:1/x: ", "refused"]),
        ("--json --svg -", &["standard output"]),
        ("--products 1k --requests 1k --redis nowhere --only cache", &["redis://HOST"]),
        ("poison --products 2M", &["1,000,000"]),
        ("replay --times 0", &["of them"]),
        ("measure --keys 0", &["requests"]),
    ] {
        scene.run(&format!("attack {arguments}")).refused(said);
    }
}

/// Somebody sits before it: `script` gives it a terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_how_far_it_is_while_it_runs() {
    let scene = Scene::new();
    let command = scene.command("attack --products 2k --requests 60k --only nothing");
    let arguments: Vec<&str> = command.get_args().map(|argument| argument.to_str().unwrap()).collect();
    let inner = format!("stty cols 100 rows 30; exec {} {}", command.get_program().display(), arguments.join(" "));
    let ran = std::process::Command::new("script")
        .args(["-qefc", &inner, "/dev/null"])
        .current_dir(scene.path(""))
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{shown}");
    let position = |text: &str| text.rsplit([' ', ']']).next().unwrap().replace(',', "").parse::<u32>().ok();
    let positions: Vec<u32> = shown.split("/60,000").filter_map(position).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let between = positions.iter().filter(|&&position| 0 < position && position < 60_000).count();
    assert!(between > 0, "{positions:?} in\n{shown}");
    // The bar is gone from what stays.
    assert!(shown.contains("nothing in front"), "{shown}");
    assert!(!shown.rsplit("\x1b[2K").next().unwrap().contains("/60,000"), "{shown}");
}
