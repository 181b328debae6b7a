------------------------------ MODULE Mutants ------------------------------
(* The model with a guard dropped or a quorum weakened: operators that take *)
(* the place of others of KRaft.tla, to see which property notices.         *)
(* mutants.toml says which.                                                 *)
EXTENDS Faults

Half(keys, voters) == 2 * Cardinality(keys \cap voters) >= Cardinality(voters)

\* The candidate's log is not looked at.
AlwaysUpToDate(s, m) == TRUE

\* Whoever asks gets the vote of an epoch, also after another.
GrantsAgain(s, m) == s.role \in {"unattached", "prospective"} /\ IsUpToDate(s, m)

\* A follower that hears from its leader grants a pre-vote.
AlwaysGrants(s) == TRUE

\* A vote is not on the disk when it is given.
WithoutVote(s) == FirstRole([s EXCEPT !.vote = None])
StartsWithoutVote(s) == [WithoutVote(s) EXCEPT !.vote = None]

AlwaysDurable(s) == TRUE

\* A leader counts what is not on its disk yet.
WholeLog(s) == End(s)

\* The changes before need not be committed.
AnyTime(s) == Dynamic /\ s.role = "leader"

\* A log that ends differently is not found out.
OneEpoch(s, epoch) == [epoch |-> epoch, end |-> End(s)]

\* An answer counts however long it took.
FromTheLeader(s, m) == s.role = "follower" /\ s.leader = m.from

\* A leader commits records of earlier epochs as soon as a majority has them.
OfAnyEpoch(s, end) == TRUE

\* A start finds an empty log.
WithoutLog(s, end) == Started(Reopened(s, 0))

\* A snapshot has the whole log, also what is not committed.
OfWholeLog(s, end) == [s EXCEPT !.snapshot = End(s)]

\* A log is cleaned to the high watermark, whatever a snapshot has.
StartsAtHw(s, start) == [s EXCEPT !.start = s.hw]

\* A follower whose log diverges begins with an empty one.
CutsAll(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
    IN Does(IF IsAwaited(t, m) THEN [Truncated(t, 0) EXCEPT !.fetched = TRUE] ELSE t, {})

\* A follower takes its leader's high watermark, also if that is less than its own.
TakesAnyHw(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
        longer == Appended(t, m.records)
    IN Does(IF IsAwaited(t, m)
            THEN [longer EXCEPT !.fetched = TRUE, !.hw = Min(End(longer), m.hw)]
            ELSE t, {})

StoresAll(m) == TRUE

StoresNothing(m) == FALSE

\* A leader that resigns campaigns in the same epoch.
CampaignsAgain(s) == Becomes(s, "candidate")

\* A sync fails, and the log is cut to what is on the disk: a leader's, too.
LosesUnsynced(s, end) == Truncated(s, s.synced)

\* A node that was told of an older epoch goes back to it.
LearnsAnything(s, epoch, leader) ==
    IF leader \notin {None, s.id} THEN Follows(s, epoch, leader) ELSE Unattached(s, epoch)
=============================================================================
