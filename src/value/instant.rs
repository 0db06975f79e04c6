//! Instants: epoch milliseconds at ports, ISO 8601 text in records.

/// The latest instant a date can hold, in epoch milliseconds (the ECMAScript limit).
pub const MAX_EPOCH_MS: f64 = 8.64e15;

const MS_PER_DAY: i64 = 86_400_000;

/// Formats as `Date.prototype.toISOString` does; the fraction of a millisecond is dropped.
/// `None` outside the range of dates.
#[must_use]
pub fn format_iso(epoch_ms: f64) -> Option<String> {
    if !epoch_ms.is_finite() || epoch_ms.abs() > MAX_EPOCH_MS {
        return None;
    }
    let ms = epoch_ms.trunc() as i64;
    let (days, rest) = (ms.div_euclid(MS_PER_DAY), ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let (h, m, s, f) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    Some(match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{f:03}Z"),
        _ => format!("{year:+07}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{f:03}Z"),
    })
}

/// Reads an ISO 8601 date-time; without an offset it is UTC. `None` where it is not one.
#[must_use]
pub fn parse_iso(text: &str) -> Option<f64> {
    let mut scan = Scan(text.as_bytes());
    let year = match scan.peek()? {
        sign @ (b'+' | b'-') => {
            scan.skip();
            let magnitude = scan.digits(6)?;
            if sign == b'-' { -magnitude } else { magnitude }
        }
        _ => scan.digits(4)?,
    };
    scan.expect(b'-')?;
    let month = scan.digits(2).filter(|m| (1..=12).contains(m))?;
    scan.expect(b'-')?;
    let day = scan.digits(2).filter(|d| (1..=days_in_month(year, month)).contains(d))?;
    let mut ms = days_from_civil(year, month, day) * MS_PER_DAY;
    if scan.peek().is_some() {
        scan.expect(b'T')?;
        ms += clock_ms(&mut scan)?;
    }
    (scan.0.is_empty() && (ms as f64).abs() <= MAX_EPOCH_MS).then_some(ms as f64)
}

/// Whether this is a text that [`format_iso`] writes.
#[must_use]
pub fn is_iso(text: &str) -> bool {
    // Of what can be read, nothing else with a year of four digits is as long and ends so.
    let is_usual = text.len() == 24 && text.ends_with('Z');
    parse_iso(text).is_some_and(|ms| is_usual || format_iso(ms).as_deref() == Some(text))
}

fn clock_ms(scan: &mut Scan<'_>) -> Option<i64> {
    let hour = scan.digits(2).filter(|h| *h <= 23)?;
    scan.expect(b':')?;
    let minute = scan.digits(2).filter(|m| *m <= 59)?;
    let mut ms = hour * 3_600_000 + minute * 60_000;
    if scan.peek() == Some(b':') {
        scan.skip();
        ms += scan.digits(2).filter(|s| *s <= 59)? * 1000;
        if scan.peek() == Some(b'.') {
            scan.skip();
            ms += scan.fraction_ms()?;
        }
    }
    Some(ms - scan.offset_minutes()? * 60_000)
}

/// A cursor over the bytes that are left.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn skip(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.skip())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (head, tail) = self.0.split_at_checked(count)?;
        let value = head.iter().try_fold(0_i64, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))?;
        self.0 = tail;
        Some(value)
    }

    /// One to any number of digits after the point; what is finer than a millisecond is dropped.
    fn fraction_ms(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, tail) = self.0.split_at_checked(count).filter(|_| count > 0)?;
        self.0 = tail;
        let padded = digits.iter().chain(b"00").take(3);
        Some(padded.fold(0, |n, b| n * 10 + i64::from(b - b'0')))
    }

    fn offset_minutes(&mut self) -> Option<i64> {
        let sign = match self.peek() {
            None => return Some(0),
            Some(b'Z') => {
                self.skip();
                return Some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.skip();
        let hours = self.digits(2).filter(|h| *h <= 23)?;
        if self.peek() == Some(b':') {
            self.skip();
        }
        let minutes = self.digits(2).filter(|m| *m <= 59)?;
        Some(sign * (hours * 60 + minutes))
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a proleptic Gregorian date (years counted from March, in eras of 400).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_known_instants() {
        assert_eq!(format_iso(0.0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(format_iso(1_799_136_001_000.0).as_deref(), Some("2027-01-05T08:00:01.000Z"));
        assert_eq!(format_iso(8.64e15).as_deref(), Some("+275760-09-13T00:00:00.000Z"));
        assert_eq!(format_iso(-8.64e15).as_deref(), Some("-271821-04-20T00:00:00.000Z"));
        assert_eq!(format_iso(8.64e15 + 1.0), None);
    }

    #[test]
    fn reads_offsets_and_refuses_what_is_no_date() {
        assert_eq!(parse_iso("2027-01-05T09:30:01.5+01:30"), parse_iso("2027-01-05T08:00:01.500Z"));
        assert_eq!(parse_iso("2027-01-05T08:00:01"), parse_iso("2027-01-05T08:00:01Z"));
        for bad in ["", "2027", "2027-13-01", "2027-02-29", "2027-01-05T24:00Z", "2027-01-05T08:00:01.Z", "5 Jan 2027"]
        {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
    }

    #[test]
    fn knows_what_it_would_write() {
        for other in [
            "2027-01-05T08:00:01Z",
            "2027-01-05T08:00:01.0000",
            "2027-01-05T08:00+01:000Z",
            "-002027-01-05T08:00:01Z",
            "+002027-01-05T08:00:01Z",
            "2027-01-05T08:00:01.00Z",
            "2027-02-30T08:00:01.000Z",
            "2027-01-05T08:00:01.000000Z",
            "+002027-01-05T08:00:01.000Z",
        ] {
            assert!(!is_iso(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn parse_inverts_format(ms in -8_640_000_000_000_000_i64..=8_640_000_000_000_000) {
            let text = format_iso(ms as f64).unwrap();
            prop_assert_eq!(parse_iso(&text), Some(ms as f64));
            prop_assert!(is_iso(&text));
        }
    }
}
