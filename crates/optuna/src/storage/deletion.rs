//! Removal of the trials of deleted studies, a few at a time between other changes.

use rusqlite::{Connection, OptionalExtension};

/// Number of trials that are removed in one transaction: some milliseconds of work.
const STEP: i64 = 200;

pub(super) fn are_unfinished(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM deletions)")?.query_row([], |row| row.get(0))
}

/// Removes the next trials, or the record of the deletion if there are none.
pub(super) fn step(connection: &Connection) -> rusqlite::Result<()> {
    let mut next = connection.prepare_cached("SELECT study_id FROM deletions LIMIT 1")?;
    let Some(study) = next.query_row([], |row| row.get::<_, i64>(0)).optional()? else { return Ok(()) };
    let mut trials =
        connection.prepare_cached("SELECT trial_id FROM trials WHERE study_id = ?1 ORDER BY trial_id LIMIT ?2")?;
    let trials: Vec<i64> = trials.query_map([study, STEP], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if trials.is_empty() {
        connection.prepare_cached("DELETE FROM deletions WHERE study_id = ?1")?.execute([study])?;
    }
    for trial in trials {
        for sql in [
            "DELETE FROM parameters WHERE trial_id = ?1",
            "DELETE FROM trial_attributes WHERE trial_id = ?1",
            "DELETE FROM intermediate_values WHERE trial_id = ?1",
            "DELETE FROM trials WHERE trial_id = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([trial])?;
        }
    }
    Ok(())
}
