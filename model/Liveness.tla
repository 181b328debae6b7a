------------------------------ MODULE Liveness ------------------------------
(***************************************************************************)
(* What must happen in the end, if what may happen again and again does.   *)
(*                                                                         *)
(* Fairness says so much: a message arrives at some time, and a node that  *)
(* may ask, or whose timer may expire, again and again, does.  No message  *)
(* is lost here, and nobody campaigns while another does: random time-outs *)
(* see to that at last, and without it no protocol elects for certain.     *)
(***************************************************************************)
EXTENDS Faults

AsksAgain(n) == AsksVote(n) \/ Calls(n) \/ AsksRecords(n)

Expires(n) == TimesOut(n) \/ GivesUp(n)

Fairness ==
    /\ WF_vars(Receives)
    /\ \A n \in Node : SF_vars(AsksAgain(n)) /\ SF_vars(Expires(n)) /\ WF_vars(Syncs(n))

FairSpec == Spec /\ Fairness

Campaigning(s) == s.role \in {"prospective", "candidate"}

\* In place of TimesOut.
TimesOutAlone(n) ==
    LET s == node[n]
    IN /\ MayTimeOut(s) /\ ~\E t \in Up : Campaigning(t)
       /\ Step(n, Promoted(Prospects(s)), net) /\ UNCHANGED spent

\* Whether too few voters are left who may grant what s asks for, or have.
MayStillGrant(t, s) ==
    /\ t.epoch <= s.epoch
    /\ IsUpToDate(t, [lastEpoch |-> LastEpoch(s), end |-> End(s)])
    /\ IF s.role = "prospective" THEN t.role # "leader" /\ ~(t.role = "follower" /\ t.fetched)
       ELSE t.epoch < s.epoch \/ t.vote \in {None, Key(s)}

IsLost(s) == ~Majority({Key(s)} \cup {Key(t) : t \in {t \in Up : MayStillGrant(t, s)}}, Voters(s))

\* In place of GivesUp: time-outs are longer than it takes to win.
GivesUpWhatIsLost(n) ==
    /\ Campaigning(node[n]) /\ IsLost(node[n])
    /\ Step(n, GivenUp(node[n]), net) /\ UNCHANGED spent

----------------------------------------------------------------------------

\* Somebody leads at last.
leader_elected == <>(\E n \in Node : node[n].role = "leader")

\* While one leads, all nodes come to have what it has, and to know that it is committed.
Longest == Largest({End(node[n]) : n \in Node})
replicas_catch_up == <>[](\A n \in Node : End(node[n]) = Longest /\ node[n].hw = Longest)

\* A change of the voters is committed.
reconfiguration_finishes ==
    <>[](\A n \in Node : node[n].role = "leader" => VotersAt(node[n]) <= node[n].hw)

----------------------------------------------------------------------------
\* Mutants: what happens in time, and not at last.

\* Nobody grants a pre-vote, for GrantsPreVote.
NeverGrantsPreVote(s, m) == FALSE

\* A leader does not say what is committed, for ReportedHw.
NothingReported(s) == 0

\* A leader does not count its own log, for OwnOffset.
NeverCountsItself(s) == 0
=============================================================================
