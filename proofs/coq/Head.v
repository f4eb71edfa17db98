(** The head: what stands, what is alive, which cell wins (rules 1, 2, 3 and 6): `crdtcat.head`.

    Everything is computed from the state and nothing is stored in it, so a version that turns out void takes
    nothing with it. What a version does is read from its content by functions ([key_of], [adds], ...) that
    stand for the decoder. Dead versions (below the horizon, not admitted) are taken out before: Horizon.v. *)

From Coq Require Import NArith List Bool.
From Crdtcat Require Import Order Semilattice Fmap Clock Lattices State.
Import ListNotations.

Section Head.
  Context {Row Column Value : Type} `{Ordered Value}.
  Variable key_of : version -> option N.
  Variable adds deletes : version -> Row -> bool.
  Variable scope : version -> option (Row -> bool).
  Variable writes : version -> Row -> Column -> option Value.

  (** * Rule 6: idempotency keys *)
  Definition twin (v w : version) : bool :=
    match key_of v, key_of w with Some k, Some j => N.eqb k j | _, _ => false end.

  Definition standing (s : state) (v : version) : bool :=
    memb v s && forallb (fun w => negb (twin v w && ltb w v)) (members s).

  Lemma standing_spec : forall s v,
    standing s v = true <-> mem v s /\ forall w, mem w s -> twin v w = true -> ~ lt w v.
  Proof.
    intros s v. unfold standing. rewrite andb_true_iff, memb_mem, forallb_forall.
    split; intros [M F]; split; auto.
    - intros w W T L. apply mem_members in W. specialize (F w W). apply ltb_lt in L.
      now rewrite T, L in F.
    - intros w W. apply mem_members in W. specialize (F w W). destruct (twin v w); auto.
      destruct (ltb w v) eqn:E; auto. apply ltb_lt in E. now elim F.
  Qed.

  Lemma standing_ext : forall s t v,
    (mem v s <-> mem v t) ->
    (forall w, twin v w = true -> lt w v -> mem w s <-> mem w t) -> standing s v = standing t v.
  Proof.
    intros s t v M T. apply eq_true_iff_eq. rewrite !standing_spec.
    split; intros [A B]; (split; [tauto|]); intros w W K L; apply (B w); auto; now apply (T w).
  Qed.

  Lemma twin_sym : forall v w, twin v w = twin w v.
  Proof. unfold twin; intros v w. destruct (key_of v), (key_of w); auto. apply N.eqb_sym. Qed.

  Lemma twin_trans : forall u v w, twin u v = true -> twin v w = true -> twin u w = true.
  Proof.
    unfold twin; intros u v w. destruct (key_of u), (key_of v), (key_of w); try discriminate.
    intros E F. apply N.eqb_eq in E, F. apply N.eqb_eq. congruence.
  Qed.

  Lemma least_member : forall (p : version -> bool) l, (exists v, In v l /\ p v = true) ->
    exists v, In v l /\ p v = true /\ forall w, In w l -> p w = true -> ~ lt w v.
  Proof.
    induction l as [|x l IH]; intros [v [I P]]; [destruct I|].
    destruct (existsb p l) eqn:E.
    - apply existsb_exists in E. destruct (IH E) as [m [Im [Pm Least]]]. destruct (p x) eqn:Px.
      + destruct (lt_total x m) as [L|[->|L]].
        * exists x. split; [now left|]. split; auto. intros w [->|Iw] Pw; [apply lt_irrefl|].
          intros Lw. apply (Least w Iw Pw). eapply lt_trans; eauto.
        * exists m. split; [now left|]. split; auto. intros w [->|Iw] Pw; [apply lt_irrefl | auto].
        * exists m. split; [now right|]. split; auto. intros w [->|Iw] Pw; [now apply lt_asym | auto].
      + exists m. split; [now right|]. split; auto. intros w [->|Iw] Pw; [congruence | auto].
    - exists x. destruct I as [->|I].
      + split; [now left|]. split; auto. intros w [->|Iw] Pw; [apply lt_irrefl|].
        assert (existsb p l = true) by (apply existsb_exists; eauto). congruence.
      + assert (existsb p l = true) by (apply existsb_exists; eauto). congruence.
  Qed.

  (** Of the versions with one key exactly one stands: the smallest. *)
  Theorem idempotency_smallest_stands : forall s v k, mem v s -> key_of v = Some k ->
    exists w, standing s w = true /\ key_of w = Some k /\
      (forall u, mem u s -> key_of u = Some k -> ~ lt u w) /\
      (forall u, standing s u = true -> key_of u = Some k -> u = w).
  Proof.
    intros s v k M K.
    set (p := fun u => match key_of u with Some j => N.eqb k j | None => false end).
    assert (P : forall u, p u = true <-> key_of u = Some k).
    { intros u. unfold p. destruct (key_of u) as [j|]; [|split; discriminate].
      rewrite N.eqb_eq. split; congruence. }
    destruct (least_member p (members s)) as [w [I [Pw Least]]].
    { exists v. split; [now apply mem_members | now apply P]. }
    apply P in Pw. apply mem_members in I.
    assert (Low : forall u, mem u s -> key_of u = Some k -> ~ lt u w).
    { intros u U Ku. apply Least; [now apply mem_members | now apply P]. }
    assert (T : forall a b, key_of a = Some k -> key_of b = Some k -> twin a b = true).
    { intros a b A B. unfold twin. rewrite A, B. apply N.eqb_refl. }
    exists w. split; [|split; [|split]]; auto.
    - apply standing_spec. split; auto. intros u U Tu. apply Low; auto.
      unfold twin in Tu. rewrite Pw in Tu. destruct (key_of u) as [j|]; [|discriminate].
      apply N.eqb_eq in Tu. congruence.
    - intros u S Ku. apply standing_spec in S as [U F].
      destruct (lt_total u w) as [L|[E|L]]; auto.
      + exfalso. eapply Low; eauto.
      + exfalso. apply (F w); auto.
  Qed.

  Theorem keyless_stands : forall s v, key_of v = None -> mem v s -> standing s v = true.
  Proof.
    intros s v K M. apply standing_spec. split; auto. intros w _ T. unfold twin in T. now rewrite K in T.
  Qed.

  (** * Rules 1 and 2: rows, deletes, overwrites *)
  Definition some_standing (s : state) (p : version -> bool) : bool :=
    existsb (fun v => standing s v && p v) (members s).

  Lemma some_standing_spec : forall s p,
    some_standing s p = true <-> exists v, standing s v = true /\ p v = true.
  Proof.
    intros s p. unfold some_standing. rewrite existsb_exists. split.
    - intros [v [_ E]]. apply andb_true_iff in E. eauto.
    - intros [v [S P]]. exists v. rewrite S, P. split; auto.
      apply mem_members. now apply standing_spec in S.
  Qed.

  Definition deleted (s : state) (r : Row) : bool := some_standing s (fun w => deletes w r).

  Definition replaces (v : version) (r : Row) (w : version) : bool :=
    ltb v w && match scope w with Some inside => inside r | None => false end.

  Definition overwritten (s : state) (v : version) (r : Row) : bool :=
    match scope v with Some _ => some_standing s (replaces v r) | None => false end.

  Definition alive (s : state) (r : Row) : bool :=
    some_standing s (fun v => adds v r && negb (overwritten s v r)) && negb (deleted s r).

  (** Deletes are final: whatever is merged later, from whomever, the row stays gone. *)
  Theorem no_resurrection : forall s later w r,
    standing (state_join s later) w = true -> deletes w r = true -> alive (state_join s later) r = false.
  Proof.
    intros s later w r S D. unfold alive.
    assert (deleted (state_join s later) r = true) as ->.
    { apply some_standing_spec. eauto. }
    apply andb_false_r.
  Qed.

  (** In particular a delete without an idempotency key can never be undone by any later merge. *)
  Theorem delete_is_final : forall s later w r,
    mem w s -> key_of w = None -> deletes w r = true -> alive (state_join s later) r = false.
  Proof.
    intros s later w r M K D. eapply no_resurrection; eauto.
    apply keyless_stands; auto. apply mem_union. now left.
  Qed.

  (** An append survives whatever it is merged with, other appends and overwrites alike, unless its row was
      deleted by name. *)
  Theorem append_survives : forall s v r,
    standing s v = true -> adds v r = true -> scope v = None -> deleted s r = false -> alive s r = true.
  Proof.
    intros s v r S A O D. unfold alive. rewrite D. simpl. rewrite andb_true_r. apply some_standing_spec.
    exists v. unfold overwritten. now rewrite S, A, O.
  Qed.

  (** Of two overwrites the greater wins where its scope reaches, if the row came only from the lesser. *)
  Theorem greater_overwrite_wins : forall s v w r inside,
    standing s w = true -> scope w = Some inside -> inside r = true ->
    lt v w -> scope v <> None -> (forall u, standing s u = true -> adds u r = true -> u = v) ->
    alive s r = false.
  Proof.
    intros s v w r inside S W R L V Only. unfold alive.
    destruct (some_standing s _) eqn:E; auto. exfalso.
    apply some_standing_spec in E as [u [U P]]. apply andb_true_iff in P as [A O].
    apply Only in A; auto. subst u. unfold overwritten in O. destruct (scope v) eqn:Sv; [|congruence].
    assert (some_standing s (replaces v r) = true) as F.
    { apply some_standing_spec. exists w. split; auto. unfold replaces. apply ltb_lt in L.
      now rewrite L, W, R. }
    now rewrite F in O.
  Qed.

  (** The greatest overwrite keeps its rows, unless deleted by name. *)
  Theorem greatest_overwrite_survives : forall s v r,
    standing s v = true -> adds v r = true -> deleted s r = false ->
    (forall w inside, standing s w = true -> scope w = Some inside -> inside r = true -> ~ lt v w) ->
    alive s r = true.
  Proof.
    intros s v r S A D G. unfold alive. rewrite D. simpl. rewrite andb_true_r. apply some_standing_spec.
    exists v. rewrite S, A. split; auto. unfold overwritten. destruct (scope v); auto.
    destruct (some_standing s (replaces v r)) eqn:E; auto. exfalso.
    apply some_standing_spec in E as [w [W P]]. unfold replaces in P. apply andb_true_iff in P as [L I].
    destruct (scope w) as [inside|] eqn:Sw; [|discriminate]. eapply G; eauto. now apply ltb_lt.
  Qed.

  (** * Rule 3: cells. The greatest stamp wins; stamps are the versions themselves *)
  Definition contribution (s : state) (r : Row) (c : Column) (v : version) : option (version * Value) :=
    if standing s v then option_map (fun x => (v, x)) (writes v r c) else None.

  Definition cell (s : state) (r : Row) (c : Column) : option (version * Value) :=
    join_all (join_option lww_merge) None (map (contribution s r c) (members s)).

  Lemma option_lww_laws : is_semilattice (join_option (lww_merge (S := version) (V := Value))).
  Proof. apply join_option_semilattice, lww_merge_semilattice. Qed.

  Lemma join_all_one : forall (l : list (option (version * Value))),
    join_all (join_option lww_merge) None l = None \/
    In (join_all (join_option lww_merge) None l) l.
  Proof.
    induction l as [|[a|] l IH]; simpl; auto.
    - right. destruct IH as [->|I]; [now left|].
      destruct (join_all (join_option lww_merge) None l) as [b|]; [|now left].
      destruct (max_cases a b) as [[_ E]|[_ E]]; cbn [join_option] in *;
        change (max a b) with (lww_merge a b) in E; rewrite E; [now right | now left].
    - destruct IH as [->|I]; [now left | right; right; exact I].
  Qed.

  (** The cell's value was written by a standing version, and no standing writer of the cell is greater. *)
  Theorem cell_greatest_stamp : forall s r c v x,
    cell s r c = Some (v, x) ->
    standing s v = true /\ writes v r c = Some x /\
    (forall w y, standing s w = true -> writes w r c = Some y -> ~ lt v w).
  Proof.
    intros s r c v x E. unfold cell in E.
    destruct (join_all_one (map (contribution s r c) (members s))) as [F|I]; [congruence|].
    rewrite E in I. apply in_map_iff in I as [u [C _]]. unfold contribution in C.
    destruct (standing s u) eqn:Su; [|discriminate]. destruct (writes u r c) eqn:Wu; [|discriminate].
    simpl in C. injection C as -> ->. repeat split; auto.
    intros w y Sw Ww L.
    assert (U : below (join_option lww_merge) (Some (w, y)) (Some (v, x))).
    { rewrite <- E. apply join_all_upper; [exact option_lww_laws|]. apply in_map_iff. exists w.
      unfold contribution. rewrite Sw, Ww. split; auto. apply mem_members. now apply standing_spec in Sw. }
    unfold below in U. simpl in U. injection U as U.
    rewrite (proj1 (proj2 lww_merge_semilattice)) in U. rewrite lww_greater_stamp_wins in U by auto.
    injection U as -> _. now apply lt_irrefl in L.
  Qed.

  (** A cell only one standing version writes has that version's value: updates of different rows, or of
      different columns of one row, both hold. *)
  Theorem updates_of_different_cells_hold : forall s r c v x,
    standing s v = true -> writes v r c = Some x ->
    (forall w y, standing s w = true -> writes w r c = Some y -> w = v) ->
    cell s r c = Some (v, x).
  Proof.
    intros s r c v x S W Only.
    assert (U : below (join_option lww_merge) (Some (v, x)) (cell s r c)).
    { apply join_all_upper; [exact option_lww_laws|]. apply in_map_iff. exists v. unfold contribution.
      rewrite S, W. split; auto. apply mem_members. now apply standing_spec in S. }
    destruct (cell s r c) as [[w y]|] eqn:E; [|discriminate U].
    apply cell_greatest_stamp in E as [Sw [Ww _]]. assert (w = v) as -> by eauto. congruence.
  Qed.

  (** * Retries: a twin that arrives later under a greater id changes nothing at all *)
  Lemma retry_standing : forall s v w, mem v s -> twin v w = true -> lt v w ->
    forall u, standing (state_join s (single w)) u = standing s u.
  Proof.
    intros s v w M T L u. unfold state_join. apply eq_true_iff_eq. rewrite !standing_spec.
    split; intros [U F].
    - apply mem_union in U as [U|U].
      + split; auto. intros x X. apply F. apply mem_union. now left.
      + apply mem_single in U; subst u. exfalso. apply (F v); auto; [apply mem_union; now left|].
        now rewrite twin_sym.
    - split; [apply mem_union; now left|]. intros x X Tx Lx. apply mem_union in X as [X|X].
      + now apply (F x).
      + apply mem_single in X; subst x. apply (F v); auto; [|eapply lt_trans; eauto].
        apply (twin_trans u w v); auto. now rewrite twin_sym.
  Qed.

  Lemma some_standing_retry : forall s v w p, mem v s -> twin v w = true -> lt v w ->
    some_standing (state_join s (single w)) p = some_standing s p.
  Proof.
    intros s v w p M T L. apply eq_true_iff_eq. rewrite !some_standing_spec.
    split; intros [u [S P]]; exists u; split; auto; [rewrite <- (retry_standing s v w M T L) |
      rewrite (retry_standing s v w M T L)]; auto.
  Qed.

  Lemma existsb_ext : forall (p q : version -> bool) l, (forall v, p v = q v) -> existsb p l = existsb q l.
  Proof. intros p q l E. induction l; simpl; congruence. Qed.

  Theorem retry_invisible : forall s v w r, mem v s -> twin v w = true -> lt v w ->
    alive (state_join s (single w)) r = alive s r.
  Proof.
    intros s v w r M T L. unfold alive, deleted.
    rewrite !(some_standing_retry s v w _ M T L). f_equal.
    apply existsb_ext. intros u. f_equal. f_equal. unfold overwritten.
    destruct (scope u); auto. now rewrite (some_standing_retry s v w _ M T L).
  Qed.
End Head.
