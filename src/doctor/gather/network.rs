//! Finding out by doing: pasta's network, twice, and who gets what of two sandboxes' datagrams.

use super::ask::Reading;
use super::programs::Programs;
use super::run::Told;
use crate::config::Egress;
use crate::config::network::Pasta;
use crate::host::Host;
use crate::launch::network::{find_reach, keeps_apart};
use crate::launch::{LaunchError, spawn};
use crate::plan::network::user_namespace;

/// Whether datagrams leave a network that was made, or why there is none.
pub(in crate::doctor) type Made = Result<bool, Told>;

/// Makes the network as a call would, with nothing in it.
pub(super) async fn find_out(host: &Host, programs: &Programs) -> Reading<Made> {
    let Some(program) = &programs.pasta else {
        return Reading::Unknown("there is no pasta to make it with".to_owned());
    };
    let pasta = Pasta {
        wrapping: None,
        pasta: program.clone(),
        nft: programs.nft.clone(),
        egress: Egress::All,
        sessions: false,
    };
    let map = match user_namespace(host) {
        Ok(map) => map,
        Err(err) => return Reading::Known(Err(Told::own(err.code(), err.to_string()))),
    };
    let make = move || {
        find_reach(&pasta)?;
        let nft = pasta.nft.as_deref();
        nft.map_or(Ok(false), |nft| keeps_apart(&pasta.pasta, nft, map))
    };
    let made = spawn::on_thread(make).await;
    let told = |err: LaunchError| Told::own(err.code(), err.to_string());
    Reading::Known(made.and_then(|made| made).map_err(told))
}
