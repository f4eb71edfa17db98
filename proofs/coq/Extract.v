(** The executable part of the model, as OCaml: an oracle for the Python code (see ../vectors.py).

    Numbers become OCaml's 63-bit integers, so vectors keep below 2^62; everything else is extracted as it is.
    Nothing is proved here, and nothing that is proved is about what this writes. *)

From Coq Require Import NArith List.
From Coq Require Import ExtrOcamlBasic ExtrOcamlZInt.
From Crdtcat Require Import Order Semilattice Fmap Clock Lattices State Head IntervalSets Keyed Columns.
From Crdtcat Require Import Positions Insertions.
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

Extraction "model.ml" tick receive clock_of vclock_merge counter_of gcounter_merge gcounter_value
  sets_of sets_merge registers_of registers_merge head_standing head_alive head_cell versions_of order_ids
  bindings runs_union runs_intersection runs_difference table_of tables_join table_read type_of_column
  rows_in_order insertions_known.
