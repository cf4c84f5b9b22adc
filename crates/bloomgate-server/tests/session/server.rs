//! Commands that tell about the server and steer it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bloomgate::AnyFilter;
use bloomgate_server::Settings;
use bloomgate_server::logging::Log;
use bloomgate_server::session::desk::Keeper;
use bloomgate_server::session::{Next, info};

use crate::talk::{NOW_MS, Talk, desk, engine};

#[test]
fn who_says_nothing_is_reached_from_this_machine_alone() {
    let settings = Settings::default();
    assert_eq!(settings.resp, "127.0.0.1:6479".parse().ok());
    assert_eq!(
        (settings.tls, settings.http.address()),
        (None, None),
        "nothing else is listened on unless it is asked for"
    );
}

/// A keeper that counts what it is asked to do.
#[derive(Debug, Default)]
struct Counting {
    saves: AtomicU64,
    /// How often to fail.
    failures: AtomicU64,
    images: AtomicU64,
}

impl Keeper for Counting {
    fn save(&self) -> Result<(), String> {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.fetch_sub(1, Ordering::Relaxed);
            return Err("no space left on the device".to_owned());
        }
        self.saves.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn save_in_background(&self) -> bool {
        self.saves.fetch_add(1, Ordering::Relaxed) == 0
    }
    fn last_save_s(&self) -> u64 {
        1_767_225_601
    }
    fn is_saving(&self) -> bool {
        true
    }
    fn last_error(&self) -> Option<String> {
        Some("two\nlines".to_owned())
    }
    fn write_image(&self, id: u64, filter: &AnyFilter) -> Result<std::sync::Arc<str>, String> {
        self.images.fetch_add(1, Ordering::Relaxed);
        filter.to_bytes().map(|bytes| format!("{id}-{}", bytes.len()).into()).map_err(|error| error.to_string())
    }
    fn spool(&self, _: u64) -> Result<bloomgate_server::store::Spool, String> {
        Err("nobody fetches anything here".to_owned())
    }
    fn backup(&self, folder: &str) -> Result<String, String> {
        Ok(folder.to_owned())
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("snapshot_bytes", "17".to_owned())]
    }
}

fn kept() -> (Talk, Arc<Counting>) {
    let keeper = Arc::new(Counting::default());
    let desk = desk();
    desk.keeper.set(keeper.clone()).unwrap();
    (Talk::with(engine(64 << 20), desk), keeper)
}

/// INFO as a client reads it: names and values of each section.
fn sections(talk: &Talk, asked: &[&str]) -> HashMap<String, HashMap<String, String>> {
    let asked: Vec<&[u8]> = asked.iter().map(|section| section.as_bytes()).collect();
    let text = info::text(&talk.engine, &talk.desk, &asked);
    assert!(text.is_empty() || text.ends_with("\r\n"));
    let mut sections: HashMap<String, HashMap<String, String>> = HashMap::new();
    let mut name = String::new();
    for line in text.split("\r\n").filter(|line| !line.is_empty()) {
        assert!(!line.contains(['\r', '\n']), "{line:?}");
        if let Some(title) = line.strip_prefix("# ") {
            name = title.to_owned();
            sections.entry(name.clone()).or_default();
            continue;
        }
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{line} is no name and value"));
        sections.get_mut(&name).unwrap().insert(key.to_owned(), value.to_owned());
    }
    sections
}

#[test]
fn info_is_what_clients_of_redis_read() {
    let mut talk = Talk::new();
    talk.say("BF.MADD seen a b");
    talk.say("BF.EXISTS seen a");
    talk.say("CF.ADD carts a");
    talk.say("EXPIRE carts 100");
    let all = sections(&talk, &[]);
    let get = |section: &str, name: &str| all[section].get(name).map(String::as_str);
    assert_eq!(get("Server", "redis_version"), Some("8.0.0"));
    assert_eq!(get("Server", "redis_mode"), Some("standalone"));
    assert_eq!(get("Server", "tcp_port"), Some("6479"));
    assert_eq!(get("Server", "run_id"), Some("0123456789abcdef0123456789abcdef01234567"));
    assert_eq!(get("Clients", "connected_clients"), Some("1"));
    assert_eq!(get("Memory", "used_memory"), Some(&*talk.engine.budget.used().to_string()));
    assert_eq!(get("Memory", "maxmemory"), Some("268435456"));
    assert_eq!(get("Memory", "maxmemory_human"), Some("256.00M"));
    assert_eq!(get("Persistence", "loading"), Some("0"));
    assert_eq!(get("Persistence", "aof_enabled"), Some("0"));
    assert_eq!(get("Persistence", "rdb_last_save_time"), Some("0"));
    assert_eq!(get("Stats", "items_added"), Some("3"));
    assert_eq!(get("Stats", "items_looked_up"), Some("1"));
    assert_eq!(get("Stats", "total_commands_processed"), Some("4"));
    assert_eq!(get("Replication", "role"), Some("master"));
    assert_eq!(get("Cluster", "cluster_enabled"), Some("0"));
    assert_eq!(get("Keyspace", "db0"), Some("keys=2,expires=1,avg_ttl=0"));
    assert_eq!(get("Bloomgate", "keyed"), Some("1"));
    assert_eq!(get("Bloomgate", "filters_scalable"), Some("1"));
    assert_eq!(get("Bloomgate", "filters_growing_cuckoo"), Some("1"));
    assert_eq!(get("Bloomgate", "fsync"), Some("nothing-is-kept"));
    assert!(get("Server", "uptime_in_seconds").unwrap().parse::<u64>().unwrap() < 60);
    assert!(!all.contains_key("Commandstats"));
}

#[test]
fn every_command_is_counted_and_timed() {
    let mut talk = Talk::new();
    let items: Vec<String> = (0..1_000).map(|item| format!("item-{item}")).collect();
    assert_eq!(talk.each("BF.ADD", "seen", &items).len(), 1_000);
    for item in &items[..100] {
        talk.say(&format!("BF.EXISTS seen {item}"));
        talk.say(&format!("BF.MEXISTS seen {item} other"));
    }
    talk.say("CF.ADD carts a");
    // Run and answered with an error; refused before it was run; of a container; in a transaction; none.
    assert!(talk.say("BF.EXISTS carts a").starts_with("-WRONGTYPE"));
    assert!(talk.say("CF.EXISTS seen a").starts_with("-WRONGTYPE"));
    assert!(talk.say("CF.ADD carts").starts_with("-ERR wrong number"));
    talk.say("CLIENT ID");
    talk.check("MULTI => +OK\nCF.ADD carts b => +QUEUED\nBF.ADD seen new => +QUEUED\nEXEC => *2 :1 :1");
    talk.say("NOSUCH");
    let all = sections(&talk, &["commandstats"]);
    let stats = &all["Commandstats"];
    let counts = |name: &str| {
        let line = stats.get(&format!("cmdstat_{name}")).unwrap_or_else(|| panic!("{name} is not in {stats:?}"));
        let fields: HashMap<&str, f64> =
            line.split(',').map(|pair| pair.split_once('=').unwrap()).map(|(k, v)| (k, v.parse().unwrap())).collect();
        assert!(fields["usec_per_call"] >= 0.0 && fields["usec"] >= 0.0, "{line}");
        [fields["calls"] as u64, fields["rejected_calls"] as u64, fields["failed_calls"] as u64]
    };
    assert_eq!(counts("bf.add"), [1_001, 0, 0]);
    assert_eq!(counts("bf.exists"), [101, 0, 1]);
    assert_eq!(counts("bf.mexists"), [100, 0, 0]);
    assert_eq!(counts("cf.add"), [2, 1, 0]);
    assert_eq!(counts("cf.exists"), [1, 0, 1]);
    assert_eq!(counts("client|id"), [1, 0, 0]);
    assert_eq!((counts("multi"), counts("exec")), ([1, 0, 0], [1, 0, 0]));
    assert_eq!(stats.len(), 8);
    // The clock was looked at once in 16 batches, for all calls up to then.
    let told: HashMap<&str, _> = talk.desk.tallies.told().map(|(spec, told)| (spec.name, told)).collect();
    let timed = |name: &str| told[name].histogram().last().unwrap().1;
    assert!((85..=101).contains(&timed("bf.exists")) && (85..=100).contains(&timed("bf.mexists")));
    assert_eq!((timed("cf.add"), timed("client|id")), (2, 1));
    let reply = talk.say("LATENCY HISTOGRAM client CF.ADD nosuch");
    assert!(reply.starts_with("*4 $6 cf.add *4 $5 calls :2 $14 histogram_usec *"), "{reply}");
    assert!(reply.contains("$9 client|id *4 $5 calls :1 $14 histogram_usec *2 :"), "{reply}");
    assert_eq!(talk.say("CONFIG RESETSTAT"), "+OK");
    assert_eq!(talk.desk.tallies.told().map(|(spec, _)| spec.name).collect::<Vec<_>>(), ["config|resetstat"]);
}

#[test]
fn info_tells_the_sections_that_are_asked_for() {
    let talk = Talk::new();
    let names = |asked: &[&str]| {
        let mut names: Vec<String> = sections(&talk, asked).into_keys().collect();
        names.sort();
        names
    };
    assert_eq!(names(&["SERVER"]), ["Server"]);
    assert_eq!(names(&["cpu", "memory", "cpu"]), ["CPU", "Memory"]);
    assert_eq!(names(&["no-such-section"]), Vec::<String>::new());
    assert_eq!(names(&["default"]), names(&[]));
    assert_eq!(names(&["all"]), names(&["everything"]));
    assert_eq!(names(&["all"]).len(), 15);
    assert_eq!(names(&["default", "commandstats"]).len(), 15);
}

#[test]
fn info_is_text_in_both_protocols() {
    let mut talk = Talk::new();
    assert!(talk.say("INFO replication").starts_with("$"));
    assert_eq!(talk.say("INFO nothing"), "$0 ");
    let mut talk = talk.resp3();
    let reply = talk.say("INFO replication");
    assert!(reply.starts_with('=') && reply.contains(" txt:# Replication role:master"), "{reply}");
}

#[test]
fn persistence_is_told_by_who_keeps_the_filters() {
    let (talk, _) = kept();
    let persistence = sections(&talk, &["persistence"]).remove("Persistence").unwrap();
    assert_eq!(persistence["snapshot_bytes"], "17");
    assert_eq!(persistence["rdb_bgsave_in_progress"], "1");
    assert_eq!(persistence["rdb_last_bgsave_status"], "err");
    assert_eq!(persistence["last_save_error"], "two lines");
    assert_eq!(persistence["rdb_last_save_time"], "1767225601");
}

#[test]
fn snapshots_are_made_by_the_keeper_or_refused_without_one() {
    let (mut talk, keeper) = kept();
    talk.check(
        "BGSAVE => +Background saving started
         BGSAVE => -ERR Background save already in progress
         BGSAVE SCHEDULE => -ERR Background save already in progress
         SAVE => +OK
         LASTSAVE => :1767225601",
    );
    keeper.failures.store(1, Ordering::Relaxed);
    talk.check("SAVE => -ERR the snapshot failed, the log goes on: no space left on the device");
    let mut talk = Talk::new();
    let nothing = "-ERR the server keeps nothing on disk: start it with a data folder (--data DIR)";
    talk.check(&format!("SAVE => {nothing}\nBGSAVE => {nothing}\nLASTSAVE => :0"));
}

#[test]
fn a_large_filter_goes_to_a_file_and_a_small_one_does_not() {
    let (mut talk, keeper) = kept();
    talk.check(
        "BF.RESERVE small 0.01 1000 => +OK
         COPY small other => :1",
    );
    assert_eq!(keeper.images.load(Ordering::Relaxed), 0);
    talk.check(
        "BF.RESERVE large 0.01 2000000 => +OK
         COPY large other REPLACE => :1",
    );
    assert_eq!(keeper.images.load(Ordering::Relaxed), 1);
}

#[test]
fn settings_are_found_by_pattern_and_few_can_be_changed() {
    let mut talk = Talk::new();
    talk.check(
        "CONFIG GET bf-* => *6 $13 bf-error-rate $4 0.01 $15 bf-initial-size $3 100 $19 bf-expansion-factor $1 2
         CONFIG GET PORT => *2 $4 port $4 6479
         CONFIG GET databases maxmemory d*s => *4 $9 maxmemory $9 268435456 $9 databases $1 1
         CONFIG GET save => *2 $4 save $0\x20
         CONFIG GET appendonly => *2 $10 appendonly $2 no
         CONFIG GET appendfsync => *2 $11 appendfsync $8 everysec
         CONFIG GET nobody => *0
         CONFIG GET requirepass => *0
         CONFIG SET slowlog-log-slower-than 0 => +OK
         CONFIG GET slowlog-log-slower-than => *2 $23 slowlog-log-slower-than $1 0
         CONFIG SET SLOWLOG-log-slower-than -1 => +OK
         CONFIG GET slowlog-log-slower-than => *2 $23 slowlog-log-slower-than $2 -1
         CONFIG SET slowlog-log-slower-than x => -ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument couldn't be parsed into an integer
         CONFIG SET slowlog-log-slower-than -2 => -ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument must be between -1 and 9223372036854775807 inclusive
         CONFIG SET fsync never => -ERR CONFIG SET failed (possibly related to argument 'fsync') - can't set immutable config: it needs a restart (change its flag, its variable or its line in the file of --config)
         CONFIG SET password open-sesame => -ERR CONFIG SET failed (possibly related to argument 'password') - can't set immutable config: it needs a restart (change its flag, its variable or its line in the file of --config)
         CONFIG SET requirepass open-sesame => -ERR CONFIG SET failed (possibly related to argument 'requirepass') - can't set immutable config: here it is password, which needs a restart (change its flag, its variable or its line in the file of --config)
         CONFIG SET databases 2 => -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config: it tells what this server is like
         CONFIG SET max-client 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'max-client'; did you mean 'max-clients'?
         CONFIG SET nobody 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'nobody'
         CONFIG SET slowlog-log-slower-than 5 port 1 => -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config: here it is resp, which needs a restart (change its flag, its variable or its line in the file of --config)
         CONFIG GET slowlog-log-slower-than => *2 $23 slowlog-log-slower-than $2 -1
         CONFIG REWRITE => -ERR The server is running without a config file: start it with --config FILE, or change the flags or variables it is started with",
    );
    let mut talk = talk.resp3();
    talk.check("CONFIG GET cf-max-* => %2 $17 cf-max-iterations $2 20 $17 cf-max-expansions $2 64");
    assert!(talk.desk.totals().commands > 0);
    talk.check("CONFIG RESETSTAT => +OK");
    // The command that resets is counted itself.
    assert_eq!(talk.desk.totals().commands, 1);
}

#[test]
fn limits_and_defaults_change_all_at_once_or_not_at_all() {
    let mut talk = Talk::new();
    talk.check(
        "CONFIG SET bf-error-rate 0.001 bf-initial-size 5000 bf-expansion-factor 4 => +OK
         CONFIG GET bf-* => *6 $13 bf-error-rate $5 0.001 $15 bf-initial-size $4 5000 $19 bf-expansion-factor $1 4
         BF.ADD made a => :1
         BF.INFO made CAPACITY => *1 :5000
         BF.INFO made EXPANSION => *1 :4
         CONFIG SET CF-INITIAL-SIZE 9000 cf-bucket-size 4 => +OK
         CF.ADD chain a => :1
         CONFIG GET cf-initial-size cf-bucket-size => *4 $14 cf-bucket-size $1 4 $15 cf-initial-size $4 9000
         CONFIG SET bf-initial-size 7 bf-error-rate 2 => -ERR CONFIG SET failed (possibly related to argument 'bf-error-rate') - a rate lies between 0 and 1, both excluded, not 2; 1 % is 0.01
         CONFIG SET max-memory 1GB max-clients 0 => -ERR CONFIG SET failed (possibly related to argument 'max-clients') - 0 is not between 1 and 1048576
         CONFIG SET maxmemory 1GB max-memory 2GB => -ERR CONFIG SET failed (possibly related to argument 'max-memory') - duplicate parameter
         CONFIG GET bf-initial-size max-memory => *4 $10 max-memory $9 268435456 $15 bf-initial-size $4 5000
         CONFIG SET max-memory 1MB => +OK
         CONFIG GET max*memory => *6 $10 max-memory $7 1000000 $17 max-filter-memory $7 1000000 $9 maxmemory $7 1000000",
    );
    let refused = talk.say("BF.RESERVE large 0.001 1000000");
    assert!(refused.contains("are left under max-filter-memory"), "{refused}");
    talk.check(
        "CONFIG SET maxmemory 100MB max-filter-memory 50MB max-filters 3 => +OK
         BF.RESERVE large 0.001 1000000 => +OK
         BF.RESERVE more 0.001 100 => -ERR there are 3 filters, the most that may be: delete some, or raise max-filters
         CONFIG SET max-filters 4 => +OK
         BF.RESERVE more 0.001 100 => +OK
         CONFIG SET timeout 60 maxclients 7 max-clients-per-address 3 output-stall 1500ms => +OK
         CONFIG GET timeout idle-timeout *clients* output-stall => *12 $11 max-clients $1 7 $23 max-clients-per-address $1 3 $12 idle-timeout $3 60s $12 output-stall $6 1500ms $7 timeout $2 60 $10 maxclients $1 7
         CONFIG SET log-level loud => -ERR CONFIG SET failed (possibly related to argument 'log-level') - 'loud' is no level; there are error, warn, info and debug",
    );
    assert_eq!(talk.desk.rules.max_clients(), 7);
    assert!(talk.say("INFO clients").contains("maxclients:7"));
    assert!(talk.say("INFO memory").contains("memory_limit_source:"));
    // What is longer than any value, and what is no text.
    assert!(talk.say(&format!("CONFIG SET max-memory {}", "1".repeat(65))).contains("too long"));
    assert!(talk.send(&[b"CONFIG", b"SET", b"max-memory", b"\xff"]).ends_with(b"the value is no text\r\n"));
}

#[test]
fn changed_settings_are_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "# ours\nmax-clients = 5\nresp = \"7000\"\n").unwrap();
    let settings = Settings { config: Some(path.clone()), ..Settings::default() };
    let mut talk = Talk::with(engine(1 << 20), desk().told(&settings, Log::silent()));
    talk.check("CONFIG REWRITE => +OK");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# ours\nmax-clients = 5\nresp = \"7000\"\n");
    talk.check(
        "CONFIG SET maxclients 9 bf-error-rate 0.002 => +OK
         CONFIG SET bf-error-rate 0.003 => +OK
         CONFIG REWRITE => +OK",
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "# ours\nmax-clients = 9\nresp = \"7000\"\nbf-error-rate = \"0.003\"\n");
    std::fs::remove_file(&path).unwrap();
    assert!(talk.say("CONFIG REWRITE").starts_with("-ERR Rewriting config file: "));
}

#[test]
fn slow_commands_are_kept_newest_first() {
    let mut talk = Talk::new();
    talk.check(
        "SLOWLOG LEN => :0
         SLOWLOG GET => *0
         CONFIG SET slowlog-log-slower-than 0 => +OK
         CLIENT SETNAME loader => +OK
         TTL first => :-2
         TTL second => :-2
         CONFIG SET slowlog-log-slower-than -1 => +OK
         SLOWLOG LEN => :3",
    );
    // The one that begins the noting is noted, the one that ends it is not.
    let log = talk.say("SLOWLOG GET 1");
    assert!(log.starts_with("*1 *6 :2 :"), "{log}");
    assert!(log.contains("*2 $3 TTL $6 second $15 127.0.0.1:50000 $6 loader"), "{log}");
    assert!(!log.contains("first"));
    assert!(talk.say("SLOWLOG GET -1").contains("first"));
    talk.check("SLOWLOG RESET => +OK\nSLOWLOG LEN => :0");
}

#[test]
fn a_command_that_a_worker_runs_is_noted_too() {
    let mut talk = Talk::new();
    talk.check("BF.RESERVE seen 0.001 1000000 => +OK\nCONFIG SET slowlog-log-slower-than 0 => +OK");
    assert_eq!(talk.say("BG.DIGEST seen").len(), "$64 ".len() + 64);
    let log = talk.say("SLOWLOG GET 1");
    assert!(log.contains("*2 $9 BG.DIGEST $4 seen $15 127.0.0.1:50000"), "{log}");
}

#[test]
fn clients_are_listed_and_ended() {
    let mut talk = Talk::new();
    let mut other = talk.another();
    other.say("CLIENT SETNAME other");
    other.say("BF.ADD f a");
    let list = talk.say("CLIENT LIST");
    assert!(
        list.contains("id=1 addr=127.0.0.1:50000 name= age=0 db=0 resp=2 lib-name= lib-ver= cmd=client|list"),
        "{list}"
    );
    assert!(list.contains("id=2 addr=127.0.0.1:50000 name=other age=0 db=0 resp=2 lib-name= lib-ver= cmd=bf.add"));
    let only = talk.say("CLIENT LIST ID 2 9");
    assert!(only.contains("id=2") && !only.contains("id=1 "), "{only}");
    talk.check(
        "CLIENT LIST TYPE replica => $0\x20
         CLIENT LIST TYPE elephant => -ERR Unknown client type 'elephant'
         CLIENT KILL 127.0.0.1:1 => -ERR No such client
         CLIENT KILL ID 9 => :0
         CLIENT KILL ID 2 LADDR 127.0.0.1:6479 => -ERR by which of its addresses the server was reached is not kept: use ID or ADDR
         CLIENT KILL USER nobody SKIPME no => -ERR No such user 'nobody'
         CLIENT KILL TYPE replica SKIPME no => :0
         CLIENT KILL ID 1 SKIPME yes => :0
         CLIENT KILL USER default SKIPME yes => :1",
    );
    assert!(other.session.client.is_killed() && !talk.session.client.is_killed());
    talk.check("CLIENT KILL ID 1 SKIPME no => :1");
    assert!(talk.session.client.is_killed());
    talk.check(
        "CLIENT PAUSE 100 => -ERR clients are not paused: stop the writers, or copy the filter (BG.COPY)
         CLIENT UNPAUSE => +OK",
    );
}

#[test]
fn small_facts() {
    let mut talk = Talk::new();
    let seconds = NOW_MS / 1_000;
    talk.check(&format!(
        "TIME => *2 $10 {seconds} $1 0
         ROLE => *3 $6 master :0 *0
         WAIT 1 100 => :0
         LATENCY LATEST => *0
         LATENCY HISTORY fsync => *0
         LATENCY RESET => :0
         LATENCY HISTOGRAM bf.add => *0
         MODULE LIST => *2 *8 $4 name $2 bf $3 ver :80800 $4 path $0  $4 args *0 *8 $4 name $9 bloomgate $3 ver :OWN $4 path $0  $4 args *0"
    ).replace("OWN", &bloomgate_server::session::server::own_version().to_string()));
    assert!(talk.say("LATENCY DOCTOR").contains("Nothing is written to a disk."));
    assert!(talk.say("MEMORY DOCTOR").contains("Filters take 0 of 268435456 bytes, 0.0 %. There is room."));
    assert!(talk.say("MEMORY STATS").contains("$15 total.allocated :0 $13 dataset.bytes :0 $10 keys.count :0"));
    for container in ["ACL", "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "MODULE", "OBJECT", "SLOWLOG"] {
        let help = talk.say(&format!("{container} HELP"));
        assert!(help.contains(&format!("+{container} <subcommand>")), "{help}");
    }
    let mut talk = talk.resp3();
    assert!(talk.say("LATENCY HISTOGRAM bf.add").starts_with("%0"));
    assert!(talk.say("MEMORY STATS").starts_with('%'));
    assert!(talk.say("MEMORY DOCTOR").starts_with('='));
    assert!(talk.say("MODULE LIST").starts_with("*2 %4 $4 name $2 bf"));
}

#[test]
fn memory_that_is_nearly_spent_is_said() {
    let mut talk = Talk::with(engine(1_500_000), desk());
    talk.check("BF.RESERVE f 0.01 1000000 => +OK");
    let doctor = talk.say("MEMORY DOCTOR");
    assert!(doctor.contains("raise max-memory"), "{doctor}");
}

#[test]
fn filters_that_cannot_grow_are_seen_coming() {
    let mut talk = Talk::with(engine(3_000_000), desk());
    talk.check("BF.RESERVE f 0.01 1000000 => +OK");
    let doctor = talk.say("MEMORY DOCTOR");
    assert!(doctor.contains("There is room, but not for"), "{doctor}");
    assert!(Talk::new().say("MEMORY DOCTOR").contains("There is room."));
}

/// As in Redis: a command that is not there, or has too many words, ends the transaction; one whose words say nothing that can be
/// done is answered by EXEC in its place.
#[test]
fn wrong_arguments_are_told_by_exec_and_the_others_run() {
    let mut talk = Talk::new();
    talk.check(
        "MULTI => +OK
         BF.ADD a x => +QUEUED
         BF.RESERVE b x 100 => +QUEUED
         PEXPIRE a soon => +QUEUED
         BF.INSERT c NOSUCH 3 ITEMS y => +QUEUED
         BF.ADD a y => +QUEUED",
    );
    let reply = talk.say("EXEC");
    assert!(
        reply.starts_with(
            "*5 :1 -ERR bad error rate -ERR value is not an integer or out of range -Unknown argument received"
        ),
        "{reply}"
    );
    assert!(reply.ends_with(" :1"), "{reply}");
    talk.check("BF.MEXISTS a x y => *2 :1 :1\nEXISTS b c => :0");
    for wrong in ["NOSUCH", "BF.ADD a", "BF.RESERVE b x", "SAVE now"] {
        talk.check("MULTI => +OK\nBF.ADD a z => +QUEUED");
        assert!(talk.say(wrong).starts_with("-ERR"), "{wrong}");
        talk.check("EXEC => -EXECABORT Transaction discarded because of previous errors.\nBF.EXISTS a z => :0");
    }
}

#[test]
fn times_that_no_number_holds_are_refused() {
    let mut talk = Talk::new();
    talk.check(
        "BF.ADD a x => :1
         PEXPIRE a 9223372036854775807 => -ERR invalid expire time in 'pexpire' command
         EXPIRE a 9223372036854775 => -ERR invalid expire time in 'expire' command
         EXPIRE a 9223372036854775807 => -ERR invalid expire time in 'expire' command
         PEXPIRETIME a => :-1
         PEXPIREAT a 9223372036854775807 => :1
         PEXPIRETIME a => :9223372036854775807
         PEXPIRE a -9223372036854775808 => :1
         EXISTS a => :0",
    );
}

#[test]
fn objects_that_are_not_there_are_nil() {
    let mut talk = Talk::new();
    for what in ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"] {
        assert_eq!(talk.say(&format!("OBJECT {what} nobody")), "$-1", "{what}");
    }
}

#[test]
fn settings_that_may_be_passwords_are_told_nobody() {
    let mut talk = Talk::new();
    talk.check("CONFIG SET slowlog-log-slower-than 0 => +OK");
    for name in ["requirepass", "password", "masterauth", "alert-webhook", "log-level", "nosuch"] {
        talk.say(&format!("CONFIG SET slower-than 0 {name} sesame"));
        talk.say(&format!("CONFIG SET {name} sesame"));
    }
    let told = talk.say("SLOWLOG GET -1");
    assert!(!told.contains("sesame") && told.contains("$11 requirepass $10 (redacted)"), "{told}");
}

#[test]
fn they_work_within_a_transaction_and_shutdown_ends_the_server() {
    let mut talk = Talk::new();
    talk.check(
        "MULTI => +OK
         ROLE => +QUEUED
         WAIT 0 0 => +QUEUED
         CONFIG GET databases => +QUEUED
         EXEC => *3 *3 $6 master :0 *0 :0 *2 $9 databases $1 1",
    );
    assert_eq!(talk.say("SHUTDOWN NOSAVE"), "");
    assert_eq!(talk.next, Some(Next::Shutdown));
}
