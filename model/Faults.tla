------------------------------- MODULE Faults -------------------------------
(* What an implementation may do wrong: operators that take the place of   *)
(* others of KRaft.tla.  groups.toml says which.                           *)
EXTENDS Properties

\* What is left out of a scope: an action of a node.
Never(n) == FALSE

\* Answers of one record, for RecordsFrom.
OneRecord(s, offset) == SubSeq(s.log, offset + 1, Min(offset + 1, End(s)))

\* In place of Loses. In the end, too: who loses one kind of message for ever need never get anywhere.
LosesNothing == FALSE

\* A leader goes on whose removal is committed, for IsDismissed.
NeverDismissed(s) == FALSE

\* Only targets campaign, for TimesOut.
TargetsTimeOut(n) ==
    LET s == node[n]
    IN n \in InitialTargets /\ MayTimeOut(s) /\ Step(n, Promoted(Prospects(s)), net) /\ UNCHANGED spent

\* A new leader goes on with a reassignment at once, as the draft KIP-595 has it, for HasCommitted.
NotAwaited(s) == TRUE

\* A voter votes for whoever has a sufficient log, for VotesForStrangers.
VotesForAll(s) == TRUE
=============================================================================
