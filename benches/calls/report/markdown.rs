//! The report as Markdown tables.

use std::fmt::Write;

use super::{Goal, Report};
use crate::measure::Summary;

pub fn table(report: &Report) -> String {
    let mut text = String::new();
    write_all(report, &mut text).unwrap();
    text
}

fn write_all(report: &Report, text: &mut String) -> std::fmt::Result {
    let machine = &report.machine;
    writeln!(
        text,
        "{}, {} cores, {} GiB, Linux {}, runsc {}, as {}; load {} at the start.\n",
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.runsc,
        machine.user,
        machine.load,
    )?;
    writeln!(
        text,
        "| in the same rounds | median | 95 % interval | rounds | goal |"
    )?;
    writeln!(text, "| --- | --: | --: | --: | --: |")?;
    for (what, found, goal) in report.ratios() {
        let aim = match goal {
            Goal::AtMost(most) => format!("≤ {most:.2}"),
            Goal::AtLeast(least) => format!("≥ {least:.2}"),
            Goal::None => String::new(),
        };
        let met = match goal.is_met(found) {
            Some(true) => " ✓",
            Some(false) => " ✗",
            None => "",
        };
        let interval = interval(found);
        writeln!(
            text,
            "| {what} | {:.3} | {interval} | {} | {aim}{met} |",
            found.median, found.n
        )?;
    }
    writeln!(
        text,
        "\n| milliseconds | p50 | p95 | p99 | n | of the same rounds' |"
    )?;
    writeln!(text, "| --- | --: | --: | --: | --: | --- |")?;
    for row in &report.latency_ms {
        let over = row.over.as_ref().map_or_else(String::new, |over| {
            format!("{:.3} × `{}` ({})", over.median, row.base, interval(over))
        });
        writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {} | {over} |",
            row.subject, row.p50, row.p95, row.p99, row.n
        )?;
    }
    throughput(report, text)?;
    resources(report, text)?;
    if let Some(commands) = &report.whole_commands {
        writeln!(
            text,
            "\n| whole command, ms (hyperfine) | median | least | most | n |"
        )?;
        writeln!(text, "| --- | --: | --: | --: | --: |")?;
        for row in commands {
            let (median, min, max) = (row.median, row.min, row.max);
            writeln!(
                text,
                "| `{}` | {median:.1} | {min:.1} | {max:.1} | {} |",
                row.command, row.n
            )?;
        }
    }
    if let Some(costs) = &report.network_cost {
        writeln!(
            text,
            "\n| on the default network | over none | 95 % interval |"
        )?;
        writeln!(text, "| --- | --: | --: |")?;
        for row in costs {
            let found = &row.sandbox_over_none;
            let (what, median) = (row.what, found.median);
            writeln!(text, "| {what} | {median:.3} | {} |", interval(found))?;
        }
    }
    if let Some(costs) = &report.label_cost {
        writeln!(
            text,
            "\n| files in the workspace | with labels / without | 95 % interval |"
        )?;
        writeln!(text, "| --: | --: | --: |")?;
        for row in costs {
            let found = &row.cfc_over_plain;
            writeln!(
                text,
                "| {} | {:.3} | {} |",
                row.files,
                found.median,
                interval(found)
            )?;
        }
    }
    if !report.absent.is_empty() {
        writeln!(text, "\nNot measured:\n")?;
        for absent in &report.absent {
            writeln!(text, "- {}: {}", absent.subject, absent.why)?;
        }
    }
    Ok(())
}

fn throughput(report: &Report, text: &mut String) -> std::fmt::Result {
    let Some(rates) = &report.calls_per_second else {
        return Ok(());
    };
    let rows = [
        ("`runsc run`", &rates.runsc_run),
        ("cold call", &rates.cold),
        ("pool of 8, back to back", &rates.pool_steady),
        ("session call, socket", &rates.session_socket),
    ];
    let widths = rates.runsc_run.keys();
    write!(text, "\n| calls per second, at once: |")?;
    widths
        .clone()
        .try_for_each(|width| write!(text, " {width} |"))?;
    write!(text, "\n| --- |")?;
    widths.clone().try_for_each(|_| write!(text, " --: |"))?;
    for (what, rates) in rows {
        write!(text, "\n| {what} |")?;
        rates
            .values()
            .try_for_each(|rate| write!(text, " {rate:.1} |"))?;
    }
    writeln!(text)
}

fn resources(report: &Report, text: &mut String) -> std::fmt::Result {
    let Some(used) = &report.resources else {
        return Ok(());
    };
    writeln!(text, "\n| what is used | | goal |")?;
    writeln!(text, "| --- | --: | --: |")?;
    for (kind, ms) in &used.cpu_ms_per_call {
        writeln!(
            text,
            "| the driver's CPU per call, {kind} | {ms:.2} ms | ≤ 2 ms{} |",
            met(*ms, 2.0)
        )?;
    }
    for (count, mib) in &used.idle_sandbox_mib {
        let mib = mib.map_or_else(|| "unknown".to_owned(), |mib| format!("{mib:.1} MiB"));
        writeln!(
            text,
            "| memory of an idle sandbox, of {count} (PSS) | {mib} | |"
        )?;
    }
    let stream = &used.streaming;
    let (sessions, each) = (stream.sessions, stream.megabytes_each);
    let what = format!("{sessions} sessions that stream {each} MB each");
    let growth = stream.growth_mib;
    writeln!(
        text,
        "| {what}: the driver's memory | {growth:.1} MiB | ≤ 32 MiB{} |",
        met(growth, 32.0)
    )?;
    let (cpu, seconds) = (stream.cpu_seconds, stream.seconds);
    writeln!(text, "| {what}: its CPU | {cpu:.2} s of {seconds:.2} s | |")
}

fn met(value: f64, most: f64) -> &'static str {
    if value <= most { " ✓" } else { " ✗" }
}

fn interval(found: &Summary) -> String {
    format!("{:.3}–{:.3}", found.low, found.high)
}
