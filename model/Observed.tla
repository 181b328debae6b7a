------------------------------ MODULE Observed ------------------------------
(* What can be seen of the nodes in each state that TLC visits, printed: to *)
(* be held against the states that real nodes come to.                      *)
EXTENDS Properties

\* The nodes in an order, so that what is printed has no names.
Order == CHOOSE order \in [1..Cardinality(Node) -> Node] :
            \A i, j \in DOMAIN order : i # j => order[i] # order[j]

Numbers == [n \in Node \cup {None} |->
                IF n = None THEN 0 ELSE CHOOSE i \in DOMAIN Order : Order[i] = n]

\* As the leader's own vote is, so is that of who resigned: told by some, and not by others.
ShownVote(s) ==
    IF s.role \in {"leader", "resigned"} \/ s.vote = None THEN 0 ELSE Numbers[s.vote[1]]

Seen(s) ==
    <<s.role, s.epoch, Numbers[s.leader], ShownVote(s),
      [i \in 1..End(s) |-> s.log[i].epoch], s.synced,
      IF s.role = "leader" THEN ReportedHw(s) ELSE s.hw,
      IF s.fetched THEN 1 ELSE 0,
      [i \in DOMAIN Order |->
          IF \E key \in s.votes \cap Voters(s) : key[1] = Order[i] THEN 1 ELSE 0],
      [i \in DOMAIN Order |->
          LET keys == {key \in DOMAIN s.match : key[1] = Order[i]}
          IN IF keys = {} THEN 0 ELSE s.match[CHOOSE key \in keys : TRUE]],
      [i \in DOMAIN Order |->
          IF \E key \in Voters(s) : key[1] = Order[i] THEN 1 ELSE 0],
      IF s.id \in InitialVoters THEN 1 ELSE 0>>

observed == PrintT(ToString(<<"seen", [i \in DOMAIN Order |-> Seen(node[Order[i]])]>>))
=============================================================================
