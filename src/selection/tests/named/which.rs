//! Which runtime is named, and who has to name one.

/// What a machine selects where this names `runsc`.
fn named(machine: &Machine, by: Source) -> Selection {
    Selection {
        choice: Choice::new(match by {
            Source::Flag => ChosenBy::Flag,
            Source::Environment => ChosenBy::Environment,
        }),
        ..machine.named_selection()
    }
}
use crate::host::Platform;
use crate::selection::tests::support::Machine;
use crate::selection::{Choice, ChosenBy, Refusal, Selection, select};
use crate::settings::tests::bare_host;
use crate::settings::{Entrypoint, Flags, NETWORK, RUNTIME, Settings, Source};

#[test]
fn which_runtime() {
    let docker = |by, has_default| {
        Err(Refusal::Docker {
            by,
            has_default,
            takes_flags: true,
        })
    };
    let unknown = |value: &str, by| {
        Err(Refusal::UnknownRuntime {
            value: value.into(),
            by,
        })
    };
    type Expected = Box<dyn Fn(&Machine) -> Result<Selection, Refusal>>;
    // Flag, variable, what is selected.
    let cases: Vec<(Option<&str>, Option<&str>, Expected)> = vec![
        (None, None, Box::new(|m| Ok(m.default_selection()))),
        (None, Some(""), Box::new(|m| Ok(m.default_selection()))),
        (
            Some("runsc"),
            None,
            Box::new(|m| Ok(named(m, Source::Flag))),
        ),
        (
            None,
            Some("runsc"),
            Box::new(|m| Ok(named(m, Source::Environment))),
        ),
        (
            Some(" runsc "),
            None,
            Box::new(|m| Ok(named(m, Source::Flag))),
        ),
        (
            None,
            Some("\trunsc\n"),
            Box::new(|m| Ok(named(m, Source::Environment))),
        ),
        (
            Some("runsc"),
            Some("docker"),
            Box::new(|m| Ok(named(m, Source::Flag))),
        ),
        (
            Some("runsc"),
            Some("podman"),
            Box::new(|m| Ok(named(m, Source::Flag))),
        ),
        (
            Some("docker"),
            Some("runsc"),
            Box::new(move |_| docker(Source::Flag, true)),
        ),
        (
            None,
            Some(" docker "),
            Box::new(move |_| docker(Source::Environment, true)),
        ),
        (
            Some("podman"),
            None,
            Box::new(move |_| unknown("podman", Source::Flag)),
        ),
        (
            None,
            Some("podman"),
            Box::new(move |_| unknown("podman", Source::Environment)),
        ),
        (
            Some(""),
            Some("runsc"),
            Box::new(move |_| unknown("", Source::Flag)),
        ),
        (
            Some("RUNSC"),
            None,
            Box::new(move |_| unknown("RUNSC", Source::Flag)),
        ),
        (
            Some("Docker"),
            None,
            Box::new(move |_| unknown("Docker", Source::Flag)),
        ),
    ];
    for (flag, variable, expected) in &cases {
        for mut machine in [Machine::linux(1000), Machine::linux(0), Machine::macos()] {
            machine.flags.sandbox_runtime = flag.map(Into::into);
            if let Some(value) = variable {
                machine.set(RUNTIME.variable, value);
            }
            assert_eq!(
                machine.select(&Entrypoint::BATCH),
                expected(&machine),
                "{flag:?}, {variable:?}"
            );
        }
    }
}

#[test]
fn docker_is_refused_before_anything_else() {
    for (entrypoint, platform, has_default) in [
        (Entrypoint::BATCH, Platform::Linux, true),
        (Entrypoint::ENVIRONMENT, Platform::MacOs, true),
        (
            Entrypoint::BATCH,
            Platform::Other("freebsd".to_owned()),
            false,
        ),
        (
            Entrypoint::without_default("the host", true),
            Platform::Linux,
            false,
        ),
    ] {
        let mut host = bare_host();
        host.platform = platform;
        host.variables
            .insert(RUNTIME.variable.to_owned(), "docker".into());
        host.variables
            .insert(NETWORK.variable.to_owned(), "wrong".into());
        let settings = Settings::new(&Flags::default(), &host);
        assert_eq!(
            select(&settings, &host, &entrypoint),
            Err(Refusal::Docker {
                by: Source::Environment,
                has_default,
                takes_flags: entrypoint.takes_flags,
            })
        );
    }
}

#[test]
fn an_entrypoint_without_a_default_refuses_on_every_platform() {
    for mut machine in [Machine::linux(0), Machine::linux(1000), Machine::macos()] {
        for platform in [
            machine.host.platform.clone(),
            Platform::Other("freebsd".to_owned()),
        ] {
            machine.host.platform = platform;
            for takes_flags in [true, false] {
                assert_eq!(
                    machine.select(&Entrypoint::without_default("Loom", takes_flags)),
                    Err(Refusal::MustBeNamed {
                        who: "Loom",
                        takes_flags
                    })
                );
            }
        }
    }
    let mut machine = Machine::linux(1000);
    machine.set(RUNTIME.variable, "runsc");
    assert_eq!(
        machine.select(&Entrypoint::without_default("Loom", false)),
        Ok(named(&machine, Source::Environment))
    );
}
