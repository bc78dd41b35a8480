//! Points in time as contexts write them.

use std::time::{SystemTime, UNIX_EPOCH};

const MILLIS_A_DAY: i128 = 24 * 60 * 60 * 1000;

/// A time in UTC to the millisecond below it, like `2026-01-02T03:04:05.000Z`.
pub(crate) fn iso_millis(time: SystemTime) -> String {
    let millis = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128 / 1_000_000,
        Err(error) => (-(error.duration().as_nanos() as i128)).div_euclid(1_000_000),
    };
    let (year, month, day) = civil(millis.div_euclid(MILLIS_A_DAY));
    let in_day = millis.rem_euclid(MILLIS_A_DAY);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The Gregorian date of a count of days since 1970-01-01.
///
/// Years are counted from March, so that a leap day is the last of its year, in eras of 400
/// years; after Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
fn civil(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (year_of_era + era * 400 + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_times() {
        let rows = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_000_000_000_000, "2001-09-09T01:46:40.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (1_767_323_045_000, "2026-01-02T03:04:05.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        for (millis, text) in rows {
            assert_eq!(
                iso_millis(UNIX_EPOCH + Duration::from_millis(millis)),
                text,
                "{millis}"
            );
        }
    }

    #[test]
    fn times_round_down_on_both_sides_of_1970() {
        let rows = [
            (
                UNIX_EPOCH + Duration::from_nanos(1_999_999),
                "1970-01-01T00:00:00.001Z",
            ),
            (
                UNIX_EPOCH - Duration::from_nanos(1),
                "1969-12-31T23:59:59.999Z",
            ),
            (
                UNIX_EPOCH - Duration::from_millis(86_400_000),
                "1969-12-31T00:00:00.000Z",
            ),
        ];
        for (time, text) in rows {
            assert_eq!(iso_millis(time), text);
        }
    }
}
