------------------------------- MODULE ReadsOn -------------------------------
(* KS-2026-05: the position up to which a node has read voter sets stays    *)
(* where it was when the log is truncated. For ReadFrom of KRaft.tla.       *)
EXTENDS Faults

ReadsOn(s, end) == s.read

NothingHappens == FALSE
=============================================================================
