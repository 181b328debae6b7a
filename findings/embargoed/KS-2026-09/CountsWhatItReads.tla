-------------------------- MODULE CountsWhatItReads --------------------------
(* KS-2026-09: what was written and not synced is read back after a kill,   *)
(* and counts. For SyncedAtStart and IsDurable of KRaft.tla.                *)
EXTENDS Faults

StillUnsynced(s) == Min(s.synced, End(s))

Always(s) == TRUE
=============================================================================
