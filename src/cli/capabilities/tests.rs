use clap::CommandFactory as _;

use super::*;
use crate::cli::Cli;

fn described() -> Value {
    serde_json::to_value(describe(Cli::command())).unwrap()
}

fn names(flags: &Value) -> Vec<&str> {
    let flags = flags.as_array().unwrap();
    flags
        .iter()
        .map(|flag| flag["name"].as_str().unwrap())
        .collect()
}

#[test]
fn the_flags_of_each_verb_are_those_that_it_parses() {
    let described = described();
    let run = names(&described["verbs"]["run"]["flags"]);
    for flag in [
        "--sandbox-runtime",
        "--sandbox-rootfs",
        "--network",
        "--json",
    ] {
        assert!(run.contains(&flag), "{flag} is not in {run:?}");
    }
    assert!(
        !run.contains(&"--verbose"),
        "a global flag is the command's"
    );
    let doctor = names(&described["verbs"]["doctor"]["flags"]);
    assert_eq!(doctor, ["--json", "--only", "--no-probe", "--help"]);
    let check = names(&described["verbs"]["handoff check"]["flags"]);
    assert_eq!(check, ["--context", "--require-ready", "--root", "--help"]);
    let gc = names(&described["verbs"]["gc"]["flags"]);
    assert_eq!(gc, ["--dry-run", "--json", "--help"]);
    assert_eq!(
        names(&described["flags"]),
        [
            "--verbose",
            "--describe-capabilities",
            "--help",
            "--version"
        ]
    );
}

#[test]
fn what_a_flag_takes_is_told() {
    let described = described();
    let flags = described["verbs"]["run"]["flags"].as_array().unwrap();
    let flag = |name: &str| flags.iter().find(|flag| flag["name"] == name).unwrap();
    assert_eq!(
        flag("--ro-bind")["values"],
        serde_json::json!(["SRC", "DST"])
    );
    assert_eq!(flag("--ro-bind")["repeatable"], true);
    assert_eq!(
        flag("--stdin")["oneOf"],
        serde_json::json!(["inherit", "null"])
    );
    assert_eq!(flag("--stdin")["default"], serde_json::json!(["inherit"]));
    assert_eq!(flag("--json")["values"], serde_json::json!([]));
    assert_eq!(flag("--json")["repeatable"], false);
    let arguments = &described["verbs"]["run"]["arguments"];
    assert_eq!(arguments[0]["name"], "ARGV");
    assert_eq!(arguments[0]["required"], true);
}

#[test]
fn each_schema_says_which_it_is() {
    for (what, text) in SCHEMAS {
        assert_eq!(id(text), format!("runsc-driver/{what}/v1"));
    }
    assert_eq!(described()["schema"], SCHEMA);
}

#[test]
fn the_object_fits_its_schema() {
    let (_, schema) = SCHEMAS
        .iter()
        .find(|(what, _)| *what == "capabilities")
        .unwrap();
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let described = described();
    let wrong: Vec<_> = validator
        .iter_errors(&described)
        .map(|err| err.to_string())
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}
