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

(** * The sweep over two sorted lists, which is what is run: one pass, the same answer *)
(** Sorted and disjoint: each interval is not empty and ends before the next begins. *)
Definition precedes (a b : interval) : bool :=
  match tag a ?= tag b with Lt => true | Eq => N.leb (stop a) (start b) | Gt => false end.

Fixpoint tidy (l : list interval) : Prop :=
  match l with
  | [] => True
  | a :: r => start a < stop a /\ (forall b, In b r -> precedes a b = true) /\ tidy r
  end.

Fixpoint sweep (fuel : nat) (l m : list interval) : bool :=
  match fuel, l, m with
  | S n, a :: l', b :: m' =>
      if overlap a b then true
      else if precedes a b then sweep n l' m else sweep n l m'
  | _, _, _ => false
  end.

Lemma precedes_no_overlap : forall a b, precedes a b = true -> overlap a b = false.
Proof.
  intros a b P. unfold precedes, overlap in *. destruct (N.compare_spec (tag a) (tag b)) as [E|L|L];
    try discriminate.
  - apply N.leb_le in P. rewrite E, N.eqb_refl. simpl. apply N.ltb_ge. lia.
  - assert (tag a =? tag b = false) as -> by (apply N.eqb_neq; lia). reflexivity.
Qed.

Lemma overlap_sym : forall a b, overlap a b = overlap b a.
Proof.
  intros a b. apply eq_true_iff_eq. rewrite !overlap_exact. split; intros [r [A B]]; exists r; auto.
Qed.

Lemma apart : forall a b, start a < stop a -> start b < stop b ->
  overlap a b = false -> precedes a b = false -> precedes b a = true.
Proof.
  intros a b A B O P. unfold overlap, precedes in *.
  rewrite (N.compare_antisym (tag a) (tag b)).
  destruct (N.compare_spec (tag a) (tag b)) as [E|L|L]; simpl in *; try discriminate; auto.
  rewrite E, N.eqb_refl in O. simpl in O. apply N.ltb_ge in O. apply N.leb_gt in P. apply N.leb_le. lia.
Qed.

Lemma precedes_trans : forall a b c, start b < stop b ->
  precedes a b = true -> precedes b c = true -> precedes a c = true.
Proof.
  intros a b c B P Q. unfold precedes in *.
  destruct (N.compare_spec (tag a) (tag b)) as [E|L|L]; try discriminate;
    destruct (N.compare_spec (tag b) (tag c)) as [F|M|M]; try discriminate;
    destruct (N.compare_spec (tag a) (tag c)) as [G|K|K]; auto; try lia.
  apply N.leb_le in P, Q. apply N.leb_le. lia.
Qed.

Lemma existsb_false : forall {A} (p : A -> bool) l, (forall x, In x l -> p x = false) -> existsb p l = false.
Proof. induction l; simpl; auto. intros F. rewrite F, IHl; auto. Qed.

Lemma overlap_any_cons_right : forall l b m,
  (forall a, In a l -> overlap a b = false) -> overlap_any l (b :: m) = overlap_any l m.
Proof.
  induction l as [|a l IH]; simpl; auto. intros b m F. rewrite F by auto. simpl. f_equal. apply IH. auto.
Qed.

Theorem sweep_exact : forall fuel l m, tidy l -> tidy m -> (length l + length m <= fuel)%nat ->
  sweep fuel l m = overlap_any l m.
Proof.
  induction fuel as [|n IH]; intros l m Tl Tm F.
  - destruct l; simpl in *; [reflexivity | lia].
  - destruct l as [|a l]; [reflexivity|]. destruct m as [|b m].
    + simpl. symmetry. apply existsb_false. auto.
    + simpl sweep. destruct Tl as [Sa [Na Tl]], Tm as [Sb [Nb Tm]].
      destruct (overlap a b) eqn:O.
      * simpl. now rewrite O.
      * destruct (precedes a b) eqn:P.
        -- rewrite IH; simpl in *; auto; try lia. rewrite O. simpl.
           rewrite (existsb_false (overlap a) m); auto.
           intros c C. apply precedes_no_overlap. now apply (precedes_trans a b c); auto.
        -- pose proof (apart a b Sa Sb O P) as Q.
           rewrite IH; [| simpl; auto | auto | simpl in *; lia].
           symmetry. apply overlap_any_cons_right. intros c [->|C]; auto.
           rewrite overlap_sym. apply precedes_no_overlap. now apply (precedes_trans b a c); auto.
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
