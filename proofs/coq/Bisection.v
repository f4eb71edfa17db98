(** Which runs of a sorted list one run touches, found by two bisections: `crdtcat.intervals.runs.touched`,
    which overlap, intersection and difference of sets of rows are computed by.

    [search] halves a range until nothing is left of it, as the code does. Of a property that once true stays
    true it finds the first place where it holds ([search_finds_first]). Ends and starts of canonical runs rise,
    so the runs that overlap [a, b) are those from the first that ends after a up to the first that begins at b
    or later ([touched_exact]): no other is looked at. *)

From Coq Require Import NArith List Arith Lia Bool.
From Crdtcat Require Import IntervalSets.
Import ListNotations.

Fixpoint search (fuel : nat) (p : nat -> bool) (low high : nat) : nat :=
  match fuel with
  | O => low
  | S n => if low <? high
           then let middle := (low + high) / 2 in
                if p middle then search n p low middle else search n p (S middle) high
           else low
  end.

Definition stays (p : nat -> bool) (low high : nat) : Prop :=
  forall i j, low <= i <= j -> j < high -> p i = true -> p j = true.

Lemma middle_between : forall low high, low < high -> low <= (low + high) / 2 < high.
Proof.
  intros low high L. split.
  - apply Nat.div_le_lower_bound; lia.
  - apply Nat.div_lt_upper_bound; lia.
Qed.

Lemma search_within : forall fuel p low high, low <= high -> low <= search fuel p low high <= high.
Proof.
  induction fuel as [|n IH]; intros p low high L; cbn [search]; [lia|].
  destruct (low <? high) eqn:E; [|lia]. apply Nat.ltb_lt in E. cbv zeta.
  pose proof (middle_between low high E) as M. destruct (p ((low + high) / 2)).
  - pose proof (IH p low ((low + high) / 2)). lia.
  - pose proof (IH p (S ((low + high) / 2)) high). lia.
Qed.

(** At and after the place that is found the property holds, before it it does not. *)
Theorem search_finds_first : forall fuel p low high, stays p low high -> high - low <= fuel ->
  forall k, low <= k < high -> (search fuel p low high <= k <-> p k = true).
Proof.
  induction fuel as [|n IH]; intros p low high St F k K; [lia|]. cbn [search].
  assert (low <? high = true) as -> by (apply Nat.ltb_lt; lia). cbv zeta.
  assert (M : low <= (low + high) / 2 < high) by (apply middle_between; lia).
  set (middle := (low + high) / 2) in *. destruct (p middle) eqn:P.
  - destruct (Nat.lt_ge_cases k middle) as [B|B].
    + apply IH; try lia. intros i j I J. apply St; lia.
    + pose proof (search_within n p low middle). split; [intros _|lia]. apply (St middle k); auto; lia.
  - destruct (Nat.lt_ge_cases middle k) as [B|B].
    + apply IH; try lia. intros i j I J. apply St; lia.
    + pose proof (search_within n p (S middle) high). split; [lia|]. intros Q.
      assert (p middle = true) by (apply (St k middle); auto; lia). congruence.
Qed.

(** * Runs *)
Definition ends_after (a : N) (l : list run) (k : nat) : bool :=
  match nth_error l k with Some (_, d) => N.ltb a d | None => true end.
Definition begins_at_or_after (b : N) (l : list run) (k : nat) : bool :=
  match nth_error l k with Some (c, _) => N.leb b c | None => true end.
Definition first_touched (a : N) (l : list run) : nat := search (length l) (ends_after a l) 0 (length l).
Definition last_touched (b : N) (l : list run) : nat := search (length l) (begins_at_or_after b l) 0 (length l).

Lemma canonical_filled : forall l k c d, canonical l -> nth_error l k = Some (c, d) -> (c < d)%N.
Proof.
  induction l as [|[a b] l IH]; intros k c d C E; [destruct k; discriminate|]. simpl in C.
  destruct C as [L [_ C]]. destruct k; simpl in E; [congruence | now apply (IH k c d)].
Qed.

Lemma nth_holds : forall l k c d, (c < d)%N -> nth_error l k = Some (c, d) -> holds c l.
Proof.
  induction l as [|[a b] l IH]; intros k c d L E; [destruct k; discriminate|].
  destruct k; simpl in *; [inversion E; subst; left; lia | right; now apply (IH k c d)].
Qed.

(** A run ends before the next begins. *)
Lemma canonical_rises : forall l i j c d e f, canonical l -> i < j ->
  nth_error l i = Some (c, d) -> nth_error l j = Some (e, f) -> (d < e)%N.
Proof.
  induction l as [|[a b] l IH]; intros i j c d e f C L I J; [destruct i; discriminate|].
  pose proof (canonical_filled _ _ _ _ C J) as F. simpl in C. destruct C as [_ [A C]].
  destruct j as [|j]; [lia|]. simpl in J. destruct i as [|i]; simpl in I.
  - inversion I; subst. apply (canonical_above l d e C A). now apply (nth_holds l j e f).
  - apply (IH i j c d e f); auto. lia.
Qed.

Lemma at_place : forall (l : list run) k, k < length l -> exists c d, nth_error l k = Some (c, d).
Proof.
  intros l k L. destruct (nth_error l k) as [[c d]|] eqn:E; [now exists c, d|].
  apply nth_error_None in E. lia.
Qed.

Lemma ends_stay : forall a l, canonical l -> stays (ends_after a l) 0 (length l).
Proof.
  intros a l C i j I J. unfold ends_after. destruct (at_place l j J) as [e [f Ej]].
  assert (Hi : i < length l) by lia. destruct (at_place l i Hi) as [c [d Ei]]. rewrite Ei, Ej, !N.ltb_lt.
  intros L. destruct (Nat.eq_dec i j) as [->|N]; [congruence|].
  assert (d < e)%N by (apply (canonical_rises l i j c d e f); auto; lia).
  pose proof (canonical_filled _ _ _ _ C Ej). lia.
Qed.

Lemma starts_stay : forall b l, canonical l -> stays (begins_at_or_after b l) 0 (length l).
Proof.
  intros b l C i j I J. unfold begins_at_or_after. destruct (at_place l j J) as [e [f Ej]].
  assert (Hi : i < length l) by lia. destruct (at_place l i Hi) as [c [d Ei]]. rewrite Ei, Ej, !N.leb_le.
  intros L. destruct (Nat.eq_dec i j) as [->|N]; [congruence|].
  assert (d < e)%N by (apply (canonical_rises l i j c d e f); auto; lia).
  pose proof (canonical_filled _ _ _ _ C Ei). lia.
Qed.

(** The runs between the two places are exactly those that have something in common with [a, b). *)
Theorem touched_exact : forall l a b k c d, canonical l -> (a < b)%N -> nth_error l k = Some (c, d) ->
  (first_touched a l <= k < last_touched b l <-> exists x, (a <= x < b)%N /\ (c <= x < d)%N).
Proof.
  intros l a b k c d C L E.
  assert (K : k < length l) by (apply nth_error_Some; congruence).
  pose proof (canonical_filled _ _ _ _ C E) as F.
  assert (First : first_touched a l <= k <-> (a < d)%N).
  { unfold first_touched. rewrite search_finds_first by (try apply ends_stay; auto; lia).
    unfold ends_after. rewrite E. apply N.ltb_lt. }
  assert (Last : last_touched b l <= k <-> (b <= c)%N).
  { unfold last_touched. rewrite search_finds_first by (try apply starts_stay; auto; lia).
    unfold begins_at_or_after. rewrite E. apply N.leb_le. }
  split.
  - intros [P Q]. exists (N.max a c). assert (a < d)%N by tauto.
    assert (~ (b <= c)%N) by (rewrite <- Last; lia). lia.
  - intros [x [X Y]]. split; [apply First; lia|].
    destruct (Nat.lt_ge_cases k (last_touched b l)) as [B|B]; auto. apply Last in B. lia.
Qed.
