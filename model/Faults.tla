------------------------------- MODULE Faults -------------------------------
(* What an implementation may do wrong: operators that take the place of   *)
(* others of KRaft.tla.  groups.toml says which.                           *)
EXTENDS Properties

\* What is left out of a scope: an action of a node.
Never(n) == FALSE

\* A leader goes on whose removal is committed, for IsDismissed.
NeverDismissed(s) == FALSE
=============================================================================
