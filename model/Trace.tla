------------------------------- MODULE Trace -------------------------------
(***************************************************************************)
(* Whether behaviours of KRaft.tla explain runs of real nodes.             *)
(*                                                                         *)
(* A run is a sequence of steps, each of one node: what happened, what the *)
(* node shows afterwards, and which messages it sent.  A step of the run   *)
(* is one of the model, or a few of the same node: an event, then timers   *)
(* that expire with it, then records that are appended, then requests.     *)
(* What a node does not show, such as who granted its vote, TLC chooses.   *)
(*                                                                         *)
(* Each message is one of the model, made by the model when it is sent:    *)
(* the run says which one, and when it arrives, if it does.                *)
(***************************************************************************)
EXTENDS KRaft

VARIABLES
    run,     \* The number of a run.
    at,      \* The number of its step that is next.
    last,    \* What each node has shown last.
    flight   \* The messages that are still to be received or answered, by their numbers.

\* A run is a record of voters, observers, our own nodes and steps; register 0 has all of them. TLC
\* goes through the text of a constant again and again before it begins. Register n has the last step
\* of run n that was told to be stuck.
Run == TLCGet(0)[run]

\* What a step has that the text of a run leaves out: what its node shows as before, and nothing.
Unsaid == [gets |-> 0, loads |-> 0, new |-> <<>>, sends |-> <<>>, gone |-> {}, isShown |-> TRUE,
           leads |-> 0, takes |-> {}, asked |-> {}, confirms |-> {}, reloads |-> FALSE,
           refuses |-> FALSE]

FirstShown == [role |-> "unattached", epoch |-> 0, leader |-> None, vote |-> None,
               storedEpoch |-> 0, storedVote |-> None, hw |-> 0,
               isForgotten |-> FALSE, to |-> 0, start |-> 0, snapshot |-> 0, snapshotEpoch |-> 0,
               snapshotVoters |-> {}, voters |-> {}, isVoter |-> FALSE, told |-> 0, first |-> {},
               keep |-> 0]

Event == Run.steps[at] @@ last[Run.steps[at].node] @@ Unsaid

\* What the next step of a node shows, if it says nothing: of its log, all is kept.
ShownBy(e) == [f \in DOMAIN FirstShown |-> IF f = "keep" THEN e.keep + Len(e.new) ELSE e[f]]

FormattedFor(n, directory) ==
    LET voters == IF Dynamic /\ (n \notin Run.voters \/ directory # FirstDirectory) THEN {}
                  ELSE {KeyOf(v, FirstDirectory) : v \in Run.voters}
    IN FormattedWith(n, directory, voters)

----------------------------------------------------------------------------
\* What a node may become in a step.

\* In place of WritesVoters: also where it listens elsewhere than they say. The run says so.
WritesVotersThere(s) ==
    LET i == End(s) + 1 - Event.keep
    IN /\ Dynamic
       /\ \/ VotersAt(s) = 0
          \/ ~Reassigns /\ i \in 1..Len(Event.new) /\ Event.new[i].voters = LastSet(s)

\* In place of FollowerGrantsPreVote. Of our nodes, one that is no voter also does when its leader is
\* silent, and there is no clock. The draft's never do.
FollowerGrantsPreVoteThere(s) ==
    PreVote = "kafka" /\ (~s.fetched \/ (s.id \in Run.own /\ ~IsVoter(s)))

\* Such a node refuses, too, as long as its leader is not silent.
MayRefuse(s, m) == m.kind = "vote" /\ m.pre /\ s.role = "follower" /\ s.fetched

\* In place of VotesForStrangers: what the draft adds is below, in ReceivedInDraft.
VotesForStrangersThere(s) == TRUE

\* In place of KeepsOngarosRule: our nodes do, and Kafka's do not.
KeepsOngarosRuleThere(s) == s.id \in Run.own /\ ~Reassigns

\* Who is told of a leader, and not where it is, learns the epoch alone, if it has no such voter. In
\* the draft KIP-595 addresses are in memory, and the voters that a node has say nothing of them.
WithoutAddress(s, epoch, leader) ==
    IF ~Reassigns /\ \E key \in Voters(s) : key[1] = leader THEN {} ELSE {Learned(s, epoch, None)}

\* What a message makes of it. An answer is not looked at by who gave the request up; each tells,
\* before anything else, who leads.
Received(s, m) ==
    CASE m.kind \in {"vote", "fetch"} -> {On(s, m).now}
      [] m.kind = "begin" ->
            {On(s, m).now} \cup IF FirstKip853 THEN WithoutAddress(s, m.epoch, m.from) ELSE {}
      [] m.kind = "end" -> {On(s, m).now} \cup WithoutAddress(s, m.epoch, m.from)
      [] m.kind = "part" -> {s}
      [] m.kind = "snapshot" ->
            LET t == Learned(s, m.epoch, m.leader)
            IN {s, t} \cup IF IsAwaited(t, m) THEN {[t EXCEPT !.fetched = TRUE]} ELSE {}
      [] m.kind = "told" -> {s, On(s, m).now} \cup WithoutAddress(s, m.epoch, m.leader)
      [] OTHER -> {s, On(Learned(s, m.epoch, m.leader), m).now}

\* The same in the draft KIP-595. A request for a vote by who is no voter by the receiver's log is
\* not looked at while there is a leader; or its epoch alone is; or it gets the vote after all.
IsStranger(s, m) == m.kind = "vote" /\ m.key \notin Voters(s)

HearsLeader(s) == s.role = "leader" \/ (s.role = "follower" /\ s.fetched)

ReceivedInDraft(s, m) ==
    CASE m.kind = "find" -> {s}
      [] m.kind = "begin" -> {On(s, m).now} \cup WithoutAddress(s, m.epoch, m.from)
      [] m.kind = "dismissal" ->
            LET t == Learned(s, m.epoch, m.leader)
            IN {s, t} \cup IF t.role = "follower" /\ t.epoch = m.epoch
                           THEN {[t EXCEPT !.fetched = TRUE, !.isDismissed = TRUE]} ELSE {}
      [] IsStranger(s, m) ->
            {On(s, m).now, Learned(s, m.epoch, None)} \cup IF HearsLeader(s) THEN {s} ELSE {}
      [] OTHER -> Received(s, m)

\* What a leader has said of a voter holds until its log has the removal.
InLog(s, t) ==
    LET isRemoval(set) == set.at > End(s) /\ Key(t) \notin set.voters
        isInLog == ~IsVoter(t) \/ \E i \in 1..Len(t.sets) : isRemoval(t.sets[i])
    IN IF t.isDismissed /\ isInLog THEN [t EXCEPT !.isDismissed = FALSE] ELSE t

\* A snapshot that was offered is there as a whole, some steps later.
Loaded(s, m) == IF IsAwaited(s, m) THEN {OnSnapshot(s, m).now} ELSE {}

\* How much of its log a node may have when it starts: more than it showed, if it lost its power as it
\* was appending, and less than it shows now, if it leads at once.
StartsWith(s, e) == (e.keep..(e.keep + Len(e.new))) \cap (s.synced..End(s))

\* What a start may find: what was deleted from the beginning of its log, for no disk syncs a
\* deletion; and a snapshot that the node was writing when it ended, or of which its disk said that
\* its name could not be synced.
Found(s, e) ==
    LET t == [s EXCEPT !.start = Min(@, e.start)]
    IN IF e.snapshot > s.snapshot /\ e.snapshot <= s.hw THEN WithSnapshot(t, e.snapshot) ELSE t

\* A start in the draft KIP-595: by the voters that its properties have this time. quorum-state has
\* no addresses, so nobody follows at once; and a sole voter may have to look for others first.
StartedInDraft(s, e, end) ==
    LET t == Reopened([s EXCEPT !.sets[1].voters = e.first], end)
        first == FirstRole(t)
    IN {IF first.role = "follower" THEN Becomes(t, "unattached") ELSE first}
       \cup IF Voters(t) = {Key(t)} THEN {Started(t)} ELSE {}

\* What the event itself makes of it. In the draft KIP-595, a node whose log has the cluster's id
\* refuses requests that have another. The model has no such ids, so the run says which.
Happened(s, e) ==
    CASE Reassigns /\ e.refuses -> IF VotersAt(s) > 0 THEN {s} ELSE {}
      [] Reassigns /\ e.what = "receives" ->
            {InLog(s, t) : t \in ReceivedInDraft(s, flight[e.gets])}
      [] Reassigns /\ e.what = "starts" ->
            UNION {StartedInDraft(s, e, end) : end \in StartsWith(s, e)}
      [] Reassigns /\ e.what = "wipes" ->
            {[FormattedFor(s.id, s.dir + 1) EXCEPT !.sets[1].voters = e.first]}
      [] e.what = "receives" -> Received(s, flight[e.gets])
      [] e.what = "syncs" -> {SyncedTo(s, Min(Max(e.to, s.synced), End(s)))}
      [] e.what = "starts" -> {Crashed(Found(s, e), end) : end \in StartsWith(s, e)}
      [] e.what = "wipes" -> {FormattedFor(s.id, s.dir + 1)}
      [] e.what = "runs" -> {s}
      [] e.what = "fails" -> {}  \* No node ends by itself.

\* Where the power went between a snapshot and the end of the log that it replaces, the start
\* replaces it, if that was not done yet.
Firsts(s, e) ==
    IF e.loads = 0 THEN Happened(s, e)
    ELSE UNION {Loaded(t, flight[e.loads]) : t \in Happened(s, e)}
         \cup IF e.what # "starts" THEN {}
              ELSE Happened(s, e) \cup {Crashed(t, End(t)) : t \in Loaded(s, flight[e.loads])}

\* What a timer that expires, or a wish of its state machine, makes of it.
Expired(s) ==
    CASE MayTimeOut(s) -> {Promoted(Prospects(s))}
      [] s.role \in {"candidate", "prospective"} -> {GivenUp(s)}
      [] s.role = "leader" -> {Resigned(s)}
      [] s.role = "resigned" -> {Unattached(s, s.epoch + 1)}
      [] OTHER -> {}

\* Whether somebody has asked for a voter to be removed: in KIP-853's first version also who has
\* asked for another directory of the same node, when that has caught up.
IsToGo(s, key, asked) ==
    \/ <<"remove", key[1], key[2]>> \in asked
    \/ FirstKip853 /\ \E change \in asked :
        /\ change[1] = "add" /\ change[2] = key[1] /\ change[3] # key[2]
        /\ HasCaughtUp(s, KeyOf(change[2], change[3]))

\* Whether a leader may replace its voters by these, by what it was asked for in its epoch.
\* Endpoints may change without the voters.
MayReplaceVoters(s, voters, asked) ==
    LET new == voters \ LastSet(s)
        old == LastSet(s) \ voters
    IN IF ~Dynamic
       THEN \E key \in new : /\ MayName(s, key[1]) /\ voters = WithName(s, key[1], key[2])
                             /\ <<"add", key[1], key[2]>> \in asked
       ELSE /\ MayChangeVoters(s)
            /\ Cardinality(new) + Cardinality(old) <= 1
            /\ \A key \in new : MayAdd(s, key) /\ <<"add", key[1], key[2]>> \in asked
            /\ \A key \in old : IsToGo(s, key, asked)

\* The same in the draft KIP-595, where it is asked for targets: it writes them down, moves towards
\* them by one voter at a time, and writes down that this is done. A target has fetched from it, or
\* was one before.
TargetsOf(batch) == IF "targets" \in DOMAIN batch THEN batch.targets ELSE {}

Altered(change) == {KeyOf(change[i], FirstDirectory) : i \in 2..Len(change)}

MayReassign(s, batch, asked) ==
    LET voters == Voters(s)
        targets == Targets(s)
        new == targets \ voters
        leaving == voters \ targets
        known == DOMAIN s.match \cup UNION {s.sets[i].voters : i \in 1..Len(s.sets)}
                 \cup UNION {s.log[i].targets : i \in 1..End(s)}
        alters == /\ batch.voters = voters /\ TargetsOf(batch) \subseteq known
                  /\ TargetsOf(batch) # targets
                  /\ \E change \in asked : Altered(change) = TargetsOf(batch)
        ends == batch.voters = voters /\ voters = targets /\ TargetsOf(batch) = {}
        adds == \E key \in new : batch.voters = voters \cup {key} /\ MayAdd(s, key)
        removes == \E key \in leaving \ {Key(s)} : batch.voters = voters \ {key}
        isLarger == Cardinality(new) >= Cardinality(leaving)
        moves == targets # {} /\ TargetsOf(batch) = targets /\ IF isLarger THEN adds ELSE removes
    IN MayChangeVoters(s) /\ (alters \/ ends \/ moves)

\* A leader appends as many records as its log then has: of clients, or a change of the voters. It may
\* resign with that, as a sole voter does that adds another and has heard from none for long. Where it
\* loses its power in the step, it has or has not.
Written(s, e) ==
    LET count == e.keep + Len(e.new) - End(s)
        batch(i) == e.new[Len(e.new) - count + i]
        voters(i) == batch(i).voters
        record(i) == [Record(s, IF voters(i) = {} THEN "data" ELSE "voters", voters(i))
                        EXCEPT !.targets = TargetsOf(batch(i))]
        changes == {i \in 1..count : voters(i) # {}}
        isAllowed == /\ count <= Len(e.new) /\ Cardinality(changes) <= 1
                     /\ \A i \in changes :
                            IF Reassigns THEN MayReassign(s, batch(i), e.asked)
                            ELSE MayReplaceVoters(s, voters(i), e.asked)
        one == Advanced(Appended(s, [i \in 1..count |-> record(i)]))
        all == IF isAllowed THEN {one, Resigned(one)} ELSE {}
    IN IF s.role # "leader" \/ count <= 0 THEN {s} ELSE IF e.isShown THEN all ELSE {s} \cup all

\* What is done with the disk by the end of a step: a sync that took none of the time of others, a
\* snapshot of what is committed, and the start of the log at one.
OnDisk(s, e) ==
    LET synced == IF e.to > s.synced /\ e.to <= End(s) THEN SyncedTo(s, e.to) ELSE s
        written == IF e.snapshot > s.snapshot /\ e.snapshot <= s.hw
                   THEN WithSnapshot(synced, e.snapshot) ELSE synced
    IN IF ~e.isShown THEN s
       ELSE IF e.start > s.start /\ e.start <= written.snapshot THEN StartsAt(written, e.start)
       ELSE written

\* A Fetch that waited is looked at once more when it is answered: what it asked from counts again,
\* also where one that came late has said less since.
Heard(s, e) ==
    LET answered == {flight[e.sends[i].re] : i \in {i \in 1..Len(e.sends) :
                                                        e.sends[i].re \notin {0, e.gets}}}
        fetches == {m \in answered : m.kind = "fetch" /\ m.epoch = s.epoch}
        heard(key) == Largest({m.at : m \in {m \in fetches : m.key = key}})
    IN IF s.role # "leader" \/ fetches = {} THEN {s}
       ELSE {s, Advanced([s EXCEPT !.match = [key \in {m.key : m \in fetches} |-> heard(key)] @@ @])}

Ends(s, e) == {OnDisk(u, e) : u \in UNION {Heard(t, e) : t \in Written(s, e)}}

VotedFor(t) == IF t.vote = None THEN None ELSE t.vote[1]

\* The voters that a log has up to an offset, and their targets.
UpTo(t, offset) == [t EXCEPT !.sets = SelectSeq(@, LAMBDA set : set.at <= offset)]

VotersIn(t, offset) == LastSet(UpTo(t, offset))

\* Whether a node may take itself for no voter. One that Ongaro's rule lets campaign may, too.
MayBeNoVoter(t) == ~IsVoter(t) \/ t.isDismissed

\* Whether a node that was s before the step shows itself as t. Where a new leader has forgotten
\* what was committed, as Kafka's does, the model still knows it. The vote of who leads is told by
\* nodes of the draft KIP-595, and not by all others.
Shows(s, t, e) ==
    /\ t.role = e.role /\ t.epoch = e.epoch /\ t.leader = e.leader
    /\ e.storedEpoch = t.epoch
    /\ \/ t.role \in {"leader", "resigned"} /\ ~Reassigns
       \/ VotedFor(t) = e.vote /\ e.vote = e.storedVote
    /\ IF t.role = "leader" THEN ReportedHw(t) = e.hw
       ELSE IF e.isForgotten THEN t.hw >= e.hw ELSE t.hw = e.hw
    /\ End(t) = e.keep + Len(e.new)
    /\ SubSeq(t.log, 1, e.keep) = SubSeq(s.log, 1, e.keep)
    /\ \A i \in 1..Len(e.new) : /\ t.log[e.keep + i].epoch = e.new[i].epoch
                                /\ t.log[e.keep + i].voters = e.new[i].voters
                                /\ t.log[e.keep + i].targets = TargetsOf(e.new[i])
    /\ t.start = e.start /\ t.snapshot = e.snapshot
    /\ e.snapshot > 0 => /\ EpochAt(t, e.snapshot) = e.snapshotEpoch
                         /\ Dynamic => VotersIn(t, e.snapshot) = e.snapshotVoters
    /\ LastSet(t) = e.voters /\ IF e.isVoter THEN MayCampaign(t) ELSE MayBeNoVoter(t)

\* Whether all this may be told to state machines, clients and operators: s was before the step, f is
\* what its event has made of it, and t is after it. A state machine knows what is committed, leads
\* once it knows a record of that epoch, and has everything then. A change is done when committed.
MayTell(s, f, t, e) ==
    LET has(u, change) ==
            LET key == <<change[2], change[3]>>
            IN IF change[1] = "alter" THEN Altered(change) = Targets(UpTo(u, u.hw))
               ELSE (key \in VotersIn(u, u.hw)) = (change[1] = "add")
        reigns(u) == u.role = "leader" /\ EpochAt(u, u.hw) = u.epoch
    IN /\ e.told <= t.hw
       /\ e.leads > 0 => EpochAt(t, t.hw) = e.leads
       /\ \A epoch \in e.takes : \E u \in {s, f, t} : u.role = "leader" /\ u.epoch = epoch
       /\ \A change \in e.confirms : \E u \in {s, f, t} : has(u, change)
       /\ e.reloads => \E u \in {s, f, t} : ~reigns(u)

\* What is left of a step that was cut short by a loss of power: it has not happened, or no more of it
\* than that a higher epoch was stored, before the vote in it.
Cut(s, e) == {s} \cup IF e.what = "receives" THEN {Learned(s, flight[e.gets].epoch, None)} ELSE {}

\* What it may become, each with what the event made of it first. Who loses an election by KIP-853's
\* first version waits before the next.
Becoming(s, e) ==
    LET firsts == Firsts(s, e) \cup IF e.isShown \/ e.what = "fails" THEN {} ELSE Cut(s, e)
        two(f) == IF FirstKip853 /\ f.role = "candidate" THEN {}
                  ELSE UNION {Expired(t) : t \in Expired(f)}
        later(f) == {f} \cup Expired(f) \cup two(f)
    IN UNION {UNION {{<<f, end>> : end \in Ends(t, e)} : t \in later(f)} : f \in firsts}

Shown(s, e) ==
    LET all == {pair \in Becoming(s, e) :
                    e.isShown => Shows(s, pair[2], e) /\ MayTell(s, pair[1], pair[2], e)}
        direct == {pair \in all : pair[2] \in Ends(pair[1], e)}
    IN IF e.isShown /\ direct # {} /\ s.role \notin {"candidate", "prospective"} THEN direct ELSE all

----------------------------------------------------------------------------
\* What it may send: the message of the model that x is, or {}.

\* Whether the vote that a message is about was on the disk as it left, or a higher epoch.
IsOnDisk(x, voted) == x.storedEpoch > x.epoch \/ (x.storedEpoch = x.epoch /\ x.storedVote = voted)

Asks(s, t, x) ==
    LET isNamed == "dir" \in DOMAIN x
        key == KeyOf(x.to, IF isNamed THEN x.dir ELSE FirstDirectory)
        vote == Vote(t, key)
        fetch == [Fetch(t, x.to) EXCEPT !.hw = -1]  \* It is answered also where nothing is new.
    IN CASE x.kind = "vote" ->
                IF /\ MayAskVotes(t) /\ key \in Voters(t)
                   /\ FirstKip853 => vote.toKey = <<x.to, IF isNamed THEN x.dir ELSE 0>>
                   /\ vote.pre = x.pre /\ vote.epoch = x.epoch
                   /\ vote.lastEpoch = x.last /\ vote.end = x.at
                   /\ x.pre \/ IsOnDisk(x, t.id)
                THEN {vote} ELSE {}
         [] x.kind = "begin" ->
                IF /\ t.role = "leader" /\ t.epoch = x.epoch
                   /\ IF FirstKip853 THEN \E voter \in Voters(t) : voter[1] = x.to
                      ELSE key \in Voters(t)
                THEN {Begin(t, key)} ELSE {}
         [] x.kind = "end" ->
                LET isOfIt(u) == u.role = "resigned" /\ u.epoch = x.epoch
                IN IF isOfIt(s) \/ isOfIt(t)
                   THEN {EndsEpoch(IF isOfIt(s) THEN s ELSE t, key, FALSE)} ELSE {}
         [] x.kind = "fetch" ->
                IF /\ t.role # "leader" /\ (IsDurable(t) \/ t.id \in Run.observers)
                   /\ fetch.epoch = x.epoch /\ fetch.at = x.at /\ fetch.lastEpoch = x.last
                   /\ Reassigns => t.leader = x.to
                THEN {fetch} ELSE {}
         [] x.kind = "find" -> {[kind |-> "find", from |-> t.id, to |-> x.to, epoch |-> 0]}
         [] x.kind = "part" ->
                IF /\ t.role # "leader" /\ t.epoch = x.epoch
                   /\ "own" \in DOMAIN x => t.dir = x.own
                THEN {[kind |-> "part", from |-> t.id, to |-> x.to, epoch |-> x.epoch]} ELSE {}

\* A leader that resigns in the step has first answered the requests that waited for what it then
\* has, or for its removal to be committed.
AsItLed(s, t) == IF s.role = "leader" /\ t.role = "resigned" /\ t.epoch = s.epoch
                 THEN {[t EXCEPT !.role = "leader", !.match = s.match]} ELSE {}

\* Of requests that waited, the first is answered before the others count again.
BeforeItHeard(f, t) == IF f.role = "leader" /\ t.role = "leader" /\ f.epoch = t.epoch
                       THEN {[t EXCEPT !.hw = f.hw, !.match = f.match]} ELSE {}

\* NOT_FOLLOWER: to who was removed, for good, and whose own log does not say so yet.
MayDismiss(s, m) ==
    /\ Reassigns /\ s.role = "leader" /\ s.epoch = m.epoch /\ m.at <= End(s)
    /\ m.key \notin Voters(s) \cup VotersIn(s, Len(committed))
    /\ m.key \in VotersIn(s, m.at)

\* An answer, by what the node was before, in, or after the step. A Fetch that waited in vain is
\* answered without being looked at again. Kafka's has that answer ready since the Fetch came, and
\* gives it also if it is of a later epoch by then: transitionToUnattached lets them wait.
Answers(s, f, t, e, x) ==
    LET m == flight[x.re]
        known == {s, f, t} \cup AsItLed(s, f) \cup AsItLed(s, t) \cup BeforeItHeard(f, t)
        granted == IF m.kind = "vote" /\ e.gets = x.re
                   THEN {r \in OnVote(s, m).sends :
                            /\ r.kind = "granted"
                            /\ \/ r.pre
                               \/ f.vote = r.toKey /\ (x.kind # "granted" \/ IsOnDisk(x, m.from))}
                   ELSE {}
        served == IF m.kind = "fetch" THEN UNION {OnFetch(u, m).sends : u \in known} ELSE {}
        inVain == {u \in known : /\ e.gets # x.re /\ u.role = "leader" /\ u.epoch = m.epoch
                                 /\ ReportedHw(u) = x.hw /\ x.end = m.at}
        hasLed(u) == \E i \in 1..End(u) : u.log[i].epoch = m.epoch /\ u.log[i].by = u.id
        left == {u \in known : /\ e.gets # x.re /\ u.id \notin Run.own
                               /\ u.epoch > m.epoch /\ hasLed(u)
                               /\ x.hw <= u.hw /\ x.end = m.at}
        asItLed == {[u EXCEPT !.epoch = m.epoch] : u \in left}
        \* A leader that the draft's node cannot reach is none that it knows.
        isHidden == Reassigns /\ m.kind = "begin" /\ x.leader = None
    IN CASE x.kind = "granted" ->
                {r @@ [leader |-> x.leader] : r \in {r \in granted : r.epoch = x.epoch}}
         [] x.kind = "told" ->
                IF /\ \E u \in known : u.epoch = x.epoch /\ (u.leader = x.leader \/ isHidden)
                   /\ granted = {} \/ MayRefuse(s, m) \/ (Reassigns /\ IsStranger(s, m))
                   /\ m.kind = "fetch" =>
                        \E u \in known : u.role # "leader" \/ u.epoch # m.epoch
                THEN {[kind |-> "told", from |-> s.id, to |-> m.from, epoch |-> x.epoch,
                       leader |-> x.leader]}
                ELSE {}
         [] x.kind = "dismissal" ->
                IF m.kind = "fetch" /\ \E u \in known : MayDismiss(u, m)
                THEN {[kind |-> "dismissal", from |-> s.id, to |-> m.from, epoch |-> m.epoch,
                       leader |-> s.id]}
                ELSE {}
         [] x.kind = "records" ->
                {[r EXCEPT !.records = SubSeq(@, 1, x.end - m.at)] :
                    r \in {r \in served : /\ r.kind = "records" /\ r.hw = x.hw
                                          /\ x.end - m.at \in 0..Len(r.records)}}
                \cup {Answer(u, m, "records") @@ [records |-> <<>>, hw |-> x.hw] :
                      u \in inVain \cup asItLed}
         [] x.kind = "diverging" ->
                {r \in served : /\ r.kind = "diverging"
                                /\ r.epochThere = x.epochThere /\ r.endThere = x.endThere}
         [] x.kind = "snapshot" ->
                {r \in served : r.kind = "snapshot" /\ Len(r.prefix) = x.end}

Made(s, f, t, e, x) == IF x.re = 0 THEN Asks(s, t, x) ELSE Answers(s, f, t, e, x)

AllMade(s, pair, e) == [i \in 1..Len(e.sends) |-> Made(s, pair[1], pair[2], e, e.sends[i])]

----------------------------------------------------------------------------

\* What is printed of a node: what runs show, and whether its log is on its disk.
Facts(t) ==
    [role |-> t.role, epoch |-> t.epoch, leader |-> t.leader,
     vote |-> VotedFor(t),
     hw |-> t.hw, end |-> End(t), last |-> LastEpoch(t), synced |-> t.synced,
     start |-> t.start, snapshot |-> t.snapshot, voters |-> Voters(t)]

\* No behaviour goes on here. It is told once of each step, with what the model allows.
IsStuck(s, e) ==
    LET shown == Shown(s, e)
    IN /\ at > TLCGet(run)
       /\ TLCSet(run, at)
       /\ PrintT(<<"stuck", run, at, Facts(s),
                   {Facts(pair[2]) : pair \in Becoming(s, e)},
                   IF shown = {} THEN {}
                   ELSE LET sends == AllMade(s, CHOOSE pair \in shown : TRUE, e)
                        IN {i \in 1..Len(e.sends) : sends[i] = {}}>>)
       /\ FALSE

Explained ==
    LET e == Event
        s == node[e.node]
        found == {pair \in Shown(s, e) : \A i \in 1..Len(e.sends) :
                    Made(s, pair[1], pair[2], e, e.sends[i]) # {}}
    IN IF found = {} THEN IsStuck(s, e)
       ELSE \E pair \in found :
            LET sends == AllMade(s, pair, e)
                index(id) == CHOOSE i \in 1..Len(e.sends) : e.sends[i].id = id
                new == {e.sends[i].id : i \in 1..Len(e.sends)}
            IN /\ Step(e.node, pair[2], {})
               /\ flight' = [id \in (DOMAIN flight \cup new) \ e.gone |->
                                IF id \in new THEN CHOOSE m \in sends[index(id)] : TRUE
                                ELSE flight[id]]
               /\ last' = [last EXCEPT ![e.node] = ShownBy(e)]
               /\ at' = at + 1
               /\ at = Len(Run.steps) => PrintT(<<"explained", run>>)
               /\ UNCHANGED <<run, spent>>

TraceInit ==
    /\ run \in 1..Len(TLCGet(0))
    /\ at = 1 /\ flight = <<>> /\ last = [n \in Node |-> FirstShown]
    /\ net = {} /\ committed = <<>> /\ led = {} /\ spent = Unspent
    /\ node = [n \in Node |-> FormattedFor(n, FirstDirectory)]

TraceNext == at <= Len(Run.steps) /\ Explained

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, run, at, last, flight>>
=============================================================================
