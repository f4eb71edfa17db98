(** The executable part of the model, as OCaml: an oracle for the Python code (see ../vectors.py).

    Numbers become OCaml's 63-bit integers, so vectors keep below 2^62; everything else is extracted as it is.
    Nothing is proved here, and nothing that is proved is about what this writes. *)

From Coq Require Import NArith List Bool.
From Coq Require Import ExtrOcamlBasic ExtrOcamlZInt.
From Crdtcat Require Import Claims Files Intervals Linear Compaction Horizon Pruning.
From Crdtcat Require Import Order Semilattice Fmap Clock Lattices State Head IntervalSets Keyed Columns.
From Crdtcat Require Import Positions Insertions Statistics EntryOrders Lines.
Import ListNotations.

(** Maps as plain lists of bindings, which is what they are; built by merging single bindings. *)
Definition map_of {V} (combine : V -> V -> V) (l : list (N * V)) : fmap N V :=
  fold_right (fun b m => insert combine (fst b) (snd b) m) empty l.

Definition clock_of : list (N * positive) -> vclock := map_of Pos.max.
Definition counter_of : list (N * N) -> gcounter := map_of N.max.

(** OR-set over dots with elements that are numbers; of two elements under one dot the greater wins. *)
Definition sets : Type := orset (D := N) (P := N).
Definition sets_of : list (N * dot_state (P := N)) -> sets := map_of (dot_join N.max).
Definition sets_merge : sets -> sets -> sets := orset_merge N.max.

(** A map of registers, each (stamp, value). *)
Definition registers : Type := fmap N (N * N).
Definition registers_of : list (N * (N * N)) -> registers := map_of (lww_merge (S := N) (V := N)).
Definition registers_merge : registers -> registers -> registers := merge (lww_merge (S := N) (V := N)).

Definition head_standing := Head.standing.
Definition head_alive := Head.alive (Row := N).
Definition head_cell := Head.cell (Row := N) (Column := N) (Value := N).
Definition versions_of : list version -> state := state_of.
Definition order_ids : list version_id -> list version_id := fun l => members (of_list l).
Definition runs_union := IntervalSets.union.
Definition runs_intersection := IntervalSets.intersection.
Definition runs_difference := IntervalSets.difference.

(** A keyed table: cells (key, column), each (stamp, value), and the greatest delete of each key. *)
Definition table : Type := keyed (Key := N) (Column := N) (Stamp := N) (Value := N).
Definition table_of (cells : list ((N * N) * (N * N))) (deletes : list (N * N)) : table :=
  (fold_right (fun b m => insert (lww_merge (S := N) (V := N)) (fst b) (snd b) m) empty cells, map_of max deletes).
Definition tables_join : list table -> table := join_all keyed_merge nothing.
Definition table_read : table -> N -> N -> option N := Keyed.read.

(** Definitions of one column, and rows by their paths, both as numbers. *)
Definition type_of_column (replaces : N -> N -> bool) (type_of : N -> N) (widen : N -> N -> option N)
  (l : list N) : option N := column_type replaces type_of widen (of_list l).
Definition rows_in_order : list (list (list N)) -> list (list N) := listing.

(** Insertions as numbers, and their places as lists of numbers: each with the one it is known as, and those that
    are in the table. *)
Definition insertions_known (place : N -> list N) (saw : N -> N -> bool) (l : list N) : list (N * N) * list N :=
  (known_as place saw (of_list l), inserted place saw (of_list l)).

(** History; intervals of rows; what bundles of files cover, and what they decode to. *)
Definition history_standing := Linear.standing_history.
Definition intervals_overlap := Intervals.overlap_any.
Definition bundle_covers (files : list (list version)) : list version_id :=
  covered_ids (bundle_of (map state_of files)).
Definition bundle_again (files more : list (list version)) : list version :=
  members (decode (bundle_of (decode (bundle_of (map state_of files)) :: map state_of more))).

(** What is seen of some versions beside a base that an expiry has written of what it found below a horizon. *)
Definition expired_view (horizon : version_id) (found later : list version) : list version :=
  members (Horizon.view (horizon, filter_set (Horizon.old horizon) (state_of found)) (state_of later)).

(** Who has a number, counted from 0, by a bundle and claim files, ghosts among them. *)
Definition claims_history (bundled : list N) (files : list (N * N)) (n : N) : option N :=
  let found m := option_map snd (List.find (fun file => N.eqb (fst file) (N.of_nat m)) files) in
  Claims.history {| Claims.files := found; Claims.bundled := bundled |} (N.to_nat n).

(** Sources and rows as numbers, a cell as (stamp, value): what rows are with compactions, what a compaction writes for
    a row that it saw undeleted, and what a filter shows of some entries and the overlays on them. *)
Definition cells_of := lww_merge (S := N) (V := N).
Definition compacted_value (contributes : N -> N -> option (N * N)) (removes : N -> N -> bool)
  (replaces : N -> N -> N -> bool) (l : list N) (r : N) : option (N * N) :=
  Compaction.value cells_of contributes removes replaces (of_list l) r.
Definition compacted_deleted (removes : N -> N -> bool) (l : list N) (r : N) : bool :=
  Compaction.deleted removes (of_list l) r.
Definition compaction_writes : list (option (N * N)) -> option (N * N) := Compaction.all cells_of.
Definition pruned_shown (contributes : N -> N -> option (N * N)) (matches : N * N -> bool)
  (overlays read : list N) (r : N) : option (N * N) := Pruning.shown contributes matches overlays read r.

(** Statistics of runs of rows, orders of entries, writes that come into one line, and commits made again. *)
Definition statistics_of (parts : list ((option N * option N) * (N * N))) : (option N * option N) * N :=
  let part p :=
    ({| Statistics.least := fst (fst p); Statistics.greatest := snd (fst p); Statistics.nulls := fst (snd p) |}, snd (snd p)) in
  let found := Statistics.statistics_merge (map part parts) in
  ((Statistics.least found, Statistics.greatest found), Statistics.nulls found).
Definition entries_woven : list (list N) -> option (list N) := EntryOrders.weave_all [].
Definition written (rows : list (N * N)) : Intervals.table (V := N) :=
  fold_right (fun b m => insert (fun new _ => new) (0%N, fst b) (snd b) m) empty rows.
Definition fork_joined (wins : bool) (before : list (N * N)) (theirs mine : list (list interval * list (N * N)))
  : option (list (N * N)) :=
  let changes := map (fun c => (fst c, written (snd c))) in
  if negb wins && Lines.meets (changes mine) (changes theirs) then None
  else Some (map (fun b => (snd (fst b), snd b))
    (bindings (Lines.run (map snd (changes theirs ++ changes mine)) (written before)))).
Definition made_again : (N -> N) -> list (N * N) -> list (N * N) -> list (N * N) := Lines.repeated (Id := N).

Extraction "model.ml" tick receive clock_of vclock_merge counter_of gcounter_merge gcounter_value
  sets_of sets_merge registers_of registers_merge head_standing head_alive head_cell versions_of order_ids
  bindings runs_union runs_intersection runs_difference table_of tables_join table_read type_of_column
  rows_in_order insertions_known history_standing intervals_overlap bundle_covers bundle_again
  compacted_value compacted_deleted compaction_writes pruned_shown expired_view claims_history
  statistics_of entries_woven fork_joined made_again.
