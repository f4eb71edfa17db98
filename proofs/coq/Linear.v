(** The linearized head: what of it is settled, and what a retry does to all of it (rules 1, 2, 6 and 7).

    Head.v says what each rule means for one row or cell. Here: rule 1 as it is stated, both ways; overwrites are
    removals row by row, which is what compaction (Compaction.v) knows of them; the history of what stands is a
    list without choice; whatever stands below all that may still come stands for ever, so a delete that a
    horizon has passed is final, with an idempotency key too. *)

From Coq Require Import NArith Lia List Bool Permutation.
From Crdtcat Require Import Order Semilattice Fmap Clock Lattices State Head.
Import ListNotations.

Section Linear.
  Context {Row Column Value : Type} `{Ordered Value}.
  Variable key_of : version -> option N.
  Variable adds deletes : version -> Row -> bool.
  Variable scope : version -> option (Row -> bool).
  Variable writes : version -> Row -> Column -> option Value.

  Let standing := standing key_of.
  Let alive := alive key_of adds deletes scope.
  Let cell := cell key_of writes.
  Let some_standing := some_standing key_of.

  (** Rule 1, as it is stated: added by a version that stands, not deleted by one, and, if it was born in an
      overwrite, in the scope of no greater one that stands. *)
  Theorem alive_exactly : forall s r,
    alive s r = true <->
    (exists v, standing s v = true /\ adds v r = true /\
       (scope v = None \/
        forall w inside, standing s w = true -> scope w = Some inside -> inside r = true -> ~ lt v w)) /\
    (forall w, standing s w = true -> deletes w r = false).
  Proof.
    intros s r. unfold alive, Head.alive. rewrite andb_true_iff, negb_true_iff, some_standing_spec. split.
    - intros [[v [S P]] D]. apply andb_true_iff in P as [A O]. apply negb_true_iff in O. split.
      + exists v. split; [exact S|]. split; [exact A|]. unfold overwritten in O.
        destruct (scope v) as [mine|] eqn:Sv; [right | now left].
        intros w inside W E I L. apply not_true_iff_false in O. apply O. apply some_standing_spec.
        exists w. split; [exact W|]. unfold replaces. apply ltb_lt in L. now rewrite L, E, I.
      + intros w W. apply not_true_iff_false. intros E. apply not_true_iff_false in D. apply D.
        apply some_standing_spec. eauto.
    - intros [[v [S [A O]]] D]. split.
      + exists v. split; [exact S|]. apply andb_true_iff. split; [exact A|]. apply negb_true_iff.
        unfold overwritten. destruct (scope v) as [mine|] eqn:Sv; [|reflexivity].
        destruct O as [O|O]; [discriminate|]. apply not_true_iff_false. intros E.
        apply some_standing_spec in E as [w [W P]]. unfold replaces in P. apply andb_true_iff in P as [L I].
        destruct (scope w) as [inside|] eqn:Sw; [|discriminate].
        apply (O w inside W Sw I). now apply ltb_lt.
      + apply not_true_iff_false. intros E. apply some_standing_spec in E as [w [W E]].
        rewrite (D w W) in E. discriminate.
  Qed.

  (** A row has one version that added it: row ids are never used twice. Then what takes it away is one version
      or another by itself, its deletes and, if the row was born in an overwrite, its scope. *)
  Definition removes (born : version) (r : Row) (w : version) : bool :=
    deletes w r || match scope born with Some _ => replaces scope born r w | None => false end.

  Theorem overwrites_are_removals : forall s born r,
    (forall u, adds u r = true <-> u = born) ->
    alive s r = standing s born && negb (some_standing s (removes born r)).
  Proof.
    intros s born r One. apply eq_true_iff_eq. rewrite alive_exactly, andb_true_iff, negb_true_iff.
    rewrite <- not_true_iff_false. unfold some_standing. rewrite some_standing_spec. split.
    - intros [[v [S [A O]]] D]. apply One in A. subst v. split; [exact S|]. intros [w [W E]].
      unfold removes in E. apply orb_true_iff in E as [E|E].
      + rewrite (D w W) in E. discriminate.
      + destruct (scope born) as [mine|] eqn:Sb; [|discriminate]. destruct O as [O|O]; [discriminate|].
        unfold replaces in E. apply andb_true_iff in E as [L I].
        destruct (scope w) as [inside|] eqn:Sw; [|discriminate].
        apply (O w inside W Sw I). now apply ltb_lt.
    - intros [S N]. split.
      + exists born. split; [exact S|]. split; [now apply One|].
        destruct (scope born) as [mine|] eqn:Sb; [right | now left].
        intros w inside W E I L. apply N. exists w. split; [exact W|]. unfold removes.
        apply orb_true_iff. right. rewrite Sb. unfold replaces. apply ltb_lt in L. now rewrite L, E, I.
      + intros w W. apply not_true_iff_false. intros E. apply N. exists w. split; [exact W|].
        unfold removes. now rewrite E.
  Qed.

  (** * Rule 7: the history is what stands, in id order *)
  Definition standing_history (s : state) : list version := filter (standing s) (history s).

  Lemma ascending_head : forall l a, ascending (a :: l) -> ascending l /\ forall b, In b l -> lt a b.
  Proof.
    induction l as [|c l IH]; intros a A; [split; [exact I | intros b []]|].
    destruct A as [L A]. destruct (IH c A) as [_ C]. split; [exact A|].
    intros b [<-|J]; [exact L|]. eapply lt_trans; [exact L | now apply C].
  Qed.

  Lemma ascending_cons : forall l a, ascending l -> (forall b, In b l -> lt a b) -> ascending (a :: l).
  Proof. intros [|c l] a A L; simpl; auto. split; [apply L; now left | exact A]. Qed.

  Lemma ascending_filter : forall p l, ascending l -> ascending (filter p l).
  Proof.
    induction l as [|a l IH]; intros A; [exact I|]. destruct (ascending_head l a A) as [B L]. simpl.
    destruct (p a); [|now apply IH]. apply ascending_cons; [now apply IH|].
    intros b J. apply filter_In in J as [J _]. now apply L.
  Qed.

  Lemma ascending_unique : forall l m, ascending l -> ascending m -> (forall v, In v l <-> In v m) -> l = m.
  Proof.
    induction l as [|a l IH]; intros [|b m] Al Am S; auto.
    - exfalso. apply (S b). now left.
    - exfalso. apply (S a). now left.
    - destruct (ascending_head l a Al) as [Bl La]. destruct (ascending_head m b Am) as [Bm Lb].
      assert (a = b) as ->.
      { destruct (proj1 (S a) (or_introl eq_refl)) as [E|J]; auto.
        destruct (proj2 (S b) (or_introl eq_refl)) as [E|K]; auto.
        exfalso. apply (lt_asym a b); auto. }
      f_equal. apply IH; auto. intros v. split; intros J.
      + destruct (proj1 (S v) (or_intror J)) as [->|K]; auto. exfalso. now apply (lt_irrefl v), La.
      + destruct (proj2 (S v) (or_intror J)) as [->|K]; auto. exfalso. now apply (lt_irrefl v), Lb.
  Qed.

  Theorem standing_history_linear : forall s,
    ascending (standing_history s) /\ forall v, In v (standing_history s) <-> standing s v = true.
  Proof.
    intros s. destruct (history_linear s) as [A M]. split; [now apply ascending_filter|].
    intros v. unfold standing_history. rewrite filter_In, M. split; [tauto|]. intros S. split; auto.
    now apply standing_spec in S.
  Qed.

  (** * Rule 6: a retry changes nothing: no row, no cell, no place in history *)
  Lemma cell_ext : forall s t r c, (forall u, standing t u = standing s u) -> cell t r c = cell s r c.
  Proof.
    assert (B : forall s t r c, (forall u, standing t u = standing s u) ->
      below (join_option lww_merge) (cell t r c) (cell s r c)).
    { intros s t r c E. apply join_all_least; [exact option_lww_laws | reflexivity |]. intros a I.
      apply in_map_iff in I as [u [<- _]]. unfold contribution. fold standing. rewrite E.
      destruct (standing s u) eqn:S; [|reflexivity]. apply join_all_upper; [exact option_lww_laws|].
      apply in_map_iff. exists u. unfold contribution. fold standing. rewrite S. split; auto.
      apply mem_members. now apply standing_spec in S. }
    intros s t r c E. apply (below_antisym _ option_lww_laws); apply B; auto.
  Qed.

  Theorem retry_changes_nothing : forall s v w, mem v s -> twin key_of v w = true -> lt v w ->
    let later := state_join s (single w) in
    standing_history later = standing_history s /\
    (forall r, alive later r = alive s r) /\ (forall r c, cell later r c = cell s r c).
  Proof.
    intros s v w M T L later.
    assert (E : forall u, standing later u = standing s u) by (apply (retry_standing key_of s v w); auto).
    split; [|split].
    - destruct (standing_history_linear later) as [A I]. destruct (standing_history_linear s) as [B J].
      apply ascending_unique; auto. intros u. now rewrite I, J, E.
    - intros r. now apply (retry_invisible key_of adds deletes scope s v w).
    - intros r c. now apply cell_ext.
  Qed.

  (** * Counters: sums over what stands *)
  Definition total (count : version -> N) (s : state) : N :=
    fold_right (fun v n => count v + n)%N 0%N (standing_history s).

  Lemma sum_permuted : forall (count : version -> N) l m, Permutation l m ->
    fold_right (fun v n => count v + n)%N 0%N l = fold_right (fun v n => count v + n)%N 0%N m.
  Proof. intros count l m P. induction P; simpl; lia. Qed.

  Lemma ascending_once : forall l, ascending l -> NoDup l.
  Proof.
    induction l as [|a l IH]; intros A; constructor; destruct (ascending_head l a A) as [B L]; auto.
    intros J. now apply (lt_irrefl a), L.
  Qed.

  (** A version with a new key, or none, adds what it counts, whenever it arrives; a retry adds nothing. *)
  Theorem counters_sum_what_stands : forall count s w,
    (~ mem w s -> (forall u, mem u s -> twin key_of w u = false) ->
     total count (state_join s (single w)) = (count w + total count s)%N) /\
    (forall v, mem v s -> twin key_of v w = true -> lt v w ->
     total count (state_join s (single w)) = total count s).
  Proof.
    intros count s w. split.
    - intros Fresh New. set (later := state_join s (single w)).
      assert (Me : forall u, mem u later <-> mem u s \/ u = w).
      { intros u. unfold later, state_join. now rewrite mem_union, mem_single. }
      assert (Sw : standing later w = true).
      { apply standing_spec. split; [apply Me; now right|]. intros u U T L. apply Me in U as [U| ->].
        - rewrite (New u U) in T. discriminate.
        - now apply (lt_irrefl w). }
      assert (Ss : forall u, mem u s -> standing later u = standing s u).
      { intros u U. apply eq_true_iff_eq. unfold standing. rewrite !standing_spec, Me. split.
        - intros [_ F]. split; auto. intros x X. apply F, Me. now left.
        - intros [_ F]. split; auto. intros x X T. apply Me in X as [X| ->]; [now apply F|]. exfalso.
          specialize (New u U). unfold twin in T, New. destruct (key_of u), (key_of w); try discriminate.
          rewrite N.eqb_sym, T in New. discriminate. }
      unfold total. change (count w + fold_right (fun v n => count v + n) 0 (standing_history s))%N
        with (fold_right (fun v n => count v + n)%N 0%N (w :: standing_history s)).
      apply sum_permuted.
      destruct (standing_history_linear later) as [A I]. destruct (standing_history_linear s) as [B J].
      apply NoDup_Permutation.
      + now apply ascending_once.
      + constructor; [|now apply ascending_once]. intros K. apply J, standing_spec in K as [K _]. auto.
      + intros u. rewrite I. simpl. rewrite J. split.
        * intros S. pose proof S as S'. apply standing_spec in S' as [M _]. apply Me in M as [M| ->]; auto.
          right. now rewrite <- (Ss u M).
        * intros [<-|S]; auto. pose proof S as S'. apply standing_spec in S' as [M _]. now rewrite (Ss u M).
    - intros v M T L. unfold total. destruct (retry_changes_nothing s v w M T L) as [E _]. now rewrite E.
  Qed.

  (** * What is settled: nothing smaller comes any more, as below a horizon (Horizon.v) *)
  Theorem standing_settled : forall s later v, standing s v = true ->
    (forall u, mem u later -> ~ lt u v) -> standing (state_join s later) v = true.
  Proof.
    intros s later v S Late. apply standing_spec in S as [M F]. apply standing_spec.
    split; [apply mem_union; now left|]. intros u U T L. apply mem_union in U as [U|U].
    - exact (F u U T L).
    - exact (Late u U L).
  Qed.

  Theorem settled_delete_is_final : forall s later w r,
    standing s w = true -> deletes w r = true -> (forall u, mem u later -> ~ lt u w) ->
    alive (state_join s later) r = false.
  Proof.
    intros s later w r S D Late. apply (no_resurrection key_of adds deletes scope s later w); auto.
    now apply standing_settled.
  Qed.
End Linear.
