//! `runsc-driver --describe-capabilities`: what this build takes, for a program to find out.
//!
//! It is made from the definition of the command and from the schemas themselves, so that it says
//! what is there. It looks at nothing: not at what a run would use, nor whether it could.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::{Arg, ArgAction, Command};
use serde::Serialize;
use serde_json::Value;

use crate::settings::{SETTINGS, VM_HOME};

const SCHEMA: &str = "runsc-driver/capabilities/v1";

/// The schemas of everything that is printed as JSON.
const SCHEMAS: [(&str, &str); 5] = [
    (
        "run",
        include_str!("../../bundles/schemas/run-v1.schema.json"),
    ),
    (
        "plan",
        include_str!("../../bundles/schemas/plan-v1.schema.json"),
    ),
    (
        "doctor",
        include_str!("../../bundles/schemas/doctor-v1.schema.json"),
    ),
    (
        "gc",
        include_str!("../../bundles/schemas/gc-v1.schema.json"),
    ),
    (
        "capabilities",
        include_str!("../../bundles/schemas/capabilities-v1.schema.json"),
    ),
];

/// The object that is printed (bundles/schemas/capabilities-v1.schema.json).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    schema: &'static str,
    name: String,
    version: &'static str,
    /// The identifiers of the schemas, which name their versions.
    schemas: BTreeMap<&'static str, String>,
    /// The flags that are taken before or after any verb.
    flags: Vec<Flag>,
    verbs: BTreeMap<String, Verb>,
    /// The variables that the driver reads, beside HOME, PATH and TMPDIR.
    variables: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Verb {
    about: Option<String>,
    flags: Vec<Flag>,
    arguments: Vec<Argument>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Flag {
    name: String,
    short: Option<String>,
    /// The names of its values; none where it takes none.
    values: Vec<String>,
    /// The values that it takes, where they are a list.
    one_of: Vec<String>,
    default: Vec<String>,
    repeatable: bool,
    required: bool,
    help: Option<String>,
}

#[derive(Debug, Serialize)]
struct Argument {
    name: String,
    required: bool,
    repeatable: bool,
    help: Option<String>,
}

/// Prints what a command takes.
pub(super) fn print(mut to: impl Write, command: Command) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut to, &describe(command))?;
    to.write_all(b"\n")
}

fn describe(mut command: Command) -> Capabilities {
    command.build();
    let mut verbs = BTreeMap::new();
    add_verbs(&mut verbs, &command, "");
    let variables = SETTINGS.iter().map(|setting| setting.variable);
    Capabilities {
        schema: SCHEMA,
        name: command.get_name().to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        schemas: SCHEMAS
            .iter()
            .map(|(what, text)| (*what, id(text)))
            .collect(),
        flags: flags(&command, |_| true),
        verbs,
        variables: variables.chain([VM_HOME]).collect(),
    }
}

/// Adds a command's verbs, and theirs as `handoff run`.
fn add_verbs(verbs: &mut BTreeMap<String, Verb>, command: &Command, above: &str) {
    let shown = command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help" && !verb.is_hide_set());
    for verb in shown {
        let name = format!("{above}{}", verb.get_name());
        add_verbs(verbs, verb, &format!("{name} "));
        verbs.insert(name, describe_verb(verb));
    }
}

/// What a schema is called.
fn id(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    schema["$id"].as_str().unwrap_or_default().to_owned()
}

fn describe_verb(verb: &Command) -> Verb {
    Verb {
        about: verb.get_about().map(ToString::to_string),
        // The others are the command's own.
        flags: flags(verb, |arg| !arg.is_global_set()),
        arguments: verb.get_positionals().map(argument).collect(),
    }
}

fn flags(command: &Command, wanted: impl Fn(&Arg) -> bool) -> Vec<Flag> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && wanted(arg))
        .filter_map(|arg| Some(flag(arg, arg.get_long()?)))
        .collect()
}

fn flag(arg: &Arg, long: &str) -> Flag {
    let takes_values = arg.get_action().takes_values();
    let texts = |values: &[clap::builder::OsStr]| {
        let texts = values
            .iter()
            .map(|value| value.to_string_lossy().into_owned());
        texts.collect()
    };
    Flag {
        name: format!("--{long}"),
        short: arg.get_short().map(|short| format!("-{short}")),
        values: match arg.get_value_names().filter(|_| takes_values) {
            Some(names) => names.iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        },
        one_of: match takes_values {
            true => arg
                .get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect(),
            false => Vec::new(),
        },
        default: match takes_values {
            true => texts(arg.get_default_values()),
            false => Vec::new(),
        },
        repeatable: repeatable(arg),
        required: arg.is_required_set(),
        help: help(arg),
    }
}

fn argument(arg: &Arg) -> Argument {
    let names = arg.get_value_names().unwrap_or_default();
    Argument {
        name: names
            .first()
            .map_or_else(|| arg.get_id().to_string(), ToString::to_string),
        required: arg.is_required_set(),
        repeatable: repeatable(arg),
        help: help(arg),
    }
}

fn repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
}

fn help(arg: &Arg) -> Option<String> {
    arg.get_help().map(ToString::to_string)
}

#[cfg(test)]
mod tests;
