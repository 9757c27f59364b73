//! The line about what masters that are not in charge have answered.

use cairn_client::ShadowNotice;

/// What a person is told: by whom it was said, and how far behind that may be.
pub(crate) fn line(cell: &str, notice: &ShadowNotice) -> String {
    let age = match notice.behind {
        Some(behind) => format!("what it says may be {:.1} s behind", behind.as_secs_f64()),
        None => "nobody knows how far behind it is".to_owned(),
    };
    format!("shadow master {} answered for the cell at {cell}: {age}", notice.master)
}

#[cfg(test)]
mod tests {
    use super::line;
    use cairn_client::ShadowNotice;
    use std::time::Duration;

    #[test]
    fn a_person_hears_who_answered_and_how_far_behind_that_may_be() {
        let master = cairn_types::Address::new("h2:7400");
        let mut notice = ShadowNotice { master, behind: Some(Duration::from_millis(1_230)) };
        assert_eq!(
            line("h1:7400,h2:7400", &notice),
            "shadow master h2:7400 answered for the cell at h1:7400,h2:7400: what it says \
             may be 1.2 s behind"
        );
        notice.behind = None;
        assert!(line("h", &notice).ends_with("nobody knows how far behind it is"));
    }
}
