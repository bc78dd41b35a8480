//! What a model is told of the tool.

use serde_json::{Value, json};

use crate::cfc::mode::EnforcementMode;
use crate::driver::{Description, SESSION_NAME_PATTERN};

/// The tool's name.
pub const NAME: &str = "bash";

/// The tool as a model is offered it: its name, what it does, and its input as a JSON Schema.
///
/// A `session` is offered where the driver has them and the mode allows one. Everywhere else the
/// descriptor is the same to the byte.
#[must_use]
pub fn descriptor(description: &Description, mode: EnforcementMode) -> Value {
    let mut properties = json!({
        "command": {
            "type": "string",
            "description": "The text that /bin/sh -lc is given."
        },
        "cwd": {
            "type": "string",
            "description": "The directory to run in; a relative one starts from the last call's. \
                            It has to lie in the workspace or another mount. Without it the \
                            command runs where the last one ended."
        },
        "timeoutMs": {
            "type": "number",
            "minimum": 0,
            "description": "How many milliseconds the command may take. Without it there is no \
                            limit. A command that takes longer is ended, its output is dropped, \
                            and the exit code is 124."
        }
    });
    if description.sessions && mode.allows_sessions() {
        properties["session"] = json!({
            "type": "string",
            "pattern": SESSION_NAME_PATTERN,
            "description": "A name of your choice for a container that stays. The first call that \
                            names it starts it, and later ones find what earlier ones left in it: \
                            files outside the mounts, processes in the background, installed \
                            packages. A command that overruns its timeoutMs ends the session. \
                            Without a name the command runs in a new container that is gone \
                            afterwards."
        });
    }
    json!({
        "name": NAME,
        "description": "Runs a shell command in the sandbox and returns its exit code, standard \
                        output and standard error. Files in the workspace stay, and so does the \
                        working directory. Variables and functions of the shell do not. Of very \
                        long output the middle is left out.",
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": ["command"],
            "additionalProperties": false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::description::{KIND, Sandbox};

    fn description(sessions: bool) -> Description {
        Description {
            kind: KIND,
            default_working_directory: "/workspace".into(),
            sessions,
            exec_via: None,
            cfc: Sandbox {
                runtime_requested: true,
                image: "/images/secret".into(),
                workspace_mount_path: "/workspace".into(),
                mounts: Vec::new(),
                network_mode: "none",
                udp: None,
                invocation_context_transport: "fd",
                invocation_context_transport_readiness: "intrinsic",
            },
            selection: None,
        }
    }

    fn text(sessions: bool, mode: EnforcementMode) -> String {
        descriptor(&description(sessions), mode).to_string()
    }

    #[test]
    fn a_session_is_offered_where_there_is_one_to_be_had_and_nowhere_else() {
        let without = text(false, EnforcementMode::Disabled);
        let with = text(true, EnforcementMode::Disabled);
        for mode in EnforcementMode::ALL {
            assert_eq!(text(false, mode), without, "{mode}");
            let offered = match mode.allows_sessions() {
                true => &with,
                false => &without,
            };
            assert_eq!(&text(true, mode), offered, "{mode}");
        }
        assert!(!without.contains("ession"), "{without}");

        let mut fewer = descriptor(&description(true), EnforcementMode::Observe);
        let properties = fewer["inputSchema"]["properties"].as_object_mut();
        let session = properties.unwrap().shift_remove("session").unwrap();
        assert_eq!(fewer.to_string(), without);
        assert_eq!(session["pattern"], SESSION_NAME_PATTERN);
        assert!(!with.contains("secret"));
    }

    #[test]
    fn the_schema_takes_what_the_tool_takes() {
        let descriptor = descriptor(&description(true), EnforcementMode::Disabled);
        let schema = jsonschema::validator_for(&descriptor["inputSchema"]).unwrap();
        let cases = [
            (json!({"command": "ls"}), true),
            (
                json!({"command": "ls", "cwd": "a", "timeoutMs": 1.5, "session": "a.B-_9"}),
                true,
            ),
            (json!({"command": "ls", "session": "a".repeat(32)}), true),
            (json!({"command": "ls", "session": "a".repeat(33)}), false),
            (json!({"command": "ls", "session": "-a"}), false),
            (json!({"command": "ls", "session": ""}), false),
            (json!({"command": "ls", "timeoutMs": -1}), false),
            (json!({"command": "ls", "timeoutMs": "1"}), false),
            (json!({"command": 1}), false),
            (json!({"cwd": "a"}), false),
            (json!({"command": "ls", "env": {}}), false),
        ];
        for (input, valid) in cases {
            assert_eq!(schema.is_valid(&input), valid, "{input}");
            let read = super::super::Input::parse(&input);
            let taken = read.is_ok_and(|input| {
                let name = input.session.as_deref();
                name.is_none_or(crate::driver::is_session_name)
            });
            assert_eq!(taken, valid, "{input}");
        }
    }
}
