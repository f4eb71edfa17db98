(** Row ids as intervals (tag, start, stop) and the overlap test (rule 8, and conflicts in CAS mode).

    [overlap] compares ends only. It is exact: true if and only if a row is in both. Writers whose write sets
    do not overlap commute, to the same value. *)

From Coq Require Import NArith List Bool Lia.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.
Local Open Scope N_scope.

Record interval : Type := { tag : N; start : N; stop : N }.
Definition row : Type := (N * N)%type.

Definition inside (r : row) (i : interval) : Prop := fst r = tag i /\ start i <= snd r < stop i.

Definition overlap (a b : interval) : bool :=
  N.eqb (tag a) (tag b) && N.ltb (N.max (start a) (start b)) (N.min (stop a) (stop b)).

(** Sound and complete: the test answers yes exactly when some row is in both. *)
Theorem overlap_exact : forall a b, overlap a b = true <-> exists r, inside r a /\ inside r b.
Proof.
  intros a b. unfold overlap, inside. rewrite andb_true_iff, N.eqb_eq, N.ltb_lt. split.
  - intros [T L]. exists (tag a, N.max (start a) (start b)); simpl. lia.
  - intros [[t o] [[Ta Oa] [Tb Ob]]]; simpl in *. split; [congruence | lia].
Qed.

Definition inside_any (r : row) (l : list interval) : Prop := exists i, In i l /\ inside r i.
Definition overlap_any (l m : list interval) : bool := existsb (fun a => existsb (overlap a) m) l.

Theorem overlap_any_exact : forall l m,
  overlap_any l m = true <-> exists r, inside_any r l /\ inside_any r m.
Proof.
  intros l m. unfold overlap_any. rewrite existsb_exists. split.
  - intros [a [A E]]. apply existsb_exists in E as [b [B E]]. apply overlap_exact in E as [r [Ia Ib]].
    exists r. split; eexists; eauto.
  - intros [r [[a [A Ia]] [b [B Ib]]]]. exists a. split; auto. apply existsb_exists. exists b.
    split; auto. apply overlap_exact. eauto.
Qed.

(** * All pairs that meet, of two lists of closed intervals: one begins in the other *)
(** Two of them meet exactly if the second begins in the first, at or after its start, or the first begins in
    the second, after its start; and never both. So each pair is found once, by looking up starts only, whatever
    order the intervals are in and however they overlap among themselves. *)
Theorem meeting_begins_in_one : forall s e t f : N, s <= e -> t <= f ->
  ((exists x, s <= x <= e /\ t <= x <= f) <-> (s <= t <= e \/ t < s <= f)) /\
  ~ (s <= t <= e /\ t < s <= f).
Proof.
  intros s e t f L M. split; [|lia]. split.
  - intros [x X]. lia.
  - intros [X|X]; [exists t | exists s]; lia.
Qed.

(** * Disjoint writes commute *)
Section Writes.
  Context {V : Type}.
  Definition table : Type := fmap row V.
  Definition apply (writes before : table) : table := merge (fun new _ => new) writes before.

  (** Applied in either order, write sets without a common row give the same table. *)
  Theorem disjoint_writes_commute : forall w u t : table,
    (forall r, find r w = None \/ find r u = None) -> apply w (apply u t) = apply u (apply w t).
  Proof.
    intros w u t D. apply fmap_ext. intros r. unfold apply. rewrite !find_merge.
    destruct (D r) as [E|E]; rewrite E; destruct (find r w), (find r u), (find r t); simpl; congruence.
  Qed.

  (** The overlap test decides it, if each write set lies within its intervals. *)
  Theorem no_overlap_commutes : forall l m (w u t : table),
    (forall r, find r w <> None -> inside_any r l) -> (forall r, find r u <> None -> inside_any r m) ->
    overlap_any l m = false -> apply w (apply u t) = apply u (apply w t).
  Proof.
    intros l m w u t W U O. apply disjoint_writes_commute. intros r.
    destruct (find r w) eqn:Ew; auto. destruct (find r u) eqn:Eu; auto. exfalso.
    assert (overlap_any l m = true); [|congruence]. apply overlap_any_exact. exists r.
    split; [apply W | apply U]; congruence.
  Qed.
End Writes.
