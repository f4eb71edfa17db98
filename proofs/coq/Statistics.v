(** Statistics of columns: what is known of several runs of rows together, from what is known of each.

    Of a run of rows with values a bound may be known or not, on each side; runs without values have none. Bounds join
    as a lattice: nothing is below everything, unknown above everything. Null counts add up, so statistics
    themselves may be grouped and ordered as one likes, but not taken twice. Bounds that hold of each run hold of all
    rows together, which is what pruning takes for granted (Pruning.v), and are no wider than those of the runs. *)

From Coq Require Import NArith List Bool Lia Permutation.
From Crdtcat Require Import Order Semilattice Lattices.
Import ListNotations.
Local Open Scope N_scope.

Section Statistics.
  Context {Value : Type} `{Ordered Value}.

  Definition min (a b : Value) : Value := match cmp a b with Lt => a | _ => b end.
  Definition at_most (a b : Value) : Prop := cmp a b <> Gt.

  Let flipped : Ordered Value.
  Proof.
    refine {| cmp := fun a b => cmp b a |}.
    - intros a b E. symmetry. now apply cmp_eq.
    - exact cmp_refl.
    - intros a b. apply cmp_opp.
    - intros a b c E F. eapply cmp_trans; eauto.
  Defined.

  Lemma min_flipped : forall a b, min a b = @max Value flipped a b.
  Proof.
    intros a b. unfold min, max; simpl. rewrite (cmp_opp a b).
    destruct (cmp a b) eqn:E; simpl; auto. now apply cmp_eq in E.
  Qed.

  Lemma min_semilattice : is_semilattice min.
  Proof.
    repeat split; intros; rewrite !min_flipped;
      [apply (@max_assoc Value flipped) | apply (@max_comm Value flipped) | apply (@max_idem Value flipped)].
  Qed.

  Lemma at_most_refl : forall a, at_most a a.
  Proof. intros a. unfold at_most. now rewrite cmp_refl. Qed.

  Lemma at_most_trans : forall a b c, at_most a b -> at_most b c -> at_most a c.
  Proof.
    unfold at_most. intros a b c L M G. apply gt_lt in G.
    destruct (lt_total a b) as [A|[->|A]].
    - apply M. rewrite cmp_opp. assert (lt c b) as -> by (eapply lt_trans; eauto). reflexivity.
    - apply M. now rewrite cmp_opp, G.
    - apply L. now rewrite cmp_opp, A.
  Qed.

  Lemma min_at_most : forall a b, at_most (min a b) a /\ at_most (min a b) b.
  Proof.
    intros a b. unfold min, at_most. destruct (cmp a b) eqn:E; split; rewrite ?cmp_refl, ?E; try discriminate;
      rewrite cmp_opp, E; discriminate.
  Qed.

  Lemma max_at_least : forall a b, at_most a (max a b) /\ at_most b (max a b).
  Proof.
    intros a b. unfold max, at_most. destruct (cmp a b) eqn:E; split; rewrite ?cmp_refl, ?E; try discriminate;
      rewrite cmp_opp, E; discriminate.
  Qed.

  (** * Bounds: one side, both sides, and none where there are no values *)
  Definition widest (f : Value -> Value -> Value) (a b : option Value) : option Value :=
    match a, b with Some x, Some y => Some (f x y) | _, _ => None end.

  Lemma widest_semilattice : forall f, is_semilattice f -> is_semilattice (widest f).
  Proof.
    intros f [A [C I]]. repeat split.
    - intros [a|] [b|] [c|]; simpl; auto. now rewrite A.
    - intros [a|] [b|]; simpl; auto. now rewrite C.
    - intros [a|]; simpl; auto. now rewrite I.
  Qed.

  Definition bounds : Type := (option Value * option Value)%type.
  Definition both : bounds -> bounds -> bounds := product_merge (widest min) (widest max).
  Definition bounds_merge : option bounds -> option bounds -> option bounds := join_option both.

  Theorem bounds_merge_semilattice : is_semilattice bounds_merge.
  Proof.
    apply join_option_semilattice, product_merge_semilattice; apply widest_semilattice.
    - apply min_semilattice.
    - apply max_semilattice.
  Qed.

  Definition within (b : option bounds) (v : Value) : Prop :=
    match b with
    | None => False
    | Some (low, high) =>
        match low with Some l => at_most l v | None => True end /\
        match high with Some h => at_most v h | None => True end
    end.

  Lemma within_merge_left : forall a b v, within a v -> within (bounds_merge a b) v.
  Proof.
    intros [[l h]|] [[m i]|] v; simpl; try tauto. intros [L U].
    split; [destruct l as [l|], m as [m|] | destruct h as [h|], i as [i|]]; simpl; auto.
    - eapply at_most_trans; [apply (proj1 (min_at_most l m)) | exact L].
    - eapply at_most_trans; [exact U | apply (proj1 (max_at_least h i))].
  Qed.

  Lemma within_merge : forall a b v, within a v \/ within b v -> within (bounds_merge a b) v.
  Proof.
    intros a b v [W|W]; [now apply within_merge_left|].
    rewrite (proj1 (proj2 bounds_merge_semilattice)). now apply within_merge_left.
  Qed.

  (** * Statistics, each with how many rows it is of *)
  Record statistics : Type := { least : option Value; greatest : option Value; nulls : N }.
  Definition part : Type := (statistics * N)%type.

  Definition bounds_of (p : part) : option bounds :=
    if nulls (fst p) <? snd p then Some (least (fst p), greatest (fst p)) else None.

  Definition total (f : part -> N) (l : list part) : N := fold_right N.add 0 (map f l).
  Definition rows : list part -> N := total snd.
  Definition no_values : list part -> N := total (fun p => nulls (fst p)).
  Definition all_bounds (l : list part) : option bounds := join_all bounds_merge None (map bounds_of l).

  Definition statistics_merge (l : list part) : statistics :=
    match all_bounds l with
    | None => {| least := None; greatest := None; nulls := no_values l |}
    | Some (low, high) => {| least := low; greatest := high; nulls := no_values l |}
    end.

  Definition merged (l : list part) : part := (statistics_merge l, rows l).

  Definition sane (p : part) : Prop := nulls (fst p) <= snd p.

  Lemma nulls_merge : forall l, nulls (statistics_merge l) = no_values l.
  Proof. intros l. unfold statistics_merge. destruct (all_bounds l) as [[low high]|]; reflexivity. Qed.

  Lemma sane_merge : forall l, Forall sane l -> sane (merged l).
  Proof.
    intros l S. unfold sane, merged; simpl. rewrite nulls_merge. unfold no_values, rows, total.
    induction S as [|p l L _ IH]; simpl; [lia|]. unfold sane in L. lia.
  Qed.

  (** Rows with values are known by their count alone: nothing is known exactly where all are null. *)
  Lemma bounds_merged : forall l, Forall sane l -> bounds_of (merged l) = all_bounds l.
  Proof.
    assert (Z : forall l, Forall sane l -> (all_bounds l = None <-> rows l <= no_values l)).
    { induction 1 as [|p l L S IH]; [cbn; split; [lia | reflexivity]|].
      pose proof (sane_merge l S) as M. unfold sane, merged in M; cbn [fst snd] in M. rewrite nulls_merge in M.
      unfold all_bounds, rows, no_values, total in *; simpl. unfold sane in L. unfold bounds_of at 1.
      destruct (nulls (fst p) <? snd p) eqn:E.
      - apply N.ltb_lt in E. split; [|lia]. unfold bounds_merge at 1, join_option at 1.
        destruct (join_all bounds_merge None (map bounds_of l)); discriminate.
      - apply N.ltb_ge in E. unfold bounds_merge at 1, join_option at 1. rewrite IH. lia. }
    intros l S. specialize (Z l S). unfold bounds_of, merged; simpl. rewrite nulls_merge.
    destruct (no_values l <? rows l) eqn:E.
    - apply N.ltb_lt in E. unfold statistics_merge. destruct (all_bounds l) as [[low high]|]; [reflexivity|].
      exfalso. destruct Z as [Z _]. specialize (Z eq_refl). lia.
    - apply N.ltb_ge in E. symmetry. now apply Z.
  Qed.

  Lemma all_bounds_app : forall l m, all_bounds (l ++ m) = bounds_merge (all_bounds l) (all_bounds m).
  Proof.
    intros l m. unfold all_bounds. rewrite map_app. apply join_all_app; [exact bounds_merge_semilattice | reflexivity].
  Qed.

  Lemma total_app : forall f l m, total f (l ++ m) = total f l + total f m.
  Proof. intros f l m. unfold total. induction l as [|p l IH]; simpl; [reflexivity|]. rewrite IH. lia. Qed.

  Lemma merge_by : forall l m,
    all_bounds l = all_bounds m -> no_values l = no_values m -> statistics_merge l = statistics_merge m.
  Proof. intros l m B N. unfold statistics_merge. now rewrite B, N. Qed.

  (** Grouped in any way, also again and again: what was merged before is a run of rows like any other. *)
  Theorem statistics_merge_grouping : forall l m, Forall sane l -> Forall sane m ->
    merged (l ++ m) = merged [merged l; merged m].
  Proof.
    intros l m L M. unfold merged at 1 2. f_equal.
    - apply merge_by.
      + rewrite all_bounds_app. unfold all_bounds at 3; simpl. rewrite !bounds_merged by assumption.
        rewrite (proj1 (proj2 bounds_merge_semilattice) (all_bounds m) None). reflexivity.
      + unfold no_values. rewrite total_app. unfold total at 3; simpl. rewrite !nulls_merge. unfold no_values. lia.
    - unfold rows. rewrite total_app. unfold total at 3; simpl. unfold rows. lia.
  Qed.

  (** In any order. *)
  Theorem statistics_merge_order : forall l m, Permutation l m -> merged l = merged m.
  Proof.
    assert (T : forall f l m, Permutation l m -> total f l = total f m).
    { intros f l m P. unfold total. induction P; simpl; lia. }
    intros l m P. unfold merged. f_equal; [|now apply T]. apply merge_by; [|now apply T].
    unfold all_bounds. apply join_all_same_set; [exact bounds_merge_semilattice | reflexivity |].
    intros a. split; intros I; (eapply Permutation_in; [|exact I]); apply Permutation_map; auto using Permutation_sym.
  Qed.

  (** * What statistics mean *)
  Definition null_count (values : list (option Value)) : N :=
    N.of_nat (length (filter (fun v => match v with None => true | Some _ => false end) values)).

  Definition describes (p : part) (values : list (option Value)) : Prop :=
    snd p = N.of_nat (length values) /\ nulls (fst p) = null_count values /\
    forall v, In (Some v) values -> within (bounds_of p) v.

  Lemma null_count_app : forall l m, null_count (l ++ m) = null_count l + null_count m.
  Proof. intros l m. unfold null_count. rewrite filter_app, app_length. lia. Qed.

  Lemma describes_sane : forall p values, describes p values -> sane p.
  Proof.
    intros p values [R [N _]]. unfold sane. rewrite R, N. unfold null_count. clear.
    assert (L : forall f : option Value -> bool, (length (filter f values) <= length values)%nat).
    { intros f. induction values as [|v values IH]; simpl; auto. destruct (f v); simpl; lia. }
    specialize (L (fun v => match v with None => true | Some _ => false end)). lia.
  Qed.

  (** Of each run, then of all rows together: the counts are right, and no value is out of bounds. *)
  Theorem statistics_merge_sound : forall l chunks,
    Forall2 describes l chunks -> describes (merged l) (concat chunks).
  Proof.
    intros l chunks D.
    assert (S : Forall sane l).
    { induction D as [|p c l chunks P _ IH]; constructor; auto. now apply (describes_sane p c). }
    unfold describes. rewrite bounds_merged by exact S. unfold merged; cbn [fst snd]. rewrite nulls_merge. clear S.
    induction D as [|p c l chunks [R [N W]] _ [IHr [IHn IHw]]]; [cbn; intuition|].
    unfold rows, no_values, total in *; simpl. rewrite app_length, null_count_app. repeat split; try lia.
    intros v I. unfold all_bounds; simpl. apply within_merge. apply in_app_or in I as [I|I]; auto.
  Qed.

  (** No wider than needed: a bound that is known is that of one of the runs with values. *)
  Theorem statistics_merge_tight : forall l low high, all_bounds l = Some (low, high) ->
    (forall v, low = Some v -> exists p, In p l /\ nulls (fst p) < snd p /\ least (fst p) = Some v) /\
    (forall v, high = Some v -> exists p, In p l /\ nulls (fst p) < snd p /\ greatest (fst p) = Some v).
  Proof.
    induction l as [|p l IH]; intros low high E; [discriminate|].
    unfold all_bounds in E; simpl in E. fold (all_bounds l) in E. unfold bounds_of in E.
    destruct (nulls (fst p) <? snd p) eqn:V.
    - apply N.ltb_lt in V. unfold bounds_merge, join_option in E.
      destruct (all_bounds l) as [[low' high']|] eqn:B.
      + destruct (IH _ _ eq_refl) as [Lo Hi]. injection E as <- <-.
        split; intros v Q.
        * destruct (least (fst p)) as [x|] eqn:X, low' as [y|]; try discriminate. simpl in Q. unfold min in Q.
          destruct (cmp x y); injection Q as <-; try (exists p; cbn; now auto);
            destruct (Lo y eq_refl) as [q [I R]]; exists q; cbn; auto.
        * destruct (greatest (fst p)) as [x|] eqn:X, high' as [y|]; try discriminate. simpl in Q. unfold max in Q.
          destruct (cmp x y); injection Q as <-; try (exists p; cbn; now auto);
            destruct (Hi y eq_refl) as [q [I R]]; exists q; cbn; auto.
      + injection E as <- <-. split; intros v Q; exists p; cbn; auto.
    - simpl in E. destruct (IH _ _ E) as [Lo Hi].
      split; intros v Q; [destruct (Lo v Q) as [q [I R]] | destruct (Hi v Q) as [q [I R]]]; exists q; cbn; auto.
  Qed.
End Statistics.
