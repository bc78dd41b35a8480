//! Who may be launched. The host counts; what a script says of its own counting is not asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::handoff::host::{Block, ChildTemplate, Kind};

/// What the host launches for a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindSpec {
    /// The command line in the child's sandbox.
    pub command: Vec<String>,
    /// Variables beside the fixed ones.
    pub env: Vec<(String, String)>,
    /// The most steps, whatever a script asks for.
    pub max_steps: Option<u64>,
}

/// Why a child is not launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The ordinal is past the block: the ceiling was reached.
    #[error("the launch ceiling was reached")]
    Ceiling,
    /// The ordinal was used.
    #[error("the child id was used before")]
    IdUsed,
    /// The id is not one of this step's.
    #[error("the child id is not one of this step's")]
    ForeignId,
    /// The kind is none that the host launches.
    #[error("the host launches no child of this kind")]
    UnknownKind,
    /// The first line is no greeting.
    #[error("the launch request cannot be read")]
    BadHello,
    /// The request line is no request, or is one for another child.
    #[error("the child's request cannot be read")]
    BadRequest,
    /// The request line is too long.
    #[error("the child's request is too large")]
    TooLarge,
    /// Nothing came in time.
    #[error("the launch request did not come in time")]
    Silent,
    /// Too many connections are open.
    #[error("too many launches are waiting")]
    TooMany,
    /// The step has ended.
    #[error("the step has ended")]
    Closed,
}

impl Refusal {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Ceiling => "launch-ceiling",
            Self::IdUsed => "child-id-used",
            Self::ForeignId => "foreign-child-id",
            Self::UnknownKind => "unknown-kind",
            Self::BadHello => "bad-hello",
            Self::BadRequest => "bad-request",
            Self::TooLarge => "request-too-large",
            Self::Silent => "hello-timeout",
            Self::TooMany => "too-many-connections",
            Self::Closed => "step-ended",
        }
    }

    /// Whether the contract has a word for it: the call was skipped.
    #[must_use]
    pub fn is_skip(self) -> bool {
        matches!(self, Self::Ceiling | Self::UnknownKind)
    }
}

/// The launches of one step: which ordinals are left, and what each kind is.
#[derive(Debug)]
pub struct Admission {
    block: Block,
    template: ChildTemplate,
    kinds: BTreeMap<Kind, KindSpec>,
    used: BTreeSet<u64>,
}

impl Admission {
    /// All of a block is left.
    #[must_use]
    pub fn new(block: Block, template: ChildTemplate, kinds: BTreeMap<Kind, KindSpec>) -> Self {
        Self {
            block,
            template,
            kinds,
            used: BTreeSet::new(),
        }
    }

    /// Admits a child, whose ordinal is spent from then on whatever becomes of it.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is spent.
    pub fn admit(&mut self, child: &str, kind: &str) -> Result<(u64, KindSpec), Refusal> {
        let ordinal = self.template.ordinal(child).ok_or(Refusal::ForeignId)?;
        if ordinal > self.block.last() {
            return Err(Refusal::Ceiling);
        }
        if !self.block.contains(ordinal) {
            return Err(Refusal::ForeignId);
        }
        if self.used.contains(&ordinal) {
            return Err(Refusal::IdUsed);
        }
        let spec = Kind::new(kind).and_then(|kind| self.kinds.get(&kind));
        let spec = spec.ok_or(Refusal::UnknownKind)?.clone();
        self.used.insert(ordinal);
        Ok((ordinal, spec))
    }

    /// How many ordinals are spent.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.used.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Admission {
        let kinds = [(Kind::new("scout").unwrap(), KindSpec::default())];
        Admission::new(
            Block::new(5, 3).unwrap(),
            ChildTemplate::new("run-{n}").unwrap(),
            kinds.into_iter().collect(),
        )
    }

    #[test]
    fn each_ordinal_of_the_block_launches_once() {
        let mut admission = admission();
        let rows = [
            ("run-6", "scout", Ok(6)),
            ("run-6", "scout", Err(Refusal::IdUsed)),
            ("run-4", "scout", Err(Refusal::ForeignId)),
            ("run-8", "scout", Err(Refusal::Ceiling)),
            ("run-06", "scout", Err(Refusal::ForeignId)),
            ("run-0", "scout", Err(Refusal::ForeignId)),
            ("other-6", "scout", Err(Refusal::ForeignId)),
            ("", "scout", Err(Refusal::ForeignId)),
            ("run-5", "{child}", Err(Refusal::UnknownKind)),
            ("run-5", "miner", Err(Refusal::UnknownKind)),
            ("run-5", "", Err(Refusal::UnknownKind)),
            ("run-5", "scout", Ok(5)),
            ("run-7", "scout", Ok(7)),
            ("run-7", "scout", Err(Refusal::IdUsed)),
        ];
        for (child, kind, expected) in rows {
            let admitted = admission.admit(child, kind).map(|(ordinal, _)| ordinal);
            assert_eq!(admitted, expected, "{child} {kind}");
        }
        assert_eq!(admission.spent(), 3);
    }

    #[test]
    fn no_order_of_asking_launches_more_than_the_block() {
        proptest::proptest!(|(asked in proptest::collection::vec(0u64..20, 0..100))| {
            let mut admission = admission();
            let admitted = asked
                .iter()
                .filter(|n| admission.admit(&format!("run-{n}"), "scout").is_ok())
                .count();
            assert!(admitted <= 3);
            assert_eq!(admission.spent(), admitted as u64);
        });
    }
}
