//! The access file: what it says counts, what is wrong with it is told with the line, and a change is in it at once.

use std::fs::{Permissions, read_to_string, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bloomgate_command::{Role, Roles};
use bloomgate_server::Settings;
use bloomgate_server::access::{Directory, file};
use bloomgate_server::session::desk::Desk;

use super::talk::{Talk, engine};

const GOOD: &str = r#"
[users."a.b"]
roles = ["read", "write"]
namespace = "shop"
password-hash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

[users.off]
enabled = false

[users.default]
no-password = true
roles = ["read", "write", "delete", "admin"]

[namespaces.shop]
prefix = "shop:\"\\\u0001ü"
max-memory = "1.5GB"
items-per-second = 5_000
"#;

fn private(path: &Path, text: &str) {
    write(path, text).unwrap();
    set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

fn settings(folder: &Path) -> Settings {
    Settings { data: Some(folder.to_path_buf()), ..Settings::default() }
}

fn talk(folder: &Path) -> Talk {
    let access = Directory::open(&settings(folder)).unwrap();
    Talk::with(engine(1 << 24), Desk::new(2, Some(access), "run".into(), Vec::new()))
}

#[test]
fn it_is_read_and_written_back_without_loss() {
    let book = file::parse(GOOD).unwrap();
    let user = book.user("a.b").unwrap();
    assert_eq!(user.roles, Roles::NONE.with(Role::Read).with(Role::Write));
    assert_eq!((user.enabled, user.namespace.as_deref(), user.passwords.len()), (true, Some("shop"), 1));
    assert!(!book.user("off").unwrap().enabled && book.default_is_declared);
    let shop = &book.namespaces["shop"];
    assert_eq!(
        (shop.prefix.as_str(), shop.max_memory, shop.max_filters),
        ("shop:\"\\\u{1}ü", Some(1_500_000_000), None)
    );
    assert_eq!(shop.items_per_second, Some(5_000));
    let text = file::render(&book);
    assert_eq!(file::parse(&text).unwrap(), book, "{text}");
    // Who was not declared is not written down.
    let nobody = file::parse("").unwrap();
    assert!(!file::render(&nobody).contains("default") && nobody.users.len() == 1);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_without_hashes() {
    let secret = "c2VjcmV0LXNhbHQ";
    for (text, line, says) in [
        ("\n[user.ann]\n".to_owned(), 2, "there is no 'user' here; did you mean 'users'?"),
        ("[colours]\n".to_owned(), 1, "there is no 'colours' here; there are users, namespaces"),
        ("[users.ann]\nrols = []\n".to_owned(), 2, "did you mean 'roles'?"),
        (
            "[users.ann]\nroles = [\"read\",\n\"root\"]\n".to_owned(),
            3,
            "'root' is no role; there are read, write, delete and admin",
        ),
        ("[users.ann]\nenabled = \"no\"\n".to_owned(), 2, "true or false"),
        ("[users.ann]\nnamespace = 7\n".to_owned(), 2, "a text, in quotes"),
        (
            "[users.ann]\n\nnamespace = \"shop\"\n".to_owned(),
            3,
            "bound to the namespace 'shop', which is not in the file",
        ),
        ("[users.\"a b\"]\n".to_owned(), 1, "the name of a user has 1 to 128"),
        (
            format!("[users.ann]\npassword-hash = [\"$argon2id$v=19$m=1,t=1,p=1${secret}\"]\n"),
            2,
            "a password hash is a PHC string",
        ),
        (format!("[users.ann]\npassword-hash = \"{secret}\n"), 2, ""),
        (
            "[users.ann]\nno-password = true\npassword-hash = []\n[users.bob]\npassword-hash = [\"a\"]\n".to_owned(),
            5,
            "PHC",
        ),
        (format!("[users.ann]\npassword-hash = [{}]\n", "\"x\",".repeat(9)), 2, "at most 8 passwords, not 9"),
        (
            format!("[users.ann]\nno-password = true\npassword-hash = \"sha256:{}\"\n", "0".repeat(64)),
            1,
            "both password-hash and no-password",
        ),
        ("[namespaces.shop]\nmax-memory = 1\n".to_owned(), 1, "namespace shop needs a prefix"),
        ("[namespaces.shop]\nprefix = \"s\"\nmax-filters = -1\n".to_owned(), 3, "not negative"),
        (
            "[namespaces.shop]\nprefix = \"s\"\nmax-filters = \"ten\"\n".to_owned(),
            3,
            "a whole number like 1000, without",
        ),
        ("[namespaces.shop]\nprefix = \"s\"\nmax-memory = \"ten\"\n".to_owned(), 3, "'ten' is no size"),
        ("[namespaces.shop]\nprefix = \"s\"\nmax-memroy = 1\n".to_owned(), 3, "did you mean 'max-memory'?"),
        ("users = 7\n".to_owned(), 1, "users is a table of names"),
        ("[users]\nann = 7\n".to_owned(), 2, "user ann is a table"),
        ("[users.ann]\n[users.ann]\n".to_owned(), 2, ""),
    ] {
        let error = file::parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("line {line}: ")) && error.contains(says), "{text}{error}");
        assert!(!error.contains(secret), "{error}");
    }
}

#[test]
fn only_a_private_regular_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let opened = || Directory::open(&settings(folder.path())).map(|access| access.book().users.len());
    assert_eq!(opened(), Ok(1), "there is none at the first start");
    private(&path, GOOD);
    assert_eq!(opened(), Ok(3));
    for mode in [0o640, 0o604, 0o622, 0o601] {
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(opened().unwrap_err().contains("chmod 600"));
    }
    set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(opened().unwrap_err().contains("it is a link"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(opened().unwrap_err().contains("no regular file"));
    // One that was named has to be there: without its users a server would be open.
    let named = Settings { access: Some(folder.path().join("absent")), ..Settings::default() };
    assert!(Directory::open(&named).unwrap_err().contains("is not there"));
    let named = Settings { access: Some(elsewhere), ..Settings::default() };
    assert_eq!(Directory::open(&named).unwrap().book().users.len(), 3);
}

#[test]
fn a_change_is_in_it_at_once_and_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let mut first = talk(folder.path());
    first.check("ACL SETUSER ann on >secret-of-ann +@read => +OK");
    let text = read_to_string(&path).unwrap();
    assert!(
        text.contains("[users.\"ann\"]\npassword-hash = [\"$argon2id$v=19$m=19456,t=2,p=1$")
            && !text.contains("secret-of-ann")
    );
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!text.contains("default"), "nobody said anything about it");
    let beside = folder.path().join("access.expected");
    assert!(beside.exists() && std::fs::read_dir(folder.path()).unwrap().count() == 2, "nothing half-written is left");
    let mut second = talk(folder.path());
    second.check("AUTH ann secret-of-ann => +OK\nBF.EXISTS f a => :0\nBF.ADD f a => -NOPERM User ann has no permissions to run the 'bf.add' command: it needs the role write");
    first.check("ACL DELUSER ann => :1");
    assert!(
        !read_to_string(&path).unwrap().contains("ann") && !beside.exists(),
        "without users there are none to miss"
    );
    // What changes nothing writes nothing.
    std::fs::remove_file(&path).unwrap();
    first.check("ACL DELUSER ann => :0");
    assert!(!path.exists());
}

#[test]
fn a_file_that_was_changed_by_hand_is_loaded_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let mut talk = talk(folder.path());
    talk.check("ACL SETUSER ann on >p +@read => +OK\nACL SAVE => +OK");
    let mut ann = talk.another();
    ann.check("AUTH ann p => +OK");
    private(&path, GOOD);
    for command in ["ACL SETUSER bob on", "ACL DELUSER ann", "ACL SAVE"] {
        let refused = talk.say(command);
        assert!(refused.starts_with("-ERR the access file") && refused.contains("ACL LOAD"), "{command}: {refused}");
    }
    assert_eq!(read_to_string(&path).unwrap(), GOOD);
    talk.check("ACL USERS => *2 $3 ann $7 default\nACL LOAD => +OK\nACL USERS => *3 $3 a.b $7 default $3 off");
    assert!(ann.session.client.is_killed(), "who is not in it any more is out");
    // All of it or nothing.
    private(&path, "[users.ann]\nroles = [\"read\"]\n[users.bob]\nroles = [\"king\"]\n");
    let refused = talk.say("ACL LOAD");
    assert!(refused.contains("access.toml: line 4: 'king' is no role"), "{refused}");
    talk.check("ACL USERS => *3 $3 a.b $7 default $3 off");
    talk.another().check("AUTH a.b secret => +OK\nACL WHOAMI => $3 a.b");
}

/// Without its users a server is open: no accident with their file may come to that.
#[test]
fn a_file_that_went_away_or_was_emptied_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("access.toml"), folder.path().join("away"));
    let mut first = talk(folder.path());
    first.check("ACL SETUSER boss on nopass +@all => +OK\nACL SETUSER ann on nopass +@read => +OK");
    let mut boss = first.another();
    boss.check("AUTH boss x => +OK\nACL SETUSER default off => +OK");
    let closed = |why: &str| {
        first.another().check("BF.EXISTS f x => -NOAUTH Authentication required.");
        assert_eq!(first.desk.access.book().users.len(), 3, "{why}");
    };
    std::fs::rename(&path, &away).unwrap();
    let refused = boss.say("ACL LOAD");
    assert!(refused.starts_with("-ERR the access file") && refused.contains("is not there any more"), "{refused}");
    assert!(first.desk.reload(&first.engine).is_err());
    closed("it is not there");
    for (text, why) in [
        ("", "has no users any more"),
        ("# nobody\n[namespaces.a]\nprefix = \"a:\"\n", "has no users any more"),
        (
            "[users.boss]\nno-password = true\nroles = [\"read\"]\n[users.default]\nenabled = false\n",
            "nobody could change",
        ),
        ("[users.boss]\nroles = [\"admin\"]\n[users.default]\nenabled = false\n", "nobody could change users any more"),
    ] {
        private(&path, text);
        let refused = boss.say("ACL LOAD");
        assert!(refused.contains(why), "{text}: {refused}");
        assert!(first.desk.reload(&first.engine).is_err(), "{text}");
        closed(text);
    }
    // What is said is done.
    private(&path, "[users.default]\nno-password = true\nroles = [\"read\", \"admin\"]\n");
    let mut boss = first.another();
    boss.check("AUTH boss x => +OK\nACL LOAD => +OK");
    first.another().check("BF.EXISTS f x => :0\nACL USERS => *1 $7 default");
    std::fs::rename(&away, &path).unwrap();
    first.another().check("ACL LOAD => +OK");
    closed("it is back");
}

#[test]
fn a_server_that_had_users_does_not_start_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let (path, beside) = (folder.path().join("access.toml"), folder.path().join("access.expected"));
    let start = || Directory::open(&settings(folder.path())).map(drop);
    assert_eq!(start(), Ok(()));
    // Made by hand, or by commands.
    for by_hand in [true, false] {
        match by_hand {
            true => private(&path, GOOD),
            false => talk(folder.path()).check("ACL SETUSER ann on nopass +@read => +OK"),
        }
        assert_eq!(start(), Ok(()));
        let text = read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let refused = start().unwrap_err();
        assert!(refused.contains("access.toml is not there, and this server had users"), "{refused}");
        assert!(refused.contains("access.expected and start again"), "{refused}");
        private(&path, "[namespaces.a]\nprefix = \"a:\"\n");
        assert!(start().unwrap_err().contains("access.toml has no users"));
        // Nor with another file that was named.
        let named = folder.path().join("named");
        private(&named, "");
        let elsewhere = Settings { access: Some(named.clone()), ..settings(folder.path()) };
        assert!(Directory::open(&elsewhere).unwrap_err().contains("named has no users"));
        private(&path, &text);
        assert_eq!(start(), Ok(()));
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&beside).unwrap();
        assert_eq!(start(), Ok(()), "it was said");
    }
}

#[test]
fn a_change_that_cannot_be_written_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let mut talk = talk(&inner);
    std::fs::remove_dir(&inner).unwrap();
    let refused = talk.say("ACL SETUSER ann on nopass +@read");
    assert!(refused.contains("cannot be written") && refused.contains("nothing was changed"), "{refused}");
    talk.check("ACL USERS => *1 $7 default");
    std::fs::create_dir(&inner).unwrap();
    talk.check("ACL SETUSER ann on nopass +@read => +OK");
}

#[test]
fn the_setting_and_the_file_do_not_both_say_what_the_password_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    private(&path, GOOD);
    let mut told = settings(folder.path());
    bloomgate_server::settings::table::set(&mut told, "password", "pw").unwrap();
    assert!(Directory::open(&told).unwrap_err().contains("leave one of them out"));
    // What the file says about the default user besides counts.
    private(&path, "[users.default]\nroles = [\"read\"]\n[users.boss]\nroles = [\"admin\"]\nno-password = true\n");
    let access = Directory::open(&told).unwrap();
    let mut talk = Talk::with(engine(1 << 20), Desk::new(2, Some(access), "run".into(), Vec::new()));
    talk.check("PING => -NOAUTH Authentication required.\nAUTH pw => +OK\nBF.EXISTS f a => :0\nDEL f => -NOPERM User default has no permissions to run the 'del' command: it needs the role delete");
    talk.check("AUTH boss x => +OK\nACL SETUSER default +@write => +OK");
    let text = read_to_string(&path).unwrap();
    assert!(text.contains("[users.\"default\"]\nroles = [\"read\", \"write\"]") && !text.contains("hash"), "{text}");
}
