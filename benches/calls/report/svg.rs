//! The report as a picture: what one `true` takes, each way.

use std::fmt::Write;

use super::Report;
use crate::measure::Latency;
use crate::subjects::{BY_COMMAND_LINE, BY_SOCKET, COLD, RUNSC_RUN, WARM};

const WIDTH: f64 = 760.0;
/// Where the bars begin and end.
const LEFT: f64 = 270.0;
const RIGHT: f64 = 650.0;
const ROW: f64 = 26.0;
const TOP: f64 = 52.0;
/// The longest bar, in multiples of `runsc run`. What takes longer is cut, and says so.
const LONGEST: f64 = 2.5;
const OURS: [&str; 4] = [COLD, WARM, BY_COMMAND_LINE, BY_SOCKET];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}\
.t{font-weight:600;font-size:15px}.m{font-size:11px;fill:#59636e}\
.o{fill:#1a7f37}.p{fill:#8c959f}.w{stroke:#1f2328;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}\
.o{fill:#3fb950}.p{fill:#656c76}.w{stroke:#e6edf3}}";

pub fn draw(report: &Report) -> String {
    let mut rows: Vec<_> = report
        .latency_ms
        .iter()
        // Bursts are of eight calls.
        .filter(|row| !row.subject.starts_with('8') && !row.subject.contains("until"))
        .collect();
    rows.sort_by(|a, b| a.p50.total_cmp(&b.p50));
    let base = rows
        .iter()
        .find(|row| row.subject == RUNSC_RUN)
        .map_or(1.0, |row| row.p50);
    let slowest = rows.iter().map(|row| row.p95).fold(base, f64::max);
    let most = slowest.min(base * LONGEST);

    let height = TOP + ROW * rows.len() as f64 + 34.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\
         <title>How long one command takes</title><style>{STYLE}</style>\n"
    );
    text(
        &mut svg,
        "t",
        (16.0, 24.0),
        "start",
        "One command (`true`), milliseconds",
    );
    text(
        &mut svg,
        "m",
        (16.0, 41.0),
        "start",
        "median; the line ends at the 95th percentile; green is runsc-driver",
    );
    for (at, row) in rows.iter().enumerate() {
        bar(&mut svg, row, TOP + ROW * at as f64, most);
    }
    let machine = &report.machine;
    let named = format!(
        "{}, {} cores, Linux {}, runsc {}, as {}",
        machine.cpu, machine.cores, machine.kernel, machine.runsc, machine.user
    );
    text(&mut svg, "m", (16.0, height - 12.0), "start", &named);
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, row: &Latency, top: f64, most: f64) {
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms / most).min(1.0);
    let middle = top + ROW / 2.0;
    let class = if OURS.contains(&row.subject.as_str()) {
        "o"
    } else {
        "p"
    };
    text(svg, "", (LEFT - 10.0, middle + 4.5), "end", &row.subject);
    let width = (x(row.p50) - LEFT).max(1.0);
    writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"2\"/>",
        top + 4.0,
        ROW - 8.0
    )
    .unwrap();
    let end = x(row.p95);
    if row.p50 < most {
        writeln!(
            svg,
            "<line class=\"w\" x1=\"{:.1}\" y1=\"{middle}\" x2=\"{end:.1}\" y2=\"{middle}\"/>",
            x(row.p50)
        )
        .unwrap();
    }
    let cut = if row.p50 > most { "… " } else { "" };
    let label = format!("{cut}{:.*}", usize::from(row.p50 < 100.0), row.p50);
    text(svg, "", (end + 8.0, middle + 4.5), "start", &label);
}

fn text(svg: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    )
    .unwrap();
}
