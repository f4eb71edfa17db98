(** Keyed tables: per (key, column) a last-writer-wins cell, and per key the greatest delete.

    A cell counts unless its stamp is below the key's delete; a row is there if one of its cells counts. Folding
    upserts and deletes is a join, so order, grouping and repetition do not matter, and a compaction, which
    writes the join of what it replaces, changes nothing, whether what it replaces is still read or not. *)

From Coq Require Import List Bool.
From Crdtcat Require Import Order Semilattice Fmap Lattices.
Import ListNotations.

Section Keyed.
  Context {Key Column Stamp Value : Type}
    `{Ordered Key} `{Ordered Column} `{Ordered Stamp} `{Ordered Value}.

  Definition keyed : Type := (fmap (Key * Column) (lww (S := Stamp) (V := Value)) * fmap Key Stamp)%type.
  Definition keyed_merge : keyed -> keyed -> keyed := product_merge (merge lww_merge) (merge max).
  Definition nothing : keyed := (empty, empty).

  Theorem keyed_merge_semilattice : is_semilattice keyed_merge.
  Proof.
    apply product_merge_semilattice; apply map_merge_semilattice;
      [apply lww_merge_semilattice | apply max_semilattice].
  Qed.

  Lemma nothing_least : forall t, keyed_merge nothing t = t.
  Proof. intros [a b]. unfold keyed_merge, product_merge; simpl. now rewrite !merge_empty. Qed.

  Definition cell (t : keyed) (k : Key) (c : Column) : option (Stamp * Value) := find (k, c) (fst t).
  Definition delete_of (t : keyed) (k : Key) : option Stamp := find k (snd t).

  Definition above_delete (s : Stamp) (d : option Stamp) : bool :=
    match d with Some x => negb (ltb s x) | None => true end.

  (** What a reader sees: the greatest stamp first, and only then whether it counts. *)
  Definition read (t : keyed) (k : Key) (c : Column) : option Value :=
    match cell t k c with
    | Some (s, v) => if above_delete s (delete_of t k) then Some v else None
    | None => None
    end.

  (** Any order, any grouping, any repetition of the same deltas: the same table. *)
  Theorem keyed_convergence : forall t u : merge_tree (A := keyed),
    (forall d, In d (leaves t) <-> In d (leaves u)) ->
    eval keyed_merge nothing t = eval keyed_merge nothing u.
  Proof. apply eval_same_leaves; [exact keyed_merge_semilattice | exact nothing_least]. Qed.

  (** A compaction is the join of what it folded. With or without the originals beside it, and beside deltas
      that it has not seen, the table is the same. *)
  Theorem keyed_compaction_invisible : forall folded unseen,
    let all := join_all keyed_merge nothing in
    all (all folded :: unseen) = all (folded ++ unseen) /\
    all (all folded :: folded ++ unseen) = all (folded ++ unseen).
  Proof.
    intros folded unseen all. unfold all.
    assert (E : join_all keyed_merge nothing (folded ++ unseen) =
                keyed_merge (join_all keyed_merge nothing folded) (join_all keyed_merge nothing unseen))
      by (apply join_all_app; [exact keyed_merge_semilattice | exact nothing_least]).
    destruct keyed_merge_semilattice as [A [C I]]. split.
    - now rewrite E.
    - change (keyed_merge (join_all keyed_merge nothing folded)
                (join_all keyed_merge nothing (folded ++ unseen)) =
              join_all keyed_merge nothing (folded ++ unseen)).
      now rewrite E, A, I.
  Qed.

  Lemma max_not_below : forall a b : Stamp, ~ lt (max a b) b.
  Proof.
    intros a b L. destruct (max_cases a b) as [[_ E]|[N E]]; rewrite E in L; [now apply lt_irrefl in L | auto].
  Qed.

  Lemma delete_merge : forall t u k d, delete_of t k = Some d ->
    exists e, delete_of (keyed_merge t u) k = Some e /\ ~ lt e d.
  Proof.
    intros t u k d D. unfold delete_of, keyed_merge, product_merge in *; cbn [fst snd].
    rewrite find_merge, D. cbn [join_option].
    destruct (find k (snd u)) as [x|].
    - exists (max d x). split; auto. rewrite max_comm. apply max_not_below.
    - exists d. split; auto. apply lt_irrefl.
  Qed.

  (** A delete hides what is below it, in every later merge whose cell of that key and column is below it. *)
  Theorem keyed_delete_hides : forall t u k c d,
    delete_of t k = Some d ->
    (forall s v, cell (keyed_merge t u) k c = Some (s, v) -> lt s d) ->
    read (keyed_merge t u) k c = None.
  Proof.
    intros t u k c d D Low. unfold read. destruct (cell (keyed_merge t u) k c) as [[s v]|] eqn:C; auto.
    destruct (delete_merge t u k d D) as [e [E N]]. rewrite E. simpl.
    assert (ltb s e = true) as ->; auto. apply ltb_lt. specialize (Low s v eq_refl).
    destruct (lt_total d e) as [L|[->|L]]; auto; [eapply lt_trans; eauto | contradiction].
  Qed.

  (** An upsert that no delete is above is read, or a greater one is. *)
  Theorem keyed_upsert_holds : forall t u k c s v,
    cell t k c = Some (s, v) ->
    (forall d, delete_of (keyed_merge t u) k = Some d -> ~ lt s d) ->
    exists s' v', cell (keyed_merge t u) k c = Some (s', v') /\
      ~ lt s' s /\ read (keyed_merge t u) k c = Some v'.
  Proof.
    intros t u k c s v C High.
    assert (G : exists s' v', cell (keyed_merge t u) k c = Some (s', v') /\ ~ lt s' s).
    { unfold cell, keyed_merge, product_merge in *; cbn [fst snd]. rewrite find_merge, C. cbn [join_option].
      destruct (find (k, c) (fst u)) as [[x y]|].
      - destruct (max_cases (s, v) (x, y)) as [[L E]|[_ E]];
          change (max (s, v) (x, y)) with (lww_merge (s, v) (x, y)) in E; rewrite E.
        + exists x, y. split; auto. unfold lt in L; simpl in L. unfold lt. rewrite (cmp_opp s x).
          destruct (cmp s x); simpl in *; congruence.
        + exists s, v. split; auto. apply lt_irrefl.
      - exists s, v. split; auto. apply lt_irrefl. }
    destruct G as [s' [v' [E N]]]. exists s', v'. split; auto. split; auto. unfold read. rewrite E.
    destruct (delete_of (keyed_merge t u) k) as [d|] eqn:D; simpl; auto.
    destruct (ltb s' d) eqn:L; auto. exfalso. apply ltb_lt in L. apply (High d eq_refl).
    destruct (lt_total s' s) as [M|[->|M]]; auto; [contradiction | eapply lt_trans; eauto].
  Qed.
End Keyed.
