------------------------------- MODULE KRaft -------------------------------
(***************************************************************************)
(* Apache Kafka's consensus protocol, as KIP-595, KIP-853 and KIP-996 and  *)
(* the releases 4.0 to 4.4 have it.                                        *)
(*                                                                         *)
(* Where to begin.  A reader who knows Raft, and not TLA+, needs this:     *)
(*                                                                         *)
(*  * A state is a value of the five variables below.  `node' has a record *)
(*    for each node, `net' the messages in flight, the others are written  *)
(*    by the model for its properties and bounds; no node reads them.      *)
(*  * A function such as Learned(s, e, l) takes a node's record s and      *)
(*    returns the record that it becomes.  [s EXCEPT !.role = "leader"] is *)
(*    s with another role.  Nothing is assigned.                           *)
(*  * An action, such as TimesOut(n), relates a state and the next one,    *)
(*    whose variables have a prime.  `Next', at the end, is the list of    *)
(*    everything that may happen.  TLC follows each choice there is.       *)
(*                                                                         *)
(* Read `Next' first, then one message with its answer (Vote: AskVote,     *)
(* OnVote, OnVoteReply), then Advanced, which says what is committed.      *)
(* The properties are in Properties.tla, and docs/model.md has a page on   *)
(* all of it.                                                              *)
(*                                                                         *)
(* What to know about the model:                                           *)
(*                                                                         *)
(*  * There is no clock.  A timer may expire at any moment.                *)
(*  * A step of a node is one message or one timer, as in Kafka's single   *)
(*    raft thread.  quorum-state is on the disk when the step ends; of the *)
(*    log only the first `synced' records are.  A crash takes any part of  *)
(*    the others.                                                          *)
(*  * `net' is a set: messages overtake each other.  Any may be lost; with *)
(*    Duplicates, one that was received may come again.                    *)
(*  * An answer has what the request asked about (such as the offset), so  *)
(*    that one that comes late is told from one that is awaited.  Answers  *)
(*    that would tell the requester nothing are not sent.                  *)
(*  * An offset is the number of records before it, so the end of a log is *)
(*    its length.  A snapshot that ends at offset k stands for the first k *)
(*    records; `log' keeps them, and no node reads below `start'.          *)
(*  * A voter is a pair of a node and the id of its directory (KIP-853).   *)
(*    In a static quorum the directory is 0, whatever disk the node has.   *)
(*                                                                         *)
(* A fault of an implementation is an operator of this module that is      *)
(* replaced by another: see groups.toml and Faults.tla.                    *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Node,             \* All nodes.
    None,             \* No node.
    InitialVoters,    \* The nodes that the quorum begins with.
    Dynamic,          \* Whether voters are records of the log (kraft.version 1), or fixed.
    PreVote,          \* "kafka"; "kip-996", the draft; "none", as before Kafka 4.0.
    RemovedCampaigns, \* Whether a removed voter campaigns until the removal is committed.
    Reassigns,        \* Whether the voters change as in the draft KIP-595: towards target voters.
    FirstKip853,      \* Whether voters begin, vote and change as in KIP-853's first version.
    InitialTargets,   \* The targets of a reassignment that a led quorum begins with, or {}.
    Begins,           \* "empty", or "led": with a leader of epoch 1 that all voters follow.
    SyncsAtOnce,      \* The roles that sync the log in the step that appends to it.
    Duplicates,       \* Whether a message may be received twice.
    MaxEpoch,         \* Bounds. No node goes beyond this epoch, ...
    MaxInFlight,      \* ... no more messages are in flight at a time, ...
    MaxAppends,       \* ... and in the whole run there are no more records of clients, ...
    MaxCrashes,       \* ... crashes, ...
    MaxWipes,         \* ... disks replaced by empty ones, ...
    MaxChanges,       \* ... changes of the voters, ...
    MaxSnapshots      \* ... and snapshots.

VARIABLES
    node,       \* The state of each node.
    net,        \* The messages in flight.
    committed,  \* The longest log that any node knew to be committed.
    led,        \* The epochs that have had a leader.
    spent       \* How much of each bound is used.

vars == <<node, net, committed, led, spent>>

----------------------------------------------------------------------------
\* Voters and logs.

Largest(offsets) == CHOOSE one \in offsets : \A other \in offsets : other <= one

Min(a, b) == IF a < b THEN a ELSE b

Max(a, b) == IF a < b THEN b ELSE a

FirstDirectory == 1

\* The draft KIP-595 has no directory ids.
KeyOf(n, directory) == <<n, IF Dynamic /\ ~Reassigns THEN directory ELSE 0>>

\* What a node is as a voter, or as a replica that may become one.
Key(s) == KeyOf(s.id, s.dir)

\* What a node is formatted with. In a dynamic quorum, who joins later knows no voters.
FormattedVoters(n, directory) ==
    IF Dynamic /\ (n \notin InitialVoters \/ directory # FirstDirectory) THEN {}
    ELSE {KeyOf(v, FirstDirectory) : v \in InitialVoters}

\* The last set of voters that a node has read, committed or not.
LastSet(s) == s.sets[Len(s.sets)].voters

\* The voters that it acts on. In a static quorum of KIP-853's first version, the log may name the
\* directories of some: that decides nothing but whom a Vote is for.
Voters(s) ==
    IF Dynamic \/ ~FirstKip853 THEN LastSet(s) ELSE {KeyOf(voter[1], voter[2]) : voter \in LastSet(s)}

IsNamed(s, id) == \E voter \in LastSet(s) : voter[1] = id /\ voter[2] # 0

\* Where in the log that set ends; 0 if it is what the node was formatted with.
VotersAt(s) == s.sets[Len(s.sets)].at

IsVoter(s) == Key(s) \in Voters(s)

Majority(keys, voters) == 2 * Cardinality(keys \cap voters) > Cardinality(voters)

End(s) == Len(s.log)

EpochAt(s, offset) == IF offset = 0 THEN 0 ELSE s.log[offset].epoch

LastEpoch(s) == EpochAt(s, End(s))

\* The checkpoint of a bootstrap is a snapshot of nothing, and a node's first. It is deleted when the
\* log is made to start later, for good: a crash may bring the records back, and not the checkpoint.
\* The draft KIP-595 has none: its first leader writes the voters down.
HasCheckpoint(s) == s.first = 0 /\ Dynamic /\ ~Reassigns /\ Head(s.sets).voters # {}

\* The end of the last epoch in the log that is not above `epoch', and that epoch. If all are above
\* it, it ends where the log begins: that is named with the epoch asked for, or with that of a
\* snapshot which ends there.
EndOfEpoch(s, epoch) ==
    LET below == {i \in 1..End(s) : s.log[i].epoch <= epoch}
        end == IF below = {} THEN 0 ELSE Largest(below)
        isBefore == below = {} /\ s.log # <<>> /\ ~HasCheckpoint(s)
    IN [epoch |-> IF isBefore THEN epoch ELSE EpochAt(s, end), end |-> end]

\* Voter sets are read from the log as it grows, and forgotten as it is truncated.
SetsRead(sets, log, offset) ==
    LET offsets == SelectSeq([i \in 1..(Len(log) - offset + 1) |-> offset + i - 1],
                             LAMBDA i : log[i].voters # {})
    IN sets \o [i \in 1..Len(offsets) |-> [at |-> offsets[i], voters |-> log[offsets[i]].voters]]

\* From where on a node reads voter sets after its log was truncated to `end'.
ReadFrom(s, end) == end

Record(s, kind, voters) ==
    [kind |-> kind, epoch |-> s.epoch, by |-> s.id, voters |-> voters, targets |-> {}]

\* The draft KIP-595's VoterAssignmentMessage. No targets, its null, are {} here.
Assignment(s, voters, targets) == [Record(s, "voters", voters) EXCEPT !.targets = targets]

Targets(s) == IF VotersAt(s) = 0 THEN {} ELSE s.log[VotersAt(s)].targets

Appended(s, records) ==
    LET log == s.log \o records
    IN [s EXCEPT !.log = log,
                 !.sets = SetsRead(@, log, s.read + 1),
                 !.read = Max(@, Len(log)),
                 !.synced = IF s.role \in SyncsAtOnce THEN Len(log) ELSE @]

Truncated(s, end) ==
    [s EXCEPT !.log = SubSeq(@, 1, end),
              !.sets = SelectSeq(@, LAMBDA set : set.at <= end),
              !.read = ReadFrom(s, end),
              !.synced = Min(@, end)]

\* A log that is read from its beginning, as at a start.
Reread(s, log) ==
    [s EXCEPT !.log = log,
              !.sets = SetsRead(<<Head(@)>>, log, 1),
              !.read = Len(log),
              !.synced = Len(log)]

\* How much of its log a node has on its disk when it has started: all, since it syncs what it reads.
SyncedAtStart(s) == End(s)

\* Whether a node may let others count on its log.
IsDurable(s) == s.synced = End(s)

----------------------------------------------------------------------------
\* A node, and how its role changes.

\* In KIP-853's first version, the log of a first voter begins with a record of the first voters.
FirstLog(voters) ==
    IF FirstKip853 /\ Dynamic /\ voters # {}
    THEN <<[kind |-> "voters", epoch |-> 0, by |-> None, voters |-> voters, targets |-> {}]>>
    ELSE <<>>

FormattedWith(n, directory, voters) ==
    LET log == FirstLog(voters)
        known == IF log = <<>> THEN voters ELSE {}
    IN
    [id |-> n, dir |-> directory,
     \* quorum-state, the file: on the disk at the end of each step.
     epoch |-> 0, leader |-> None, vote |-> None,
     \* The log, on the disk up to `synced'; where the last snapshot ends, and the first one.
     log |-> log, synced |-> Len(log), start |-> 0, snapshot |-> 0, first |-> 0,
     \* In memory: what was read of voter sets, and up to which offset; who granted a vote;
     \* whether the follower has fetched from its leader; what is known to be committed;
     \* as a leader, the offset from which each replica fetched last.
     sets |-> SetsRead(<<[at |-> 0, voters |-> known]>>, log, 1), read |-> Len(log),
     \* Whether its leader has told it that it is no voter (NOT_FOLLOWER of the draft KIP-595).
     isDismissed |-> FALSE,
     role |-> "unattached", votes |-> {}, fetched |-> FALSE, hw |-> 0, match |-> <<>>]

Formatted(n, directory) == FormattedWith(n, directory, FormattedVoters(n, directory))

\* A role without what earlier ones had in memory.
Becomes(s, role) ==
    [s EXCEPT !.role = role, !.votes = {}, !.fetched = FALSE, !.match = <<>>]

Unattached(s, epoch) ==
    [Becomes(s, "unattached") EXCEPT !.epoch = epoch, !.leader = None, !.vote = None]

\* A vote is kept for as long as its epoch lasts.
Follows(s, epoch, leader) ==
    [Becomes(s, "follower") EXCEPT
        !.epoch = epoch, !.leader = leader, !.vote = IF epoch > s.epoch THEN None ELSE @]

\* What a node makes of an epoch and a leader that a message has. None of an older epoch counts. Who
\* started with a leader that is none of its voters has had no address of it until now.
Learned(s, epoch, leader) ==
    LET isOther == leader \notin {None, s.id}
        isNews == s.leader = None \/ (s.role = "unattached" /\ s.leader = leader)
    IN CASE epoch > s.epoch -> IF isOther THEN Follows(s, epoch, leader) ELSE Unattached(s, epoch)
         [] epoch = s.epoch /\ isOther /\ isNews -> Follows(s, epoch, leader)
         [] OTHER -> s

\* A leader resigns in memory: quorum-state names it as before.
Resigned(s) == Becomes(s, "resigned")

\* The offset up to which a leader counts its own log: what is on its disk.
OwnOffset(s) == s.synced

\* Whether a leader whose voters do not include it leaves, now that this is committed.
IsDismissed(s) == ~IsVoter(s) /\ VotersAt(s) <= s.hw

\* The last record that a leader commits has to be of its own epoch: those of earlier ones are
\* committed with it.
MayCommit(s, end) == EpochAt(s, end) = s.epoch

\* What a leader knows to be committed, by what it has heard. A leader that is no voter does not count.
Advanced(s) ==
    IF s.role # "leader" THEN s
    ELSE LET offset(key) == IF key = Key(s) THEN OwnOffset(s)
                            ELSE IF key \in DOMAIN s.match THEN s.match[key] ELSE 0
             held(end) == {key \in Voters(s) : offset(key) >= end}
             new == Largest({s.hw} \cup {end \in (s.hw + 1)..End(s) : Majority(held(end), Voters(s))})
             advances == new > s.hw /\ MayCommit(s, new)
             next == IF advances THEN [s EXCEPT !.hw = new] ELSE s
         IN IF IsDismissed(next) /\ EpochAt(next, next.hw) = next.epoch THEN Resigned(next)
            ELSE next

\* Whether a new leader writes its voters down: where no record has them yet.
WritesVoters(s) == Dynamic /\ VotersAt(s) = 0

\* A leader opens its epoch with a record of its own. Its voters, if it writes them down, are in the
\* same batch, which is one record here.
Leads(s) ==
    LET leader == [Becomes(s, "leader") EXCEPT !.leader = s.id]
        voters == IF WritesVoters(s) THEN Voters(s) ELSE {}
    IN Advanced(Appended(leader, <<Record(leader, "leader", voters)>>))

Campaigns(s) ==
    [Becomes(s, "candidate") EXCEPT
        !.epoch = s.epoch + 1, !.leader = None, !.vote = Key(s), !.votes = {Key(s)}]

\* Who asks for pre-votes changes neither its epoch nor its vote, and nothing on its disk.
Prospects(s) ==
    IF PreVote = "none" THEN Campaigns(s) ELSE [Becomes(s, "prospective") EXCEPT !.votes = {Key(s)}]

\* What a majority of votes makes of a node. A sole voter needs no other.
Promoted(s) ==
    LET elected(c) == IF Majority(c.votes, Voters(c)) THEN Leads(c) ELSE c
    IN CASE s.role = "candidate" -> elected(s)
         [] s.role = "prospective" /\ Majority(s.votes, Voters(s)) -> elected(Campaigns(s))
         [] OTHER -> s

\* Whether a node keeps Ongaro's rule: whom its last voters leave out campaigns all the same for as
\* long as it does not know that they are committed. Kafka's does not.
KeepsOngarosRule(s) == RemovedCampaigns

MayCampaign(s) ==
    \/ IsVoter(s) /\ ~s.isDismissed
    \/ /\ KeepsOngarosRule(s)
       /\ VotersAt(s) > s.hw
       /\ \E i \in 1..Len(s.sets) : Key(s) \in s.sets[i].voters

\* The role that a node starts with, by its quorum-state and its log.
FirstRole(s) ==
    LET t == Becomes(s, "unattached")
    IN CASE LastEpoch(s) > s.epoch -> Unattached(s, LastEpoch(s))
         [] s.leader = s.id -> Becomes(s, "resigned")
         [] s.leader # None ->
                IF \E key \in Voters(s) : key[1] = s.leader THEN Becomes(s, "follower") ELSE t
         [] s.vote = Key(s) /\ MayCampaign(s) -> [Becomes(s, "candidate") EXCEPT !.votes = {Key(s)}]
         [] OTHER -> t

\* What a node is after a start. A sole voter campaigns at once (KafkaRaftClient.initialize).
Started(s) ==
    LET t == FirstRole(s)
    IN IF Voters(s) = {Key(s)} THEN Promoted(IF t.role = "candidate" THEN t ELSE Prospects(t)) ELSE t

----------------------------------------------------------------------------
\* Messages. A function On...(s, m) returns what node s becomes and the messages that it sends.

Does(s, messages) == [now |-> s, sends |-> messages]

\* The answer to who asked in an older epoch, or asked who is not the leader: who leads, if that
\* is news.
Told(s, m) ==
    IF s.epoch > m.epoch \/ (s.epoch = m.epoch /\ s.leader \notin {None, m.from})
    THEN {[kind |-> "told", from |-> s.id, to |-> m.from, epoch |-> s.epoch, leader |-> s.leader]}
    ELSE {}

\* The draft's Prospective follows its leader again when it hears from that itself. Kafka's learns
\* nothing from a leader that it knows.
CallsBack(s) == PreVote = "kip-996" /\ s.role = "prospective"

LearnedFrom(s, m, leader) ==
    IF s.epoch = m.epoch /\ m.from = leader /\ CallsBack(s) THEN Follows(s, m.epoch, leader)
    ELSE Learned(s, m.epoch, leader)

OnTold(s, m) == Does(LearnedFrom(s, m, m.leader), {})

\* Vote (KIP-595 and KIP-996) ...............................................

\* How a Vote names its receiver: by the directory too, if that is known.
Meant(s, key) ==
    IF Dynamic \/ ~FirstKip853 THEN key ELSE CHOOSE voter \in LastSet(s) : voter[1] = key[1]

Vote(s, key) ==
    [kind |-> "vote", from |-> s.id, to |-> key[1], epoch |-> s.epoch, pre |-> s.role = "prospective",
     key |-> Key(s), toKey |-> Meant(s, key), lastEpoch |-> LastEpoch(s), end |-> End(s)]

IsUpToDate(s, m) ==
    m.lastEpoch > LastEpoch(s) \/ (m.lastEpoch = LastEpoch(s) /\ m.end >= End(s))

\* A follower that has fetched from its leader rejects pre-votes. The draft's rejects all of them.
FollowerGrantsPreVote(s) == PreVote = "kafka" /\ ~s.fetched

GrantsPreVote(s, m) ==
    /\ s.role # "leader"
    /\ s.role = "follower" => FollowerGrantsPreVote(s)
    /\ IsUpToDate(s, m)

GrantsVote(s, m) ==
    /\ s.role \in {"unattached", "prospective"}
    /\ IF s.vote # None THEN s.vote = m.key ELSE s.leader = None /\ IsUpToDate(s, m)

\* Whether the sender or the receiver is a voter does not matter; in the draft KIP-595 a voter rejects
\* who is none by its own log, and becomes a candidate.
VotesForStrangers(s) == ~Reassigns

MayVoteFor(s, key) == VotesForStrangers(s) \/ ~IsVoter(s) \/ key \in Voters(s)

MeetsStranger(s, m) ==
    ~MayVoteFor(s, m.key) /\ m.epoch = s.epoch /\ s.role \in {"unattached", "follower"}

\* Whether a Vote is for this very replica. In a static quorum of KIP-853's first version, one that
\* names no directory is for whatever disk the voter has, until that knows that its name is committed.
IsMeant(s, m) ==
    LET then == [s EXCEPT !.sets = SelectSeq(@, LAMBDA set : set.at <= s.hw)]
    IN IF Dynamic \/ ~FirstKip853 THEN m.toKey = Key(s) ELSE m.toKey[2] # 0 \/ ~IsNamed(then, s.id)

\* Whether a node stores what it grants: a vote, not a pre-vote.
StoresVote(m) == ~m.pre

\* A higher epoch is adopted first, also that of a pre-vote, and also where the request is for
\* another directory. In KIP-853's first version such a request fails before that.
OnVote(s, m) ==
    LET isHeard == FirstKip853 => IsMeant(s, m)
        t == IF m.epoch > s.epoch /\ isHeard THEN Unattached(s, m.epoch) ELSE s
        isGranted == /\ m.epoch = t.epoch
                     /\ IsMeant(t, m)
                     /\ MayVoteFor(t, m.key)
                     /\ IF m.pre THEN GrantsPreVote(t, m) ELSE GrantsVote(t, m)
        next == CASE isGranted /\ StoresVote(m) -> [t EXCEPT !.vote = m.key]
                  [] MeetsStranger(t, m) -> Promoted(Prospects(t))
                  [] OTHER -> t
        reply == [kind |-> "granted", from |-> s.id, to |-> m.from, epoch |-> t.epoch,
                  pre |-> m.pre, key |-> Key(t), toKey |-> m.key]
    IN Does(next, IF isGranted THEN {reply} ELSE Told(t, m))

OnGranted(s, m) ==
    LET isAwaited == /\ s.epoch = m.epoch
                     /\ m.toKey = Key(s)
                     /\ s.role = IF m.pre THEN "prospective" ELSE "candidate"
    IN Does(IF isAwaited THEN Promoted([s EXCEPT !.votes = @ \cup {m.key}]) ELSE s, {})

\* BeginQuorumEpoch and EndQuorumEpoch ......................................

Begin(s, key) ==
    [kind |-> "begin", from |-> s.id, to |-> key[1], epoch |-> s.epoch]

OnBegin(s, m) ==
    IF m.epoch < s.epoch THEN Does(s, Told(s, m)) ELSE Does(LearnedFrom(s, m, m.from), {})

\* A leader that resigned names a voter that is to campaign at once. Kafka's names the one that it
\* knows to have most; here it may be any.
Successors(s) == {key \in Voters(s) : key # Key(s)}

EndsEpoch(s, key, isPreferred) ==
    [kind |-> "end", from |-> s.id, to |-> key[1], epoch |-> s.epoch, isPreferred |-> isPreferred]

OnEnd(s, m) ==
    IF m.epoch < s.epoch THEN Does(s, Told(s, m))
    ELSE LET t == Learned(s, m.epoch, m.from)
             campaigns == /\ m.isPreferred /\ t.role = "follower" /\ t.leader = m.from
                          /\ MayCampaign(t)
         IN Does(IF campaigns THEN Promoted(Prospects(t)) ELSE t, {})

\* Fetch ....................................................................

Fetch(s, to) ==
    [kind |-> "fetch", from |-> s.id, to |-> to, epoch |-> s.epoch, key |-> Key(s),
     at |-> End(s), lastEpoch |-> LastEpoch(s), hw |-> s.hw]

\* What a leader reports as committed: nothing before a record of its own epoch is.
ReportedHw(s) == IF EpochAt(s, s.hw) = s.epoch THEN s.hw ELSE 0

Answer(s, m, kind) ==
    [kind |-> kind, from |-> s.id, to |-> m.from, epoch |-> s.epoch, leader |-> s.id,
     at |-> m.at, lastEpoch |-> m.lastEpoch]

\* A log of epochs before the first snapshot is not compared, also where the records are still there.
NeedsSnapshot(s, m) ==
    \/ m.at = 0 /\ s.snapshot > 0
    \/ m.lastEpoch < EpochAt(s, s.first)
    \/ /\ s.start > 0
       /\ m.at < s.start \/ (m.at = s.start /\ m.lastEpoch # EpochAt(s, s.start))

\* What an answer has of a leader's log: all that follows.
RecordsFrom(s, offset) == SubSeq(s.log, offset + 1, End(s))

\* A snapshot is sent as what it stands for; its parts are left out.
OnFetch(s, m) ==
    LET known == EndOfEpoch(s, m.lastEpoch)
        heard == Advanced([s EXCEPT !.match = (m.key :> m.at) @@ @])
        hw == ReportedHw(heard)
        records == Answer(s, m, "records")
                   @@ [records |-> RecordsFrom(s, m.at), hw |-> hw]
    IN CASE s.role # "leader" \/ m.epoch # s.epoch -> Does(s, Told(s, m))
         [] NeedsSnapshot(s, m) ->
                Does(s, {Answer(s, m, "snapshot") @@ [prefix |-> SubSeq(s.log, 1, s.snapshot)]})
         [] known.epoch # m.lastEpoch \/ known.end < m.at ->
                Does(s, {Answer(s, m, "diverging") @@ [epochThere |-> known.epoch,
                                                       endThere |-> known.end]})
         [] OTHER -> Does(heard, IF records.records = <<>> /\ hw <= m.hw THEN {} ELSE {records})

\* Every answer to a Fetch first tells who leads. Then it counts if it is awaited.
IsAwaited(s, m) ==
    /\ s.role = "follower" /\ s.leader = m.from /\ s.epoch = m.epoch
    /\ m.at = End(s) /\ m.lastEpoch = LastEpoch(s)

OnRecords(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
        longer == Appended(t, m.records)
    IN Does(IF IsAwaited(t, m)
            THEN [longer EXCEPT !.fetched = TRUE, !.hw = Max(@, Min(End(longer), m.hw))]
            ELSE t, {})

\* Where a follower truncates: at the end of the leader's epoch in its own log, or of the last one
\* below, but not beyond the leader's end of it.
OnDiverging(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
        own == EndOfEpoch(t, m.epochThere)
        end == IF own.epoch = m.epochThere THEN Min(own.end, m.endThere) ELSE own.end
    IN Does(IF IsAwaited(t, m) THEN [Truncated(t, end) EXCEPT !.fetched = TRUE] ELSE t, {})

OnSnapshot(s, m) ==
    LET t == Learned(s, m.epoch, m.leader)
        end == Len(m.prefix)
    IN Does(IF IsAwaited(t, m)
            THEN [Reread(t, m.prefix) EXCEPT
                    !.fetched = TRUE, !.start = end, !.snapshot = end, !.first = end,
                    !.hw = Max(@, end)]
            ELSE t, {})

On(s, m) ==
    CASE m.kind = "vote" -> OnVote(s, m)
      [] m.kind = "granted" -> OnGranted(s, m)
      [] m.kind = "told" -> OnTold(s, m)
      [] m.kind = "begin" -> OnBegin(s, m)
      [] m.kind = "end" -> OnEnd(s, m)
      [] m.kind = "fetch" -> OnFetch(s, m)
      [] m.kind = "records" -> OnRecords(s, m)
      [] m.kind = "diverging" -> OnDiverging(s, m)
      [] m.kind = "snapshot" -> OnSnapshot(s, m)

----------------------------------------------------------------------------
\* What may happen.

\* Node n becomes s; `flying' are the messages in flight afterwards.
Step(n, s, flying) ==
    /\ s.epoch <= MaxEpoch
    /\ Cardinality(flying) <= MaxInFlight
    /\ node' = [node EXCEPT ![n] = s]
    /\ net' = flying
    /\ committed' = IF s.hw > Len(committed) THEN SubSeq(s.log, 1, s.hw) ELSE committed
    /\ led' = IF s.role = "leader" THEN led \cup {s.epoch} ELSE led

Spend(what, bound) == spent[what] < bound /\ spent' = [spent EXCEPT ![what] = @ + 1]

Sends(n, message) ==
    /\ message \notin net
    /\ Step(n, node[n], net \cup {message})
    /\ UNCHANGED spent

Receives ==
    \E m \in net :
        LET done == On(node[m.to], m)
        IN Step(m.to, done.now, (net \ {m}) \cup done.sends) /\ UNCHANGED spent

ReceivesAgain ==
    \E m \in net :
        LET done == On(node[m.to], m)
        IN Duplicates /\ Step(m.to, done.now, net \cup done.sends) /\ UNCHANGED spent

Loses ==
    \E m \in net : net' = net \ {m} /\ UNCHANGED <<node, committed, led, spent>>

\* The fetch time-out or the election time-out of a voter expires. It may while a sync is under way:
\* who campaigns then asks nobody before that is done.
MayTimeOut(s) == s.role \in {"follower", "unattached"} /\ MayCampaign(s)

TimesOut(n) ==
    LET s == node[n]
    IN MayTimeOut(s) /\ Step(n, Promoted(Prospects(s)), net) /\ UNCHANGED spent

\* The election time-out of who campaigns expires, or too many have rejected it. The Prospective of
\* the draft KIP-996 asks again. The candidate of the draft KIP-595 goes on to the next epoch, and
\* campaigns above that. With the rules that KIP-853's first version lacks, who loses steps down, and
\* looks for the leader before it campaigns again.
GivenUp(s) ==
    CASE FirstKip853 -> Becomes(s, "unattached")
      [] s.role = "candidate" /\ Reassigns -> Unattached(s, s.epoch + 1)
      [] s.role = "candidate" \/ PreVote = "kip-996" -> Promoted(Prospects(s))
      [] OTHER -> Becomes(s, IF s.leader = None THEN "unattached" ELSE "follower")

GivesUp(n) ==
    /\ node[n].role \in {"candidate", "prospective"}
    /\ Step(n, GivenUp(node[n]), net) /\ UNCHANGED spent

\* A leader is told to resign or to stop, or has not heard from a majority (Check Quorum).
Resigns(n) ==
    /\ node[n].role = "leader"
    /\ Step(n, Resigned(node[n]), net) /\ UNCHANGED spent

\* After its election time-out who resigned goes on to the next epoch.
LeavesEpoch(n) ==
    /\ node[n].role = "resigned"
    /\ Step(n, Unattached(node[n], node[n].epoch + 1), net) /\ UNCHANGED spent

\* A request that would tell its receiver nothing is not sent.
MayAskVotes(s) == s.role \in {"prospective", "candidate"} /\ IsDurable(s)

AsksVote(n) ==
    LET s == node[n]
    IN /\ MayAskVotes(s)
       /\ \E key \in Voters(s) \ (s.votes \cup {Key(s)}) : Sends(n, Vote(s, key))

Calls(n) ==
    LET s == node[n]
    IN /\ s.role = "leader"
       /\ \E key \in Voters(s) \ {Key(s)} :
            LET other == node[key[1]]
            IN /\ other.epoch # s.epoch \/ other.leader = None \/ CallsBack(other)
               /\ Sends(n, Begin(s, key))

SaysEnd(n) ==
    LET s == node[n]
    IN /\ s.role = "resigned"
       /\ \E key \in Successors(s), isPreferred \in BOOLEAN : Sends(n, EndsEpoch(s, key, isPreferred))

\* Whether an answer, or what a leader makes of it, would be new.
IsFetchOfUse(s, to) ==
    LET other == node[to]
        done == OnFetch(other, Fetch(s, to))
    IN done.now # other \/ done.sends # {}

\* A follower fetches from its leader, once its log is on its disk. Who knows no leader asks any node:
\* a leader that it meets so counts what it has. (A Fetch that waits at its leader is one that is
\* sent later.)
AsksRecords(n) ==
    LET s == node[n]
    IN /\ IsDurable(s)
       /\ \/ /\ s.role = "follower" /\ IsFetchOfUse(s, s.leader)
             /\ Sends(n, Fetch(s, s.leader))
          \/ /\ s.role = "unattached"
             /\ \E other \in Node \ {n} :
                  IsFetchOfUse(s, other) /\ Sends(n, Fetch(s, other))

Appends(n) ==
    LET s == node[n]
    IN /\ s.role = "leader"
       /\ Spend("appends", MaxAppends)
       /\ Step(n, Advanced(Appended(s, <<Record(s, "data", {})>>)), net)

SyncedTo(s, end) == Advanced([s EXCEPT !.synced = end])

Syncs(n) ==
    LET s == node[n]
    IN /\ s.synced < End(s)
       /\ Step(n, SyncedTo(s, End(s)), net) /\ UNCHANGED spent

\* A process or a machine ends, and starts again. Of what was not synced any part may be gone; what
\* is read is synced before it counts.
Reopened(s, end) ==
    LET read == [Reread(s, SubSeq(s.log, 1, end)) EXCEPT !.hw = s.start, !.isDismissed = FALSE]
        synced == SyncedAtStart([read EXCEPT !.synced = s.synced])
    IN [read EXCEPT !.synced = synced]

Crashed(s, end) == Started(Reopened(s, end))

Crashes(n) ==
    LET s == node[n]
    IN /\ Spend("crashes", MaxCrashes)
       /\ \E end \in s.synced..End(s) : Step(n, Crashed(s, end), net)

\* A disk is replaced by an empty one. It has another directory id.
Wipes(n) ==
    /\ Spend("wipes", MaxWipes)
    /\ Step(n, Formatted(n, node[n].dir + 1), net)

\* A leader changes the voters by one, when a record of its own epoch is committed, and with it the
\* set of voters before. The set is used from now on.
HasCommitted(s) == EpochAt(s, s.hw) = s.epoch

IsSettled(s) == s.role = "leader" /\ HasCommitted(s) /\ VotersAt(s) <= s.hw

MayChangeVoters(s) == Dynamic /\ IsSettled(s)

Writes(n, record) == Step(n, Advanced(Appended(node[n], <<record>>)), net)

Changes(n, voters) ==
    /\ ~Reassigns /\ MayChangeVoters(node[n])
    /\ Spend("changes", MaxChanges)
    /\ Writes(n, Record(node[n], "voters", voters))

\* Who is to be added fetches already, and has caught up: so it has a record of this epoch.
HasCaughtUp(s, key) == key \in DOMAIN s.match /\ EpochAt(s, s.match[key]) = s.epoch

MayAdd(s, key) == HasCaughtUp(s, key) /\ ~\E voter \in Voters(s) : voter[1] = key[1]

Adds(n) ==
    \E key \in DOMAIN node[n].match :
        MayAdd(node[n], key) /\ Changes(n, Voters(node[n]) \cup {key})

Removes(n) ==
    \E key \in Voters(node[n]) :
        Cardinality(Voters(node[n])) > 1 /\ Changes(n, Voters(node[n]) \ {key})

\* In a static quorum of KIP-853's first version a voter gets a name: the directory that it has.
MayName(s, id) ==
    /\ FirstKip853 /\ ~Dynamic /\ IsSettled(s) /\ ~IsNamed(s, id)
    /\ id = s.id \/ HasCaughtUp(s, KeyOf(id, 0))

WithName(s, id, directory) ==
    {voter \in LastSet(s) : voter[1] # id} \cup {<<id, directory>>}

Names(n) ==
    LET s == node[n]
    IN \E key \in Voters(s) :
        /\ MayName(s, key[1])
        /\ Spend("changes", MaxChanges)
        /\ Writes(n, Record(s, "voters", WithName(s, key[1], node[key[1]].dir)))

\* The draft KIP-595's AlterQuorum: targets, of those that the leader knows, beside the same voters.
Alters(n) ==
    LET s == node[n]
    IN /\ Reassigns /\ s.role = "leader"
       /\ Spend("changes", MaxChanges)
       /\ \E targets \in SUBSET (Voters(s) \cup DOMAIN s.match) :
            /\ targets \notin {{}, Targets(s)}
            /\ Writes(n, Assignment(s, Voters(s), targets))

\* The next move towards them, once the last is committed: one is added while there are as many to
\* add as to remove, else one is removed. A leader that alone is left to be removed resigns: the next
\* one removes it.
Moves(n) ==
    LET s == node[n]
        new == Targets(s) \ Voters(s)
        leaving == Voters(s) \ Targets(s)
        others == leaving \ {Key(s)}
        assigns(voters, targets) == Writes(n, Assignment(s, voters, targets))
    IN /\ Targets(s) # {} /\ MayChangeVoters(s)
       /\ CASE new = {} /\ leaving = {} -> assigns(Voters(s), {})
            [] Cardinality(new) >= Cardinality(leaving) ->
                    \E key \in new : assigns(Voters(s) \cup {key}, Targets(s))
            [] others # {} -> \E key \in others : assigns(Voters(s) \ {key}, Targets(s))
            [] OTHER -> Step(n, Resigned(s), net)
       /\ UNCHANGED spent

WithSnapshot(s, end) ==
    [s EXCEPT !.snapshot = end, !.first = IF @ = 0 /\ ~HasCheckpoint(s) THEN end ELSE @]

StartsAt(s, start) == [s EXCEPT !.start = start, !.first = start]

Snapshots(n) ==
    LET s == node[n]
    IN /\ s.hw > s.snapshot
       /\ Spend("snapshots", MaxSnapshots)
       /\ Step(n, WithSnapshot(s, s.hw), net)

\* What a snapshot has is deleted from the log.
Cleans(n) ==
    /\ node[n].start < node[n].snapshot
    /\ Step(n, StartsAt(node[n], node[n].snapshot), net) /\ UNCHANGED spent

----------------------------------------------------------------------------

Unspent == [appends |-> 0, crashes |-> 0, wipes |-> 0, changes |-> 0, snapshots |-> 0]

\* A leader of epoch 1 whose first records are on the disks of all voters. That they are targets, if
\* they are, all voters know to be committed.
Following(n, leader) ==
    LET targets == {KeyOf(target, FirstDirectory) : target \in InitialTargets}
        opened == Leads([Formatted(leader, FirstDirectory) EXCEPT !.epoch = 1])
        l == Becomes([opened EXCEPT !.log[1].targets = targets,
                                    !.hw = IF targets = {} THEN 0 ELSE 1], "leader")
        s == [Formatted(n, FirstDirectory) EXCEPT !.epoch = 1, !.leader = leader]
        voter == [s EXCEPT !.role = "follower", !.fetched = TRUE, !.hw = l.hw]
    IN IF n = leader THEN [l EXCEPT !.vote = Key(l), !.synced = End(l)]
       ELSE IF n \in InitialVoters THEN Reread(voter, l.log)
       ELSE [s EXCEPT !.role = "follower"]

Init ==
    /\ net = {} /\ spent = Unspent
    /\ IF Begins = "empty"
       THEN node = [n \in Node |-> Formatted(n, FirstDirectory)] /\ led = {} /\ committed = <<>>
       ELSE \E leader \in InitialVoters :
            /\ node = [n \in Node |-> Following(n, leader)] /\ led = {1}
            /\ LET l == Following(leader, leader) IN committed = SubSeq(l.log, 1, l.hw)

Next ==
    \/ Receives \/ ReceivesAgain \/ Loses
    \/ \E n \in Node :
        \/ TimesOut(n) \/ GivesUp(n) \/ AsksVote(n) \/ Calls(n)
        \/ Resigns(n) \/ SaysEnd(n) \/ LeavesEpoch(n)
        \/ AsksRecords(n) \/ Appends(n) \/ Syncs(n)
        \/ Crashes(n) \/ Wipes(n)
        \/ Adds(n) \/ Removes(n) \/ Names(n) \/ Alters(n) \/ Moves(n)
        \/ Snapshots(n) \/ Cleans(n)

Spec == Init /\ [][Next]_vars
=============================================================================
