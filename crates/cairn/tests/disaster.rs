//! What is left when a master's directory is gone, or a group's majority: a backup, or the
//! directory of one that lives. A cell goes on from it, in a new history (R3).

mod cell;

use cairn_testkit::MastersPlan;
use cell::{Cell, await_until, run};

/// The record that a plan says it would go on from, as it has to be agreed to.
fn record_of(plan: &str) -> String {
    let (_, after) = plan.split_once("--agree ").expect("it says how to agree");
    after.chars().take_while(char::is_ascii_digit).collect()
}

/// Has a plan told, agrees to it, and starts the master that comes of it where another one was.
fn recover(cell: &mut Cell, from: &str, into: &str, at: usize) -> (String, String) {
    let arguments = ["masters", "recover", from, "--into", into];
    let plan = run(cell.program().command(arguments), b"");
    assert_eq!(plan.code(), 2, "{}", plan.stderr);
    assert!(!std::path::Path::new(into).exists(), "a plan does nothing");
    let agreed = record_of(&plan.stderr);
    let arguments = [&arguments[..], &["--agree", &agreed]].concat();
    let done = run(cell.program().command(&arguments), b"");
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let start = ["master", "--data", into].map(str::to_owned).to_vec();
    cell.masters[at].restart_with(start).expect("starts");
    let told = (plan.text(), done.text());
    let count = cell.chunkservers.len();
    cell.await_live(count).expect("it takes the servers in again");
    told
}

#[test]
fn a_cell_whose_only_master_is_gone_goes_on_from_a_backup() {
    let mut cell = Cell::start_plan(3, |plan| {
        plan.master_arguments = ["--checkpoint-every-records", "10"].map(str::to_owned).to_vec();
    });
    let kept = "kept\n".repeat(10_000);
    let (local, late) = (cell.file("kept", kept.as_bytes()), cell.file("late", b"came later"));
    cell.ok(["put", &local, "/kept"]);
    for round in 0..30 {
        cell.ok(["mkdir", &format!("/d{round}")]);
    }
    let backup = cell.scratch().join("backup").display().to_string();
    let told = cell.ok(["masters", "backup", &backup]);
    assert!(told.contains("1 file, 31 directories"), "{told}");
    let again = cell.run(["masters", "backup", &backup]);
    assert_eq!(again.code(), 4, "it is there already: {}", again.stderr);
    cell.ok(["put", &late, "/late"]);
    cell.ok(["rm", "/d0", "-r"]);
    cell.masters[0].kill();
    std::fs::remove_dir_all(cell.directory().join("master")).expect("its disk is gone");

    // Nobody starts on a backup by mistake.
    let started = run(cell.program().command(["master", "--data", &backup]), b"");
    assert_eq!(started.code(), 10, "{}", started.stderr);
    assert!(started.stderr.contains("masters recover"), "{}", started.stderr);

    let into = cell.scratch().join("again").display().to_string();
    let (plan, _) = recover(&mut cell, &backup, &into, 0);
    assert!(plan.contains("a backup of cell") && plan.contains("lost for good"), "{plan}");
    assert_eq!(cell.ok(["cat", "/kept"]), kept);
    assert_eq!(cell.run(["stat", "/late"]).code(), 3, "what came after the backup is lost");
    cell.ok(["stat", "/d0"]);
    cell.ok(["put", &late, "/late"]);
    assert_eq!(cell.ok(["cat", "/late"]), "came later");
    // What it does not know it deletes nowhere.
    await_until("the chunk that is not known is told of", || {
        cell.ok(["lost"]).contains("1 lost chunk")
    });
    let listed: serde_json::Value =
        serde_json::from_str(cell.ok(["lost", "--json"]).trim()).expect("one value");
    let handle = listed["handle"].as_str().expect("a handle");
    let mistyped = cell.run(["lost", "--let-go", handle, "x"]);
    assert_eq!(mistyped.code(), 2, "{}", mistyped.stderr);
    // One that is none keeps the others from nothing.
    let named = cell.run(["lost", "--let-go", "7-7", handle]);
    assert!(named.code() == 3 && named.stderr.contains("letting go of chunk 7-7"), "{named:?}");
    assert_eq!(cell.ok(["lost"]), "0 lost chunks\n");
    assert_eq!(cell.ok(["lost", "--let-go-of-all"]), "0 chunks were let go of\n");
    let told = cell.json(&["lost", "--let-go-of-all"]);
    assert_eq!((&told["let_go"], &told["gone"]), (&0.into(), &0.into()));
    // The same once more finds the directory in use; and then taken.
    let arguments = ["masters", "recover", &backup, "--into", &into, "--agree"];
    let plan = run(cell.program().command(&arguments[..5]), b"");
    let agreed = record_of(&plan.stderr);
    let taken = [&arguments[..], &[agreed.as_str()]].concat();
    let running = run(cell.program().command(&taken), b"");
    assert_eq!(running.code(), 12, "{}", running.stderr);
    cell.masters[0].kill();
    let taken = run(cell.program().command(&taken), b"");
    assert_eq!(taken.code(), 4, "{}", taken.stderr);
}

#[test]
fn a_group_that_has_lost_its_majority_goes_on_from_the_one_that_is_left() {
    let mut cell = Cell::start_plan(3, |plan| plan.masters = MastersPlan::Group(3));
    let line = cell.file("line", b"one\n");
    cell.ok(["append", "/log", &line]);
    let left = (cell.in_charge().expect("a master in charge") + 1) % 3;
    await_until("every master to have all records", || {
        let rows = cell.listed_masters();
        rows.iter().all(|row| row.applied.is_some() && row.applied == rows[0].applied)
    });
    let data = |cell: &Cell, at: usize| cell.directory().join(format!("master-{}", at + 1));
    for at in (0..3).filter(|at| *at != left) {
        cell.masters[at].kill();
        std::fs::remove_dir_all(data(&cell, at)).expect("its disk is gone");
    }
    let from = data(&cell, left).display().to_string();
    let into = cell.scratch().join("again").display().to_string();
    let arguments = ["masters", "recover", &from, "--into", &into];
    let running = run(cell.program().command(arguments), b"");
    assert_eq!(running.code(), 12, "it runs: {}", running.stderr);
    // Who only follows can be asked for a backup, too.
    let copy = cell.scratch().join("copy").display().to_string();
    let asked = cell.run(["masters", "backup", &copy]);
    assert_eq!(asked.code(), 0, "{}", asked.stderr);
    assert!(asked.stderr.contains("may lack"), "{}", asked.stderr);
    cell.masters[left].kill();
    let (plan, _) = recover(&mut cell, &from, &into, left);
    assert!(plan.contains("one of the masters"), "{plan}");
    cell.ok(["append", "/log", &line]);
    assert_eq!(cell.ok(["cat", "/log"]).matches("one").count(), 2);
}
