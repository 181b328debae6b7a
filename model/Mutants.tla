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

\* Votes are asked for by a log that is not on the disk yet.
AsksAtOnce(s) == s.role \in {"prospective", "candidate"}

\* A Vote that names another directory is answered, too.
AnyDisk(s, m) == TRUE

\* Whoever fetches becomes a voter.
WhoeverFetches(s, key) == ~\E voter \in Voters(s) : voter[1] = key[1]

\* A follower takes for committed what is left of its log.
CommitsWhatIsLeft(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
        own == EndOfEpoch(t, m.epochThere)
        end == IF own.epoch = m.epochThere THEN Min(own.end, m.endThere) ELSE own.end
    IN Does(IF IsAwaited(t, m)
            THEN [Truncated(t, end) EXCEPT !.fetched = TRUE, !.hw = Max(@, end)]
            ELSE t, {})

----------------------------------------------------------------------------
\* For runs of real nodes: what traces have corrected, as it was; and rules that are too strict, which
\* no property notices.

\* An epoch before all that a leader has is answered with epoch 0.
NamesEpochZero(s, epoch) ==
    LET below == {i \in 1..End(s) : s.log[i].epoch <= epoch}
        end == IF below = {} THEN 0 ELSE Largest(below)
    IN [epoch |-> EpochAt(s, end), end |-> end]

\* There is no checkpoint of a bootstrap.
NoCheckpoint(s) == FALSE

\* A leader sends its snapshot only to who lacks what its log does not have.
NeedsWhatIsDeleted(s, m) ==
    \/ m.at = 0 /\ s.snapshot > 0
    \/ /\ s.start > 0
       /\ m.at < s.start \/ (m.at = s.start /\ m.lastEpoch # EpochAt(s, s.start))

\* A Prospective follows its leader again when that calls.
ProspectiveFollows(s) == s.role = "prospective"

\* All voters are a majority.
All(keys, voters) == voters \subseteq keys

\* A log that is as long as one's own does not get the vote.
IsLonger(s, m) == m.lastEpoch > LastEpoch(s) \/ (m.lastEpoch = LastEpoch(s) /\ m.end > End(s))

\* Whom a set of voters has that is not known to be replaced for good takes itself for a voter.
IsInNoSetInForce(s) ==
    LET known == Largest({s.sets[i].at : i \in {i \in 1..Len(s.sets) : s.sets[i].at <= s.hw}})
    IN \A i \in 1..Len(s.sets) : s.sets[i].at >= known => Key(s) \notin s.sets[i].voters
=============================================================================
