//! Other platforms: nothing of the kind is there, and nothing is selected that would ask for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::NetworkError;
use crate::config::network::Pasta;
use crate::launch::LaunchError;
use crate::launch::sys::Enter;
use crate::launch::teardown::Token;
use crate::plan::network::wrap::Meeting;
use crate::plan::network::{NetworkPlan, Reach};
use crate::plan::{CommandLine, IdMap};

#[derive(Debug)]
pub(crate) enum Network {}

impl Network {
    pub(crate) fn up(_: &NetworkPlan, _: &Reach, _: Token) -> Result<Option<Self>, LaunchError> {
        Err(NetworkError::NotLinux.into())
    }

    pub(crate) fn datagrams(&self) -> Option<bool> {
        match *self {}
    }

    pub(crate) fn entry(&self) -> io::Result<Enter> {
        match *self {}
    }

    pub(crate) fn tie(&mut self, _: OwnedFd) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Gate {}

pub(crate) struct Behind {
    pub(crate) datagrams: Option<bool>,
}

#[derive(Debug)]
pub(crate) enum Ports {}

impl Gate {
    pub(crate) fn make(_: &Meeting, _: &NetworkPlan, _: &CommandLine) -> Result<Self, LaunchError> {
        Err(NetworkError::NotLinux.into())
    }

    pub(crate) fn ports(&self) -> Option<Arc<Ports>> {
        match *self {}
    }

    pub(crate) fn open(
        self,
        _: u32,
        _: &OwnedFd,
        _: Option<OwnedFd>,
        _: &Reach,
    ) -> Result<(OwnedFd, Behind), LaunchError> {
        match self {}
    }
}

pub(crate) fn find_reach(_: &Pasta) -> Result<Reach, LaunchError> {
    Err(NetworkError::NotLinux.into())
}

pub(crate) fn keeps_apart(_: &Path, _: &Path, _: Option<IdMap>) -> Result<bool, LaunchError> {
    Err(NetworkError::NotLinux.into())
}
