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

\* Kafka's leader resigns as it completes the request that removed it, for IsDismissed. If that has
\* timed out before, it goes on: an action, for Names. (A leader has no other use for `fetched'.)
IsDismissedAsAsked(s) == ~s.fetched /\ ~IsVoter(s) /\ VotersAt(s) <= s.hw

RequestTimesOut(n) ==
    LET s == node[n]
    IN /\ s.role = "leader" /\ ~IsVoter(s) /\ VotersAt(s) > s.hw
       /\ Step(n, [s EXCEPT !.fetched = TRUE], net) /\ UNCHANGED spent

\* Only targets campaign, for TimesOut.
TargetsTimeOut(n) ==
    LET s == node[n]
    IN n \in InitialTargets /\ MayTimeOut(s) /\ Step(n, Promoted(Prospects(s)), net) /\ UNCHANGED spent

\* A new leader goes on with a reassignment at once, as the draft KIP-595 has it, for HasCommitted.
NotAwaited(s) == TRUE

\* A follower that is no voter grants pre-votes, for FollowerGrantsPreVote: our nodes do, once their
\* leader is silent.
NoVoterGrantsPreVote(s) == ~s.fetched \/ ~IsVoter(s)

\* A voter votes for whoever has a sufficient log, for VotesForStrangers.
VotesForAll(s) == TRUE
=============================================================================
