//! What breaks: connections cut in the middle, slow statements, full pools, letters that an encoding lacks.

use std::sync::Arc;

use super::*;

/// Cuts every connection of the gate to a database, as a restart would.
async fn cut(other: &tokio_postgres::Client) {
    let sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'bloomgate'";
    let cut = other.query(sql, &[]).await.unwrap();
    assert!(!cut.is_empty() && cut.iter().all(|row| row.get(0)));
}

#[tokio::test]
async fn cut_connections_are_replaced_and_writes_say_what_they_know() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            "CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t SELECT i, i FROM generate_series(1, 300000) AS i;
             CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
             CREATE TABLE side (v text);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO side VALUES (NEW.v); RETURN NEW; END $$;
             CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.v = 'late') EXECUTE FUNCTION note();
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON side DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cut();
             CREATE TRIGGER early BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.v = 'early') EXECUTE FUNCTION cut();
             CREATE FUNCTION part() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO side VALUES (OLD.v); RETURN OLD; END $$;
             CREATE TRIGGER parted BEFORE DELETE ON t FOR EACH ROW WHEN (OLD.v = '8') EXECUTE FUNCTION part();
             CREATE TRIGGER gone BEFORE DELETE ON t FOR EACH ROW WHEN (OLD.v = '7') EXECUTE FUNCTION cut();
             CREATE TABLE slow (k int PRIMARY KEY, s text); INSERT INTO slow VALUES (1, '')",
        )
        .await;
    let source = Arc::new(open(&server, &database, "t", "k").await);
    assert_eq!(row(&*source, 1).await.unwrap(), r#"{"k":1,"v":"1"}"#);

    // Idle ones: nobody notices.
    cut(&other).await;
    assert_eq!(row(&*source, 2).await.unwrap(), r#"{"k":2,"v":"2"}"#);
    cut(&other).await;
    put(&*source, 400_000, "{}").await.unwrap();

    // In the middle of a write, before its commit: nothing was changed, and that is known.
    refused(put(&*source, 400_001, r#"{"v": "early"}"#).await, ErrorKind::Source, &["terminating connection"]);
    assert_eq!(row(&*source, 400_001).await, None);
    refused(source.delete(&7.into()).await, ErrorKind::Source, &["terminating connection"]);
    assert!(row(&*source, 7).await.is_some());
    // While it commits: only the server knows.
    refused(put(&*source, 400_002, r#"{"v": "late"}"#).await, ErrorKind::Unknown, &["not known"]);
    refused(source.delete(&8.into()).await, ErrorKind::Unknown, &["not known"]);
    // And it goes on.
    put(&*source, 400_003, r#"{"v": "x"}"#).await.unwrap();
    assert!(source.delete(&400_003.into()).await.unwrap());

    // In the middle of a scan: what was read is not taken for all there is.
    let mut scan = source.scan().await.unwrap();
    let mut batch = KeyBatch::default();
    assert!(scan.next(&mut batch).await.unwrap());
    cut(&other).await;
    let failed = loop {
        match scan.next(&mut batch).await {
            Ok(more) => assert!(more, "the scan pretends to be complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(failed.kind(), ErrorKind::Source);
    drop(scan);
    // A scan that is given up ends at the server, too.
    let mut scan = source.scan().await.unwrap();
    assert!(scan.next(&mut batch).await.unwrap());
    drop(scan);
    let copies = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%' AND state = 'active'";
    while other.query_one(copies, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(scanned(&*source).await.unwrap().len(), 300_001);

    // In the middle of a read: it is asked again.
    let slow = Arc::new(open(&server, &database, "slow", "k").await);
    let holder = server.client(&database).await;
    let hold = "BEGIN; LOCK TABLE slow IN ACCESS EXCLUSIVE MODE";
    holder.batch_execute(hold).await.unwrap();
    let asked = tokio::spawn({
        let slow = slow.clone();
        async move { slow.get(&1.into()).await }
    });
    let waiting = async |many: i64| {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while other.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) != many {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    waiting(1).await;
    cut(&other).await;
    waiting(1).await;
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(asked.await.unwrap().unwrap().unwrap(), r#"{"k":1,"s":""}"#);

    // Limits of statements are for lookups, not for counts and scans.
    let url = format!("{}?options=-c%20statement_timeout%3D50", server.url(&database));
    let limited = Postgres::connect(&url, "slow", "k", 1).await.unwrap();
    holder.batch_execute(hold).await.unwrap();
    refused(limited.get(&1.into()).await, ErrorKind::Source, &["statement timeout"]);
    let release = async {
        waiting(2).await;
        // Four times the limit.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let (count, keys, ()) = tokio::join!(limited.count(), scanned(&limited), release);
    assert_eq!((count.unwrap(), keys.unwrap().len()), (1, 1));
}

#[tokio::test]
async fn letters_that_the_encoding_lacks_are_in_no_row() {
    let server = Server::shared();
    let options = "TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'";
    let (database, _other) =
        server.database_with(options, "CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ä'), ('a')").await;
    let source = open(&server, &database, "t", "k").await;
    assert_eq!((row(&source, "ä").await, row(&source, "€").await), (Some(r#"{"k":"ä"}"#.into()), None));
    let rows = source.get_many(&["a", "€", "ä", "nul\0"].map(Key::from)).await.unwrap();
    assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false]);
    assert!(!source.delete(&"€".into()).await.unwrap() && source.delete(&"ä".into()).await.unwrap());
    refused(put(&source, "€", "{}").await, ErrorKind::Invalid, &["LATIN1"]);
    assert_eq!(scanned(&source).await.unwrap(), [b"a"]);
}

#[tokio::test]
async fn tls_is_used_and_the_server_checked_as_the_address_asks() {
    use ErrorKind::Invalid;
    let server = Server::shared();
    let (database, other) = server.database("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    let mine = server.certificate().display().to_string();
    // Another one of the same name: it did not sign the server's.
    let strange = tempfile::NamedTempFile::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    std::fs::write(strange.path(), made.cert.pem()).unwrap();
    let strange = strange.path().display().to_string();
    let by_number = server.tcp_url(&database);
    let by_name = by_number.replace("127.0.0.1", "localhost");
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE datname = current_database() AND application_name = 'bloomgate'";
    for (address, options, expected) in [
        (&by_number, "sslmode=disable".to_string(), Ok(false)),
        (&by_number, "application_name=bloomgate".into(), Ok(true)),
        (&by_number, "sslmode=require".into(), Ok(true)),
        (&by_number, format!("sslmode=verify-ca&sslrootcert={mine}"), Ok(true)),
        (&by_name, format!("sslmode=verify-full&sslrootcert={mine}"), Ok(true)),
        (&by_number, format!("sslmode=verify-full&sslrootcert={mine}"), Err((Invalid, "not valid for"))),
        (&by_name, format!("sslmode=verify-full&sslrootcert={strange}"), Err((Invalid, "sslrootcert=FILE"))),
        (&by_number, format!("sslmode=require&sslrootcert={strange}"), Err((Invalid, "sslrootcert=FILE"))),
        (&by_number, "sslmode=verify-ca&sslrootcert=/dev/null".into(), Err((Invalid, "no certificate in it"))),
        (&by_number, "sslmode=verified".into(), Err((Invalid, "verify-full"))),
    ] {
        let opened = Postgres::connect(&format!("{address}?{options}"), "t", "k", 1).await;
        match expected {
            Ok(secret) => {
                let source = opened.unwrap();
                assert_eq!(row(&source, 1).await.unwrap(), r#"{"k":1}"#);
                assert_eq!(scanned(&source).await.unwrap(), [1i64.to_le_bytes()]);
                let told: bool = other.query_one(encrypted, &[]).await.unwrap().get(0);
                assert_eq!(told, secret, "{options}");
                drop(source);
                let left = "SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND application_name = 'bloomgate'";
                while other.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
            Err((kind, said)) => refused(opened, kind, &[said]),
        }
    }
    // Behind a socket file there is none.
    let url = server.url(&database) + "?sslmode=require";
    refused(Postgres::connect(&url, "t", "k", 1).await, Invalid, &["does not support TLS", "sslmode=disable"]);
}

#[tokio::test]
async fn a_server_that_became_a_standby_is_not_asked() {
    use crate::postgres_process::PostgresProcess;
    let settings = ["listen_addresses="];
    let mut server = PostgresProcess::start(5432, &[], &settings);
    let url = format!("postgres://tester@{}:5432/postgres", server.host());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
    drop(client);
    let source = Postgres::connect(&url, "t", "k", 1).await.unwrap();
    assert_eq!(scanned(&source).await.unwrap().len(), 1);
    server.stop();
    refused(Postgres::connect(&url, "t", "k", 1).await, ErrorKind::Source, &["connecting to"]);
    server.start_again(true);
    // Not asked either: what it lacks would be remembered as absent. It may become the primary, so trying again may help.
    refused(
        source.get(&source.key_type().parse("1").unwrap()).await,
        ErrorKind::Source,
        &["is a standby", "the primary"],
    );
    refused(scanned(&source).await, ErrorKind::Source, &["is a standby", "the primary"]);
    // At the start somebody has named the wrong one.
    refused(Postgres::connect(&url, "t", "k", 1).await, ErrorKind::Unsupported, &["is a standby"]);
}
