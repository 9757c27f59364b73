//! Modes as people write and read them: `0640`, `u+rwx,g-w,o=r`, `drwxr-xr-x`.

use cairn_types::{EntryKind, MODE_BITS, SET_GROUP, SET_USER, STICKY};

/// A change of a mode, as `chmod` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModeChange {
    /// This one instead; where it is not written out with five digits, directories keep their
    /// set-user and set-group bits.
    Octal { mode: u32, is_whole: bool },
    /// ModeStep by step, from the mode that is there.
    Steps(Vec<ModeStep>),
}

/// `ug+rX`: for whom, how, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeStep {
    /// Of the mode's three classes, those meant; none: all, but for the bits of the umask.
    classes: Vec<char>,
    /// `+`, `-` or `=`.
    sign: char,
    letters: Vec<char>,
}

/// Who writes so many digits means the set-user and set-group bits, too.
const WHOLE_DIGITS: usize = 5;

const WRITE_IT: &str = "write it as 0640, or as u+rwx,g-w,o=r";

impl ModeChange {
    /// Reads one.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let mode = u32::from_str_radix(text, 8).map_err(|_| WRITE_IT.to_owned())?;
            let (is_mode, is_whole) = (mode & !MODE_BITS == 0, text.len() >= WHOLE_DIGITS);
            return is_mode
                .then_some(Self::Octal { mode, is_whole })
                .ok_or_else(|| WRITE_IT.to_owned());
        }
        let mut steps = Vec::new();
        for part in text.split(',') {
            let at = part.find(['+', '-', '=']).ok_or_else(|| WRITE_IT.to_owned())?;
            let (classes, mut rest) = part.split_at(at);
            if !classes.chars().all(|class| "ugoa".contains(class)) {
                return Err(WRITE_IT.to_owned());
            }
            // `u+r-w` is two steps of one class.
            while let Some(sign) = rest.chars().next() {
                let letters = &rest[1..];
                let end = letters.find(['+', '-', '=']).unwrap_or(letters.len());
                let (now, later) = letters.split_at(end);
                let is_copy = now.len() == 1 && "ugo".contains(now);
                if !is_copy && !now.chars().all(|letter| "rwxXst".contains(letter)) {
                    return Err(WRITE_IT.to_owned());
                }
                let (classes, letters) = (classes.chars().collect(), now.chars().collect());
                steps.push(ModeStep { classes, sign, letters });
                rest = later;
            }
        }
        Ok(Self::Steps(steps))
    }

    /// The mode that comes of one.
    pub(crate) fn apply(&self, kind: EntryKind, mode: u32, umask: u32) -> u32 {
        match self {
            Self::Octal { mode: meant, is_whole: false } if kind == EntryKind::Directory => {
                meant | (mode & (SET_USER | SET_GROUP))
            }
            Self::Octal { mode, .. } => *mode,
            Self::Steps(steps) => {
                steps.iter().fold(mode, |mode, step| step.apply(kind, mode, umask))
            }
        }
    }
}

/// What of the bits beside read, write and search belongs to a class: what `=` takes away where it
/// is not said again. Directories keep what hands down their group.
fn special(kind: EntryKind, class: char) -> u32 {
    match class {
        'u' if kind == EntryKind::File => SET_USER,
        'g' if kind == EntryKind::File => SET_GROUP,
        'o' => STICKY,
        _ => 0,
    }
}

/// How far a class's bits stand to the left.
fn shift(class: char) -> u32 {
    match class {
        'u' => 6,
        'g' => 3,
        _ => 0,
    }
}

impl ModeStep {
    fn apply(&self, kind: EntryKind, mode: u32, umask: u32) -> u32 {
        let all = self.classes.is_empty() || self.classes.contains(&'a');
        let mask = if self.classes.is_empty() { umask & 0o777 } else { 0 };
        let classes: &[char] = if all { &['u', 'g', 'o'] } else { &self.classes };
        let may_search = kind == EntryKind::Directory || mode & 0o111 != 0;
        let (mut bits, mut meant) = (0, 0);
        for class in classes {
            meant |= 7 << shift(*class) | special(kind, *class);
            for letter in &self.letters {
                bits |= match letter {
                    'r' => 4 << shift(*class),
                    'w' => 2 << shift(*class),
                    'x' => 1 << shift(*class),
                    'X' if may_search => 1 << shift(*class),
                    's' if *class == 'u' => SET_USER,
                    's' if *class == 'g' => SET_GROUP,
                    't' if all || *class == 'o' => STICKY,
                    'u' | 'g' | 'o' => ((mode >> shift(*letter)) & 7) << shift(*class),
                    _ => 0,
                };
            }
        }
        let bits = bits & !mask;
        match self.sign {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => (mode & !meant) | bits,
        }
    }
}

/// A mode as `ls -l` shows it, without the letter of the kind.
pub(crate) fn mode_text(mode: u32) -> String {
    let class = |shift: u32, special: u32, letters: [char; 2]| {
        let bit = |bit: u32, letter| if mode >> shift & bit != 0 { letter } else { '-' };
        let search = match (mode & special != 0, mode >> shift & 1 != 0) {
            (true, true) => letters[0],
            (true, false) => letters[1],
            (false, true) => 'x',
            (false, false) => '-',
        };
        [bit(4, 'r'), bit(2, 'w'), search]
    };
    let classes = [
        class(6, SET_USER, ['s', 'S']),
        class(3, SET_GROUP, ['s', 'S']),
        class(0, STICKY, ['t', 'T']),
    ];
    classes.iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{ModeChange, mode_text};
    use cairn_types::{EntryKind, MODE_BITS};
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn a_change_of_a_mode_is_what_chmod_makes_of_it() {
        let file = |text: &str, mode| {
            ModeChange::parse(text).expect("a mode").apply(EntryKind::File, mode, 0o022)
        };
        let cases = [
            ("0640", 0o777, 0o640),
            ("u+rwx,g-w,o=r", 0o062, 0o744),
            ("a+X", 0o644, 0o644),
            ("a+X", 0o744, 0o755),
            ("+w", 0o444, 0o644),
            ("=r", 0o777, 0o444),
            ("g=u", 0o740, 0o770),
            ("u-x+w", 0o500, 0o600),
            ("g+s,+t", 0o755, 0o3755),
            ("u=,o-rwx", 0o777, 0o070),
            ("ug=rw", 0o111, 0o661),
            ("u=rwx,go=rx", 0o4755, 0o755),
            ("a=rx", 0o6777, 0o555),
            ("o=", 0o1777, 0o770),
        ];
        for (text, before, after) in cases {
            assert_eq!(file(text, before), after, "{text} of {before:o}");
        }
        let directory = |text: &str, mode| {
            ModeChange::parse(text).expect("a mode").apply(EntryKind::Directory, mode, 0o022)
        };
        let cases = [
            ("go=rX", 0o700, 0o755),
            ("u=rwx,go=rx", 0o6700, 0o6755),
            ("o=", 0o1777, 0o770),
            ("0755", 0o2700, 0o2755),
            ("00755", 0o2700, 0o755),
        ];
        for (text, before, after) in cases {
            assert_eq!(directory(text, before), after, "{text} of {before:o}");
        }
        for wrong in ["", "8", "99999", "u", "q+r", "u+q", "u+ro", "u+r,"] {
            assert!(ModeChange::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn it_is_what_the_chmod_of_this_machine_makes_of_it() {
        let is_gnu = Command::new("chmod").arg("--version").output();
        if !is_gnu.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("GNU")) {
            return eprintln!("no chmod of GNU here: judged by our own table alone");
        }
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let texts = [
            "=",
            "=r",
            "=rwxs",
            "a=rx",
            "u=rwx,go=rx",
            "o=",
            "g=",
            "u=s",
            "g=u",
            "o=t",
            "=t",
            "go=rX",
            "-w",
            "+w",
            "+s",
            "g-s",
            "u-s+x",
            "+t,o-t",
            "ug=rw",
            "=u",
            "a-x,u+X",
            "0755",
            "755",
            "2755",
            "00755",
            "04755",
            "0",
            "1777",
        ];
        let befores = [0, 0o644, 0o755, 0o777, 0o1777, 0o2750, 0o4755, 0o7777];
        let (mut at, mut cases) = (Vec::new(), Vec::new());
        for (text, before) in texts.iter().flat_map(|text| befores.map(|before| (*text, before))) {
            for kind in [EntryKind::File, EntryKind::Directory] {
                let path = scratch.path().join(cases.len().to_string());
                match kind {
                    EntryKind::File => std::fs::write(&path, b"").expect("writes"),
                    EntryKind::Directory => std::fs::create_dir(&path).expect("makes"),
                }
                set_permissions(&path, Permissions::from_mode(before)).expect("sets");
                cases.push((text, before, kind));
                at.extend([text.to_owned(), path.to_str().expect("text").to_owned()]);
            }
        }
        // It complains of what the umask kept from it, and does the rest.
        let script = "umask 022; while [ $# -gt 0 ]; do chmod -- \"$1\" \"$2\"; shift 2; done";
        let done = Command::new("sh").args(["-c", script, "sh"]).args(&at).output();
        done.expect("a shell");
        for (number, (text, before, kind)) in cases.into_iter().enumerate() {
            let path = scratch.path().join(number.to_string());
            let wanted = path.metadata().expect("is there").permissions().mode() & MODE_BITS;
            let ours = ModeChange::parse(text).expect("a mode").apply(kind, before, 0o022);
            assert_eq!(ours, wanted, "{text} of {before:o} {kind:?}: {ours:o}, not {wanted:o}");
        }
    }

    #[test]
    fn a_mode_is_shown_as_ls_shows_it() {
        let shown = [(0o755, "rwxr-xr-x"), (0o2750, "rwxr-s---"), (0o1777, "rwxrwxrwt")];
        for (mode, text) in shown {
            assert_eq!(mode_text(mode), text);
        }
        assert_eq!(mode_text(0o7000), "--S--S--T");
    }
}
