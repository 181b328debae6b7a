----------------------------- MODULE Properties -----------------------------
(***************************************************************************)
(* What must hold.  The names are those of the simulator (docs/simulation  *)
(* .md), where a property means the same.  Three are the model's alone:    *)
(* one_vote_is_stored, removed_leader_resigns, leader_can_be_elected.  The *)
(* first part is true of each state, the second of each step.              *)
(***************************************************************************)
EXTENDS KRaft

IsPrefix(short, long) == Len(short) <= Len(long) /\ SubSeq(long, 1, Len(short)) = short

Up == {node[n] : n \in Node}

\* Nodes are alike but for the part that they begin with. (TLC writes a definition without arguments
\* out whether it is used or not: beside traces of many nodes this would take its time.)
Symmetry ==
    UNION {Permutations(alike) : alike \in {InitialVoters \cap InitialTargets,
                                            InitialVoters \ InitialTargets,
                                            InitialTargets \ InitialVoters,
                                            Node \ (InitialVoters \cup InitialTargets)}}

----------------------------------------------------------------------------
\* Of each state.

\* The same offset and epoch mean the same log up to there. (By induction: the record, and the one
\* before it.)
log_matching ==
    \A s, t \in Up : \A i \in 1..Min(End(s), End(t)) :
        s.log[i].epoch = t.log[i].epoch =>
            s.log[i] = t.log[i] /\ (i > 1 => s.log[i - 1] = t.log[i - 1])

\* What two nodes know to be committed is the same.
committed_bytes ==
    \A s \in Up : IsPrefix(SubSeq(s.log, 1, Min(s.hw, Len(committed))), committed)

\* A leader has all that was committed before it. The last committed record is of the epoch in which
\* it was committed.
leader_completeness ==
    \A s \in Up :
        s.role = "leader" /\ committed # <<>> /\ s.epoch >= committed[Len(committed)].epoch
            => IsPrefix(committed, s.log)

\* A vote that was granted is stored: a node grants one candidate of an epoch.
one_vote_is_stored ==
    \A m \in net :
        m.kind = "granted" /\ ~m.pre =>
            LET s == node[m.from]
            IN Key(s) = m.key /\ s.epoch = m.epoch => s.vote = m.toKey

\* Voter sets change one by one, each committed before the next is written.
one_voter_change ==
    \A s \in Up : \A i \in 2..Len(s.sets) :
        LET old == s.sets[i - 1]
            new == s.sets[i]
        IN /\ old.voters # new.voters => IsPrefix(SubSeq(s.log, 1, old.at), committed)
           /\ old.at > 0 => /\ Cardinality(old.voters \ new.voters) <= 1
                            /\ Cardinality(new.voters \ old.voters) <= 1

\* A node acts on the last voter set in its log.
voters_follow_log ==
    \A s \in Up : Voters(s) = Voters([sets |-> SetsRead(<<Head(s.sets)>>, s.log, 1)])

\* A snapshot is what was committed before its end.
snapshot_is_prefix ==
    \A s \in Up : s.snapshot <= End(s) /\ IsPrefix(SubSeq(s.log, 1, s.snapshot), committed)

\* A log starts at 0 or where a snapshot ends: the first one that is still there.
snapshot_at_log_start == \A s \in Up : s.start \in {0, s.first} /\ s.first <= s.snapshot

\* A leader that is no voter, and knows that to be committed, leads no more.
removed_leader_resigns ==
    \A s \in Up :
        s.role = "leader" /\ EpochAt(s, s.hw) = s.epoch => IsVoter(s) \/ VotersAt(s) > s.hw

\* While there is no leader, one can be elected: some node may campaign, and a majority of its
\* voters would vote for it in a new epoch, and grant a pre-vote before. All disks that are there are
\* as they are, and no more messages are lost. Who may campaign does not stay a follower.
ComesToGrantPreVotes(s) ==
    PreVote = "none" \/ s.role # "follower" \/ MayCampaign(s) \/ FollowerGrantsPreVote(s)

CanBeElected(s) ==
    /\ MayCampaign(s)
    /\ LET willing == {Key(t) : t \in {t \in Up :
                            /\ IsUpToDate(t, [lastEpoch |-> LastEpoch(s), end |-> End(s)])
                            /\ MayVoteFor(t, Key(s))
                            /\ ComesToGrantPreVotes(t)}}
       IN Majority(willing, Voters(s))

leader_can_be_elected ==
    (\E s \in Up : s.role = "leader") \/ (\E s \in Up : CanBeElected(s))

----------------------------------------------------------------------------
\* Of each step.

\* Whether node n has the same disk after the step; whether it did not start anew; and both.
SameDisk(n) == node'[n].dir = node[n].dir

IsStart == spent'.crashes > spent.crashes

Continues(n) == SameDisk(n) /\ (IsStart => node'[n] = node[n])

New == net' \ net

\* An epoch has one leader, in one incarnation of it.
single_leader ==
    [][\A n \in Node :
        node'[n].role = "leader" /\ (node[n].role # "leader" \/ node[n].epoch # node'[n].epoch)
            => node'[n].epoch \notin led]_vars

monotonic_epoch == [][\A n \in Node : SameDisk(n) => node'[n].epoch >= node[n].epoch]_vars

\* In an epoch a vote is given once, and not taken back.
one_vote ==
    [][\A n \in Node :
        SameDisk(n) /\ node'[n].epoch = node[n].epoch /\ node[n].vote # None
            => node'[n].vote = node[n].vote]_vars

\* A pre-vote moves no vote, and who asks for pre-votes does not go back to an older epoch.
pre_vote_changes_nothing ==
    [][/\ \A n \in Node :
            node'[n].role = "prospective" /\ node[n].role # "prospective"
                => node'[n].epoch >= node[n].epoch /\ node'[n].vote \in {node[n].vote, None}
       /\ \A m \in New :
            m.kind = "granted" /\ m.pre /\ node[m.from].epoch = m.epoch
                => node'[m.from] = node[m.from]]_vars

\* A leader grants nothing, and neither does a follower that has fetched from it.
no_vote_against_live_leader ==
    [][\A m \in New :
        m.kind = "granted" =>
            LET s == node[m.from]
            IN s.epoch = m.epoch =>
                s.role # "leader" /\ ~(s.role = "follower" /\ (s.fetched \/ ~m.pre))]_vars

\* Who grants a vote is the voter that was asked, with the disk that was asked.
voter_is_who_was_asked ==
    [][\A m \in New :
        m.kind = "granted" /\ (Dynamic \/ ~FirstKip853) =>
            \E v \in net : /\ v.kind = "vote" /\ v.to = m.from /\ v.toKey = m.key
                          /\ v.from = m.to /\ v.key = m.toKey /\ v.pre = m.pre]_vars

\* Who stands for election has been granted a majority of pre-votes before, by what has arrived.
pre_votes_come_first ==
    [][\A n \in Node :
        LET s == node[n]
            arrived == {m.key : m \in {m \in net :
                            m.kind = "granted" /\ m.pre /\ m.toKey = Key(s) /\ m.epoch = s.epoch}}
            granted == {Key(s)} \cup IF s.role = "prospective" THEN s.votes \cup arrived ELSE {}
        IN /\ PreVote # "none" /\ SameDisk(n)
           /\ node'[n].vote = Key(s) /\ node'[n].epoch > s.epoch
           => Majority(granted, Voters(s))]_vars

leader_append_only ==
    [][\A n \in Node :
        /\ node[n].role = "leader" /\ node'[n].role = "leader" /\ node'[n].epoch = node[n].epoch
        => /\ IsPrefix(node[n].log, node'[n].log)
           /\ \A i \in End(node[n]) + 1..End(node'[n]) : node'[n].log[i].epoch = node[n].epoch]_vars

\* What was synced is there after a start, and so is the vote.
durable_survives ==
    [][\A n \in Node :
        SameDisk(n) /\ IsStart => /\ IsPrefix(SubSeq(node[n].log, 1, node[n].synced), node'[n].log)
                                  /\ node'[n].vote = node[n].vote \/ node'[n].epoch > node[n].epoch]_vars

synced_before_fetch == [][\A m \in New : m.kind = "fetch" => node[m.from].synced >= m.at]_vars

synced_before_vote == [][\A m \in New : m.kind = "vote" => node[m.from].synced >= m.end]_vars

\* No node truncates below what it knows to be committed.
no_truncation_of_committed ==
    [][\A n \in Node :
        Continues(n) => IsPrefix(SubSeq(node[n].log, 1, node[n].hw), node'[n].log)]_vars

\* An answer by which a node cuts its log commits nothing. A snapshot is committed.
no_commit_while_truncating ==
    [][\A n \in Node :
        Continues(n) /\ End(node'[n]) < End(node[n]) /\ node'[n].snapshot = node[n].snapshot
            => node'[n].hw = node[n].hw]_vars

monotonic_high_watermark == [][\A n \in Node : Continues(n) => node'[n].hw >= node[n].hw]_vars

\* What a leader takes for committed is on the disks of a majority of its voters.
majority_holds_high_watermark ==
    [][\A n \in Node :
        LET s == node'[n]
            held == {Key(t) : t \in {t \in {node'[x] : x \in Node} :
                        /\ t.synced >= s.hw
                        /\ SubSeq(t.log, 1, s.hw) = SubSeq(s.log, 1, s.hw)}}
        IN s.hw > node[n].hw /\ node[n].role # "follower" /\ s.role \in {"leader", "resigned"}
            => Majority(held, Voters(s))]_vars

\* Who becomes a voter has a record of the leader's epoch, or has gone on to a later one. (A draft
\* KIP-595 reassignment asks for no more than that it fetches.)
new_voter_is_caught_up ==
    [][\A n, r \in Node :
        LET s == node[n]
            new == Voters(node'[n]) \ Voters(s)
        IN s.role = "leader" /\ End(node'[n]) > End(s) /\ Key(node[r]) \in new /\ ~Reassigns
            => \/ node[r].epoch > s.epoch
               \/ \E i \in 1..End(node[r]) :
                    node[r].log[i].epoch = s.epoch /\ i <= End(s) /\ node[r].log[i] = s.log[i]]_vars

\* Roles change along the arrows of KIP-595 and KIP-996, where a step may take two of them.
Arrows ==
    [unattached |-> {"prospective", "follower", "candidate", "leader"},
     prospective |-> {"candidate", "leader", "follower", "unattached"},
     candidate |-> {"leader", "prospective", "unattached", "follower", "resigned"},
     leader |-> {"resigned", "unattached", "follower", "prospective"},
     follower |-> {"prospective", "unattached", "candidate", "leader"},
     resigned |-> {"unattached", "follower", "prospective"}]

legal_transitions ==
    [][\A n \in Node :
        Continues(n) /\ node'[n].role # node[n].role =>
            \/ node'[n].role \in Arrows[node[n].role]
            \/ PreVote = "none" /\ node'[n].role \in {"candidate", "leader"}]_vars
=============================================================================
