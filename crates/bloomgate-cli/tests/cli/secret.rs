//! `secret new`, and filters that are keyed.

use crate::scene::{Scene, lines};

#[test]
fn a_secret_is_a_private_file_that_is_never_replaced() {
    let scene = Scene::new();
    let ran = scene.run("secret new -o s.key").code(0);
    assert!(ran.out().is_empty() && ran.err().contains("id "), "{}", ran.err());
    let secret = String::from_utf8(scene.read("s.key")).unwrap();
    assert!(secret.len() == 65 && secret.trim_end().bytes().all(|b| b.is_ascii_hexdigit()));
    assert!(!ran.err().contains(secret.trim_end()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(scene.path("s.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    scene.run("secret new -o s.key").refused(&["s.key", "exists"]);
    assert_eq!(scene.read("s.key"), secret.as_bytes());
    let printed = scene.run("secret new").code(0);
    assert!(printed.out().len() == 65 && printed.err().contains("warning:"), "{}", printed.err());
    assert_ne!(printed.out(), scene.run("secret new").code(0).out());
}

#[test]
fn a_keyed_filter_answers_only_with_its_secret() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    scene.run("secret new -o one.key").code(0);
    scene.run("secret new -o other.key").code(0);
    for hash in ["siphash13", "siphash24", "blake2b"] {
        scene.run(&format!("build -q -o f.bloom --hash {hash} --secret-file one.key keys.txt")).code(0);
        assert_eq!(scene.run("check -c f.bloom --secret-file one.key -f keys.txt").code(0).out(), "1000\n");
        scene.run("check f.bloom k1").refused(&["f.bloom", "secret", "--secret-file"]);
        scene.run("check f.bloom --secret-file other.key k1").refused(&["f.bloom", "secret"]);
        scene.run("check f.bloom --secret-file keys.txt k1").refused(&["keys.txt"]);
    }
    scene.run("build -o f.bloom --hash xxh3 --secret-file one.key keys.txt").refused(&["takes no secret"]);
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    scene.run("secret new -o s.key").code(0);
    std::fs::set_permissions(scene.path("s.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    scene.run("build -o f.bloom --secret-file s.key").refused(&["s.key", "chmod 600"]);
}
