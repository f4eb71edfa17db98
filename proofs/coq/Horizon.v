(** Expiry: versions below a horizon are folded into a base (expiry): `crdtcat.maintenance`.

    A base is a horizon and an explicit set of admitted versions. A version below the horizon that was not
    admitted is dead as a whole. Bases of racing expirers join: the greater horizon, the union of what either
    admitted (letting the greatest base alone rule loses acknowledged versions: tla/Horizon.tla has the
    counterexample). Which versions a base must admit is a matter of protocol, proved by that model. *)

From Coq Require Import NArith List Bool.
From Crdtcat Require Import Order Semilattice Fmap Clock Lattices State.
Import ListNotations.

Section Horizon.
  Definition base : Type := (version_id * fset version)%type.
  Definition admitted (b : base) : fset version := snd b.
  Definition base_join : base -> base -> base := product_merge max union.

  Definition old (h : version_id) (v : version) : bool := ltb (fst v) h.

  Definition view (b : base) (s : state) : state :=
    union (admitted b) (filter_set (fun v => negb (old (fst b) v)) s).

  Lemma mem_view : forall b s v,
    mem v (view b s) <-> mem v (admitted b) \/ (mem v s /\ old (fst b) v = false).
  Proof. intros. unfold view. rewrite mem_union, mem_filter, negb_true_iff. tauto. Qed.

  (** A base honestly made from a state admits exactly what it found below its horizon. *)
  Definition made_from (b : base) (s : state) : Prop :=
    forall v, mem v (admitted b) <-> mem v s /\ old (fst b) v = true.

  (** Folding changes nothing: while the folded files are deleted one by one, and after, the view is the
      state the base was made from. *)
  Theorem expire_invisible : forall b s left, made_from b s -> subset left s ->
    (forall v, mem v s -> mem v (admitted b) \/ mem v left) -> view b left = s.
  Proof.
    intros b s left Made Sub Cover. apply fset_ext. intros v. rewrite mem_view. split.
    - intros [A|[L _]]; [now apply Made in A | now apply Sub].
    - intros M. destruct (old (fst b) v) eqn:O.
      + left. apply Made. now split.
      + right. split; auto. destruct (Cover v M) as [A|L]; auto.
        apply Made in A as [_ A]. congruence.
  Qed.

  (** A version below the horizon that was not admitted is dead: no reader of the base sees any of it. *)
  Theorem below_horizon_dead : forall b s v,
    old (fst b) v = true -> ~ mem v (admitted b) -> view b (state_join s (single v)) = view b s.
  Proof.
    intros b s v O N. apply fset_ext. intros w. rewrite !mem_view. unfold state_join.
    rewrite mem_union, mem_single. split; [|tauto].
    intros [A|[[M| ->] F]]; [now left | right; now split | congruence].
  Qed.

  (** What arrives above the horizon is seen as if there had been no expiry. *)
  Theorem above_horizon_seen : forall b s later, made_from b s ->
    (forall v, mem v later -> old (fst b) v = false) ->
    view b (state_join s later) = state_join s later.
  Proof.
    intros b s later Made New. apply fset_ext. intros v. rewrite mem_view. unfold state_join.
    rewrite mem_union. split.
    - intros [A|[M _]]; auto. apply Made in A. tauto.
    - intros [M|M]; [destruct (old (fst b) v) eqn:O|].
      + left. apply Made. now split.
      + right. tauto.
      + right. split; auto.
  Qed.

  (** Expiring again on top of a base reads as the first one did. *)
  Theorem expire_again : forall b b' s, made_from b' (view b s) -> view b' (view b s) = view b s.
  Proof.
    intros b b' s Made. apply expire_invisible; auto. now intros v.
  Qed.

  (** What one expirer admitted no other can make dead. *)
  Theorem admitted_stays : forall b b' s v, mem v (admitted b) -> mem v (view (base_join b b') s).
  Proof. intros b b' s v M. apply mem_view. left. apply mem_union. now left. Qed.

  (** Readers that hold the same versions and the same bases see the same, in whatever order they came. *)
  Definition log : Type := (state * base)%type.
  Definition no_base : base := ((0, 0, 0, 0)%N, none).
  Definition log_join : log -> log -> log := product_merge union base_join.

  Theorem log_join_semilattice : is_semilattice log_join.
  Proof.
    apply product_merge_semilattice; [apply union_semilattice|].
    apply product_merge_semilattice; [apply max_semilattice | apply union_semilattice].
  Qed.

  Definition read (l : log) : state := view (snd l) (fst l).

  Lemma least_id : forall i : version_id, max (0, 0, 0, 0)%N i = i.
  Proof.
    intros [[[h w] n] d]. unfold max, cmp; simpl. unfold lexicographic.
    destruct h, w, n, d; reflexivity.
  Qed.

  Theorem horizon_convergence : forall (t u : merge_tree (A := log)),
    (forall f, In f (leaves t) <-> In f (leaves u)) ->
    read (eval log_join (none, no_base) t) = read (eval log_join (none, no_base) u).
  Proof.
    intros t u S. f_equal. apply eval_same_leaves; auto; [apply log_join_semilattice|].
    intros [s [h a]]. unfold log_join, base_join, product_merge, no_base.
    cbn [fst snd]. now rewrite !union_none, least_id.
  Qed.

  (** Without a base a reader sees the state itself. *)
  Theorem no_base_invisible : forall s, read (s, no_base) = s.
  Proof.
    intros s. apply fset_ext. intros v. unfold read. rewrite mem_view. cbn [fst snd admitted no_base].
    assert (O : old (0, 0, 0, 0)%N v = false).
    { unfold old. destruct (ltb (fst v) (0, 0, 0, 0)%N) eqn:E; auto. exfalso.
      apply ltb_lt in E. apply (lt_asym _ _ E). pose proof (least_id (fst v)) as M.
      destruct (max_cases (0, 0, 0, 0)%N (fst v)) as [[L _]|[_ F]]; auto.
      rewrite F in M. rewrite <- M in E. now apply lt_irrefl in E. }
    split; [intros [A|[M _]]; [now apply mem_none in A | auto] | tauto].
  Qed.

  (** The base may keep the folded join instead of the versions: for anything that is a join over versions
      (registers, counters, sets), the base's part joined with the rest is the join over all. *)
  Theorem base_folds : forall (L : Type) (join : L -> L -> L) (bottom : L) (part : version -> L) b s,
    is_semilattice join -> (forall a, join bottom a = a) -> made_from b s ->
    join (join_all join bottom (map part (members (admitted b))))
         (join_all join bottom (map part (members (filter_set (fun v => negb (old (fst b) v)) s))))
    = join_all join bottom (map part (members s)).
  Proof.
    intros L join bottom part b s laws Bot Made. rewrite <- join_all_app, <- map_app by auto.
    apply join_all_same_set; auto. intros a. rewrite !in_map_iff.
    assert (E : forall v, In v (members (admitted b) ++
                 members (filter_set (fun v => negb (old (fst b) v)) s)) <-> In v (members s)).
    { intros v. rewrite in_app_iff, <- !mem_members, mem_filter, negb_true_iff, (Made v).
      destruct (old (fst b) v); intuition congruence. }
    split; intros [v [P I]]; exists v; split; auto; now apply E.
  Qed.
End Horizon.
