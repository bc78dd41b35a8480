//! What labels cost: a cold call with the store's policy beside the same over the stock runsc and
//! without one, over workspaces of different sizes, where the store's runsc tracks labels.

use std::fs;
use std::path::Path;
use std::time::Duration;

use runsc_driver::Call;
use runsc_driver::cfc::mode::EnforcementMode;
use serde::Serialize;

use crate::measure::{Effort, Rounds, Subject, Summary, timed};
use crate::place::{Ours, Place, apart, finish};
use crate::stop::{self, Stop};

const WITH: &str = "with --cfc";
const WITHOUT: &str = "without --cfc";
/// How many files the workspaces have.
const FILES: [usize; 3] = [10, 1_000, 100_000];
/// How many files a directory of them has.
const A_DIRECTORY: usize = 1_000;

/// With labels over without, by the number of files.
#[derive(Debug, Serialize)]
pub struct LabelCost {
    pub files: usize,
    pub cfc_over_plain: Summary,
}

/// None where the runsc does not track labels.
pub fn measure(place: &Place, effort: Effort) -> Result<Option<Vec<LabelCost>>, Stop> {
    if finish(apart(&place.runsc).args(["--cfc", "--version"])).is_err() {
        return Ok(None);
    }
    let policy = place.policy();
    let cost = |files| {
        let workspace = place.dir.path().join(format!("files-{files}"));
        fill(&workspace, files)?;
        let driver = |name, policy: Option<&Path>| {
            let ours = place.driver(|options| {
                options.workspace.clone_from(&workspace);
                match policy {
                    Some(policy) => {
                        options.policy = Some(policy.to_owned());
                        options.mode = EnforcementMode::default();
                    }
                    None => options.runsc = place.stock.clone().into(),
                }
            });
            Ok::<_, Stop>(Over {
                name,
                ours: ours.map_err(Stop::Failed)?,
            })
        };
        let (mut with, mut without) = (driver(WITH, Some(&policy))?, driver(WITHOUT, None)?);
        let what = format!("labels over {files} files");
        let rounds = Rounds::measure(&what, &mut [&mut with, &mut without], effort)?;
        Ok(LabelCost {
            files,
            cfc_over_plain: rounds.ratio(WITH, WITHOUT),
        })
    };
    FILES
        .into_iter()
        .map(cost)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn fill(workspace: &Path, files: usize) -> Result<(), Stop> {
    let failed = |err: std::io::Error| Stop::Failed(err.to_string());
    for file in 0..files {
        let dir = workspace.join((file / A_DIRECTORY).to_string());
        if file % A_DIRECTORY == 0 {
            stop::check()?;
            fs::create_dir_all(&dir).map_err(failed)?;
        }
        fs::write(dir.join(file.to_string()), "a line\n").map_err(failed)?;
    }
    Ok(())
}

struct Over<'a> {
    name: &'static str,
    ours: Ours<'a>,
}

impl Subject for Over<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.ours.run(Call::new(["true"])))
    }
}
