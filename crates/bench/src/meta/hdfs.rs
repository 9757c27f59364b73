//! HDFS beside us, by scripts that install and run it (`cluster.sh`, `mem.sh`): before our own
//! steps and not at the same time, because the machine is one.
//!
//! Its figures are those of `HdfsBench`: the second of two runs in one JVM, 64 threads. A look-up
//! is an `open`, which fetches the locations too. Memory is the NameNode's heap after a full
//! collection, not all that is resident.

use crate::error::{BenchCause, BenchError, Doing};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the scripts put HDFS, unless `$W` says otherwise.
const HOME: &str = "/tmp/peers/hdfs";
/// The scripts give its NameNode 3 GiB, which is enough for so many.
const FILES_MAX: u64 = 1_000_000;
const LISTED: &str = "100000";
const CHANGED: &str = "32000";

/// Our figure's name for each of its operations.
const OPERATIONS: [(&str, &str); 4] = [
    ("create-empty", "creates"),
    ("open", "look-ups"),
    ("rename", "renames"),
    ("delete", "deletes"),
];

/// Whether it can be run.
///
/// # Errors
/// One line that says how to get it.
pub(super) fn check(scripts: &Path) -> Result<(), BenchError> {
    let refuse = |why: String, advice: String| {
        let cause = BenchCause::Missing { why, advice };
        Err(BenchError::new("running HDFS beside", cause))
    };
    let cluster = script(scripts, "cluster.sh");
    if !cluster.is_file() {
        let why = format!("{}: no such script", cluster.display());
        return refuse(why, "--peer-scripts names the directory with hdfs/cluster.sh".to_owned());
    }
    let home = std::env::var_os("W").map_or_else(|| PathBuf::from(HOME), PathBuf::from);
    let jars = std::fs::read_dir(home.join("lib")).into_iter().flatten().flatten();
    let installed = jars.into_iter().any(|jar| {
        let name = jar.file_name();
        let name = name.to_string_lossy();
        name.starts_with("hadoop-hdfs-3")
    });
    if !installed {
        let why = "it is not installed here".to_owned();
        let advice = format!(
            "'{} deps' fetches it where Java and Maven are there, {}/setup.sh fetches those too",
            cluster.display(),
            scripts.display()
        );
        return refuse(why, advice);
    }
    Ok(())
}

fn script(scripts: &Path, name: &str) -> PathBuf {
    scripts.join("hdfs").join(name)
}

/// A cell of HDFS; stopped when dropped.
struct Hdfs<'s>(&'s Path);

impl Drop for Hdfs<'_> {
    fn drop(&mut self) {
        // Ends its processes by the ids that it noted.
        let _ = call(self.0, "cluster.sh", &["stop"]);
    }
}

/// Runs it, and gives what it did under the names of our figures.
pub(super) fn measure(scripts: &Path, files: u64) -> Result<BTreeMap<String, f64>, BenchError> {
    let mut found = BTreeMap::new();
    call(scripts, "cluster.sh", &["format"])?;
    let running = Hdfs(scripts);
    call(scripts, "cluster.sh", &["start"])?;
    for arguments in [
        ["client", "meta", "2", "64", CHANGED].as_slice(),
        &["client", "mklist", "1", "16", LISTED],
        &["client", "list", "3", "1"],
    ] {
        read_operations(&call(scripts, "cluster.sh", arguments)?, &mut found);
    }
    drop(running);
    let files = files.min(FILES_MAX);
    let text = call(scripts, "mem.sh", &[&files.to_string(), "1"])?;
    read_memory(&text, files, &mut found);
    Ok(found)
}

fn call(scripts: &Path, name: &str, arguments: &[&str]) -> Result<String, BenchError> {
    let doing = || format!("running {name} {}", arguments.join(" "));
    let mut command = Command::new(script(scripts, name));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    // Not a pipe: the daemons that it leaves behind would keep that open.
    let path = std::env::temp_dir().join(format!("cairn-bench-hdfs-{}", std::process::id()));
    let file = std::fs::File::create(&path).doing(doing)?;
    let status = command.stdout(file).status();
    let text = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    status.doing(doing)?;
    text.doing(doing)
}

/// `RESULT hdfs open threads=64 27745.0 ops/s elapsed=1.1s cpu_us_per_op=84 (server 28 client 56)`;
/// a later line takes the place of an earlier one.
fn read_operations(text: &str, found: &mut BTreeMap<String, f64>) {
    for line in text.lines().filter_map(|line| line.strip_prefix("RESULT hdfs ")) {
        let mut words = line.split_whitespace();
        // Lines of other shapes, as of lists being made, tell of no operation.
        let (Some(operation), Some(_), Some(rate)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Ok(rate) = rate.parse::<f64>() else { continue };
        if operation == "list-dir(entries)" {
            found.insert("names listed".to_owned(), rate);
        }
        let Some((_, ours)) = OPERATIONS.iter().find(|(theirs, _)| *theirs == operation) else {
            continue;
        };
        found.insert((*ours).to_owned(), rate);
        if let Some(all) = number_after(line, "cpu_us_per_op=") {
            found.insert(format!("{ours}, CPU of clients and master"), all);
        }
        if let Some(server) = number_after(line, "(server ") {
            found.insert(format!("{ours}, CPU of the master"), server);
        }
    }
}

/// `RESULT hdfs NN start (from fsimage): 13.3 s until RPC port open; … heap after full GC: used
/// 274000K; …`
fn read_memory(text: &str, files: u64, found: &mut BTreeMap<String, f64>) {
    // Without this line there was no start to be told of; the figure is then left out.
    let Some(line) = text.lines().find(|line| line.contains("(from fsimage)")) else { return };
    if let Some(seconds) = number_after(line, "(from fsimage): ") {
        found.insert("start until a look-up is answered".to_owned(), seconds * 1e3);
    }
    if let Some(kilobytes) = number_after(line, "used ") {
        let each = kilobytes * 1024.0 / files as f64;
        found.insert("memory for each file with its chunk".to_owned(), each);
    }
}

fn number_after(line: &str, word: &str) -> Option<f64> {
    let rest = line.split_once(word)?.1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{read_memory, read_operations};
    use std::collections::BTreeMap;

    #[test]
    fn what_the_scripts_print_is_read_under_our_names() {
        let mut found = BTreeMap::new();
        let text = "RESULT hdfs open threads=64 100.0 ops/s elapsed=9s cpu_us_per_op=99 (server 1 \
                    client 2)\n\
                    RESULT hdfs open threads=64 27745.5 ops/s elapsed=1.10s cpu_us_per_op=84 \
                    (server 28 client 56)\n\
                    RESULT hdfs list-dir(entries) threads=1 19000.0 entries/s elapsed=5s\n";
        read_operations(text, &mut found);
        let memory = "RESULT hdfs NN start (from edit log): 39.1 s until; used 1K\n\
                      RESULT hdfs NN start (from fsimage): 13.3 s until RPC port open; heap after \
                      full GC: used 1000K; RSS 9 kB\n";
        read_memory(memory, 1000, &mut found);
        let expected = [
            ("look-ups", 27745.5),
            ("look-ups, CPU of clients and master", 84.0),
            ("look-ups, CPU of the master", 28.0),
            ("names listed", 19_000.0),
            ("start until a look-up is answered", 13_300.0),
            ("memory for each file with its chunk", 1024.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found, BTreeMap::from(expected));
    }
}
