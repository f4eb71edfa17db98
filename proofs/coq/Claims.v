(** CAS mode: claims of numbers, bundles with a boundary, collection, and late creations (rule 5 of claims).

    A store has claim files by number, created only where none is, and a bundle: the list of commits it covers,
    whose length is the boundary. Below the boundary the bundle says who has a number; above, the file does.
    Files below it may be deleted by anybody at any time, and then created again by one who slept: a ghost.
    However many claimers, bundlers and collectors there are: history only grows at its end. Time is not used. *)

From Coq Require Import List Arith Lia.
Import ListNotations.

Section Claims.
  Context {Commit : Type}.

  Record store : Type := { files : nat -> option Commit; bundled : list Commit }.
  Definition boundary (s : store) : nat := length (bundled s).

  Definition history (s : store) (n : nat) : option Commit :=
    if n <? boundary s then nth_error (bundled s) n else files s n.

  Definition set (f : nat -> option Commit) (n : nat) (c : option Commit) : nat -> option Commit :=
    fun m => if m =? n then c else f m.

  Inductive step : store -> store -> Prop :=
  | create : forall s n c,   (* only where nothing is, and after a number that was taken *)
      files s n = None -> (n = 0 \/ history s (n - 1) <> None) ->
      step s {| files := set (files s) n (Some c); bundled := bundled s |}
  | bundle : forall s l,     (* a longer bundle of what history says *)
      boundary s <= length l -> (forall n, n < length l -> nth_error l n = history s n) ->
      step s {| files := files s; bundled := l |}
  | collect : forall s n,
      n < boundary s ->
      step s {| files := set (files s) n None; bundled := bundled s |}.

  Inductive steps : store -> store -> Prop :=
  | stay : forall s, steps s s
  | more : forall s t u, steps s t -> step t u -> steps s u.

  Lemma history_step : forall s t n c, step s t -> history s n = Some c -> history t n = Some c.
  Proof.
    intros s t n c S E. unfold history, boundary in *. destruct S as [s m d F _|s l L H|s m L]; simpl.
    - destruct (n <? length (bundled s)); auto. unfold set. destruct (n =? m) eqn:Q; auto.
      apply Nat.eqb_eq in Q; subst. congruence.
    - unfold boundary in L. destruct (n <? length l) eqn:Q.
      + rewrite H; [|now apply Nat.ltb_lt]. exact E.
      + apply Nat.ltb_ge in Q. assert (n <? length (bundled s) = false) as P by (apply Nat.ltb_ge; lia).
        now rewrite P in E.
    - unfold boundary in L. destruct (n <? length (bundled s)) eqn:Q; auto. apply Nat.ltb_ge in Q.
      unfold set. assert (n =? m = false) as -> by (apply Nat.eqb_neq; lia). exact E.
  Qed.

  (** A number that has a commit has it for ever: numbers are never used twice, snapshots never change. *)
  Theorem cas_history_stable : forall s t n c, steps s t -> history s n = Some c -> history t n = Some c.
  Proof. induction 1; auto. intros E. eapply history_step; eauto. Qed.

  (** At most one winner per number: whoever is in history at a number at any two times is the same. *)
  Theorem cas_one_winner : forall s t u n c d,
    steps s t -> steps t u -> history t n = Some c -> history u n = Some d -> c = d.
  Proof.
    intros s t u n c d _ U C D. rewrite (cas_history_stable t u n c U C) in D. congruence.
  Qed.

  Definition no_gaps (s : store) : Prop :=
    forall n, history s n <> None -> n = 0 \/ history s (n - 1) <> None.

  Lemma no_gaps_step : forall s t, step s t -> no_gaps s -> no_gaps t.
  Proof.
    intros s t S G n E.
    assert (K : forall m, history s m <> None -> history t m <> None).
    { intros m M. destruct (history s m) as [c|] eqn:C; [|congruence].
      rewrite (history_step s t m c S C). discriminate. }
    assert (O : history s n <> None \/ n = 0 \/ history s (n - 1) <> None).
    { revert E. unfold history, boundary in *. destruct S as [s m d F P|s l L H|s m L]; simpl.
      - destruct (n <? length (bundled s)) eqn:Q; auto. unfold set.
        destruct (n =? m) eqn:R; auto. apply Nat.eqb_eq in R; subst. intros _. right. exact P.
      - destruct (n <? length l) eqn:Q.
        + rewrite H by now apply Nat.ltb_lt. auto.
        + apply Nat.ltb_ge in Q. unfold boundary in L.
          assert (n <? length (bundled s) = false) as -> by (apply Nat.ltb_ge; lia). auto.
      - destruct (n <? length (bundled s)) eqn:Q; auto. unfold set.
        destruct (n =? m); [congruence | auto]. }
    destruct O as [O|[O|O]]; auto. destruct (G n O); auto.
  Qed.

  Theorem cas_history_linear : forall s t, steps s t -> no_gaps s -> no_gaps t.
  Proof. induction 1; auto. intros G. eapply no_gaps_step; eauto. Qed.

  Lemma boundary_grows : forall s t, steps s t -> boundary s <= boundary t.
  Proof.
    induction 1 as [|s t u _ IH S]; auto. eapply Nat.le_trans; [exact IH|].
    destruct S as [? ? ? _ _|? l L _|? ? _]; unfold boundary in *; simpl; auto.
  Qed.

  Lemma file_stays : forall s t n c, steps s t -> files s n = Some c -> boundary t <= n -> files t n = Some c.
  Proof.
    intros s t n c S F. induction S as [|s t u P IH S]; auto. intros B.
    assert (Bt : boundary t <= n).
    { eapply Nat.le_trans; [apply (boundary_grows t u) | exact B]. eapply more; [apply stay | exact S]. }
    specialize (IH F Bt). destruct S as [s' m d E _|s' l _ _|s' m L]; simpl in *; auto; unfold set.
    - destruct (n =? m) eqn:Q; auto. apply Nat.eqb_eq in Q; subst. congruence.
    - unfold boundary in *. destruct (n =? m) eqn:Q; auto. apply Nat.eqb_eq in Q; subst. lia.
  Qed.

  (** The check of a stale claimer is sound: created, and later listed a boundary that is not above its number,
      or its own commit there: then the commit is in history, for ever. *)
  Theorem cas_claim_stands : forall s t u n c,
    files s n = Some c -> steps s t -> steps t u ->
    boundary t <= n \/ (n < boundary t /\ nth_error (bundled t) n = Some c) ->
    history u n = Some c.
  Proof.
    intros s t u n c F S U D. apply (cas_history_stable t u n c U). unfold history. destruct D as [B|[B E]].
    - assert (n <? boundary t = false) as -> by now apply Nat.ltb_ge. eapply file_stays; eauto.
    - assert (n <? boundary t = true) as -> by now apply Nat.ltb_lt. exact E.
  Qed.
End Claims.
