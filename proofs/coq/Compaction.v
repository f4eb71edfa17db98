(** Compaction is invisible (rule 4): `crdtcat.maintenance`, `crdtcat.head`.

    A *source* is an entry or an overlay: for each row it may contribute a value of a lattice (the row's
    cells, each an LWW register, so the stamps are kept). A compaction is a source too. It saw some of the
    state, replaces sources of it row by row, and writes for every row it saw undeleted the join of what it
    replaces. It may run beside updates, deletes and other compactions it has not seen.

    The value of a row is the join of what is not replaced. [compaction_invisible]: in every state that holds
    what its compactions saw, that is the join of the original sources, as if nothing had been compacted. *)

From Coq Require Import List Bool Lia Arith.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.

Section Compaction.
  Context {Source Row L : Type} `{Ordered Source} (join : L -> L -> L) (laws : is_semilattice join).
  Variable contributes : Source -> Row -> option L.
  Variable removes : Source -> Row -> bool.
  Variable is_compaction : Source -> bool.
  Variable replaces : Source -> Source -> Row -> bool.
  Variable saw : Source -> fset Source.

  Let join_opt := join_option join.
  Definition all (l : list (option L)) : option L := join_all join_opt None l.

  Lemma opt_laws : is_semilattice join_opt.
  Proof. apply join_option_semilattice, laws. Qed.

  Lemma opt_bottom : forall a, join_opt None a = a.
  Proof. reflexivity. Qed.

  Definition deleted (s : fset Source) (r : Row) : bool := existsb (fun x => removes x r) (members s).
  Definition replaced (s : fset Source) (r : Row) (x : Source) : bool :=
    existsb (fun c => replaces c x r) (members s).

  (** What a compaction promises: it replaces only what it saw, all of which is older; for a row it saw
      undeleted it writes the join of what it replaces; it removes nothing by itself. *)
  Definition honest (c : Source) : Prop :=
    (forall x, mem x (saw c) -> lt x c) /\
    (forall x r, replaces c x r = true -> mem x (saw c)) /\
    (forall r, deleted (saw c) r = false ->
       contributes c r = all (map (fun x => contributes x r)
                               (filter (fun x => replaces c x r) (members (saw c))))) /\
    (forall r, removes c r = false).

  (** A state a reader may show: what its compactions saw is there too (clocks have no gap), and only
      compactions replace. *)
  Definition closed (s : fset Source) : Prop :=
    (forall c, mem c s -> is_compaction c = true -> honest c /\ subset (saw c) s) /\
    (forall c x r, is_compaction c = false -> replaces c x r = false).

  Definition value (s : fset Source) (r : Row) : option L :=
    if deleted s r then None
    else all (map (fun x => contributes x r) (filter (fun x => negb (replaced s r x)) (members s))).

  Definition plain_value (s : fset Source) (r : Row) : option L :=
    if deleted s r then None
    else all (map (fun x => contributes x r) (filter (fun x => negb (is_compaction x)) (members s))).

  Lemma deleted_spec : forall s r, deleted s r = true <-> exists x, mem x s /\ removes x r = true.
  Proof.
    intros s r. unfold deleted. rewrite existsb_exists. split; intros [x [I R]]; exists x;
      split; auto; now apply mem_members.
  Qed.

  Lemma filter_le : forall (p q : Source -> bool) l, (forall x, p x = true -> q x = true) ->
    length (filter p l) <= length (filter q l).
  Proof.
    intros p q l S. induction l as [|x l IH]; simpl; auto. destruct (p x) eqn:P.
    - rewrite (S x P). simpl. lia.
    - destruct (q x); simpl; lia.
  Qed.

  Lemma filter_lt : forall (p q : Source -> bool) l y, (forall x, p x = true -> q x = true) ->
    In y l -> p y = false -> q y = true -> length (filter p l) < length (filter q l).
  Proof.
    intros p q l y S. induction l as [|x l IH]; simpl; [tauto|]. intros [->|I] P Q.
    - rewrite P, Q. simpl. pose proof (filter_le p q l S). lia.
    - specialize (IH I P Q). destruct (p x) eqn:Px.
      + rewrite (S x Px). simpl. lia.
      + destruct (q x); simpl; lia.
  Qed.

  (** Induction downwards and upwards over the finite set of sources. *)
  Lemma older_first : forall (s : fset Source) (P : Source -> Prop),
    (forall x, mem x s -> (forall y, mem y s -> lt y x -> P y) -> P x) -> forall x, mem x s -> P x.
  Proof.
    intros s P IH x. remember (length (filter (fun y => ltb y x) (members s))) as n eqn:E.
    revert x E. induction n as [n Rec] using lt_wf_ind. intros x E M. apply IH; auto. intros y My Ly.
    apply (Rec (length (filter (fun z => ltb z y) (members s)))); auto. subst n.
    apply filter_lt with (y := y); [| now apply mem_members | |].
    - intros z Z. apply ltb_lt in Z. apply ltb_lt. eapply lt_trans; eauto.
    - destruct (ltb y y) eqn:F; auto. apply ltb_lt in F. now apply lt_irrefl in F.
    - now apply ltb_lt.
  Qed.

  Lemma newer_first : forall (s : fset Source) (P : Source -> Prop),
    (forall x, mem x s -> (forall y, mem y s -> lt x y -> P y) -> P x) -> forall x, mem x s -> P x.
  Proof.
    intros s P IH x. remember (length (filter (fun y => ltb x y) (members s))) as n eqn:E.
    revert x E. induction n as [n Rec] using lt_wf_ind. intros x E M. apply IH; auto. intros y My Ly.
    apply (Rec (length (filter (fun z => ltb y z) (members s)))); auto. subst n.
    apply filter_lt with (y := y); [| now apply mem_members | |].
    - intros z Z. apply ltb_lt in Z. apply ltb_lt. eapply lt_trans; eauto.
    - destruct (ltb y y) eqn:F; auto. apply ltb_lt in F. now apply lt_irrefl in F.
    - now apply ltb_lt.
  Qed.

  Lemma upper : forall p s r x, mem x s -> p x = true ->
    below join_opt (contributes x r) (all (map (fun y => contributes y r) (filter p (members s)))).
  Proof.
    intros p s r x M P. apply join_all_upper; [exact opt_laws|]. apply in_map_iff. exists x.
    split; auto. apply filter_In. split; auto. now apply mem_members.
  Qed.

  Lemma lowest : forall p s r b, (forall x, mem x s -> p x = true -> below join_opt (contributes x r) b) ->
    below join_opt (all (map (fun y => contributes y r) (filter p (members s)))) b.
  Proof.
    intros p s r b U. apply join_all_least; [exact opt_laws | exact opt_bottom |].
    intros a I. apply in_map_iff in I as [x [<- I]]. apply filter_In in I as [I P].
    apply U; auto. now apply mem_members.
  Qed.

  Lemma value_plain : forall s r, closed s -> value s r = plain_value s r.
  Proof.
    intros s r [C O]. unfold value, plain_value. destruct (deleted s r) eqn:D; auto.
    assert (Und : forall c, mem c s -> is_compaction c = true -> deleted (saw c) r = false).
    { intros c M K. destruct (deleted (saw c) r) eqn:F; auto. apply deleted_spec in F as [x [X R]].
      assert (deleted s r = true) by (apply deleted_spec; exists x; split; auto; now apply (C c M K)).
      congruence. }
    apply (below_antisym join_opt opt_laws); apply lowest.
    - intros x M _. revert x M. apply older_first. intros x M Older.
      destruct (is_compaction x) eqn:K.
      + destruct (C x M K) as [[Old [_ [Join _]]] Sub]. rewrite (Join r (Und x M K)).
        apply lowest. intros y Y _. apply Older; auto.
      + apply upper; auto. now rewrite K.
    - intros x M _. revert x M. apply newer_first. intros x M Newer.
      destruct (replaced s r x) eqn:E.
      + apply existsb_exists in E as [c [Ic Rc]]. apply mem_members in Ic.
        destruct (is_compaction c) eqn:K; [|now rewrite (O c x r K) in Rc].
        destruct (C c Ic K) as [[Old [Saw [Join _]]] Sub]. pose proof (Saw x r Rc) as Sx.
        apply (below_trans join_opt opt_laws) with (contributes c r); [|apply Newer; auto].
        rewrite (Join r (Und c Ic K)). apply upper; auto.
      + apply upper; auto. now rewrite E.
  Qed.

  (** Two states with the same original sources give every row the same value, whatever compactions either
      holds: none, one, several racing over the same chunks, compactions of compactions. *)
  Theorem compaction_invisible : forall s t r, closed s -> closed t ->
    (forall x, is_compaction x = false -> (mem x s <-> mem x t)) -> value s r = value t r.
  Proof.
    intros s t r Cs Ct Same. rewrite !value_plain by auto. unfold plain_value.
    assert (D : deleted s r = deleted t r).
    { apply eq_true_iff_eq. rewrite !deleted_spec. split; intros [x [M R]]; exists x; split; auto.
      - apply (Same x); auto. destruct (is_compaction x) eqn:K; auto.
        destruct Cs as [Cs _]. destruct (Cs x M K) as [[_ [_ [_ N]]] _]. now rewrite N in R.
      - apply (Same x); auto. destruct (is_compaction x) eqn:K; auto.
        destruct Ct as [Ct _]. destruct (Ct x M K) as [[_ [_ [_ N]]] _]. now rewrite N in R. }
    rewrite D. destruct (deleted t r); auto.
    apply (below_antisym join_opt opt_laws); apply lowest; intros x M P; apply upper; auto;
      apply (Same x); auto; now apply negb_true_iff.
  Qed.
End Compaction.
