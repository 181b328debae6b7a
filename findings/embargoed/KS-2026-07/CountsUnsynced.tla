--------------------------- MODULE CountsUnsynced ---------------------------
(* KS-2026-07: a leader counts its own log before it is on its disk. For    *)
(* OwnOffset of KRaft.tla.                                                   *)
EXTENDS Properties

CountsUnsynced(s) == End(s)
=============================================================================
