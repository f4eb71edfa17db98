(** The lattices the head is folded with: LWW register, G-counter, OR-set, products: `crdtcat.lattice`.

    Each merge is total and needs no assumption on its arguments. That two versions never share an id (a
    digest is part of it) is therefore not used for convergence, only for what the values mean. *)

From Coq Require Import NArith List Lia Bool.
From Crdtcat Require Import Order Semilattice Fmap Clock.
Import ListNotations.

(** * Last-writer-wins register: the greater stamp, the greater value if stamps tie *)
Section Lww.
  Context {S V : Type} `{Ordered S} `{Ordered V}.

  Definition lww : Type := (S * V)%type.
  Definition lww_merge (a b : lww) : lww := max a b.

  Theorem lww_merge_semilattice : is_semilattice lww_merge.
  Proof. repeat split; intros; [apply max_assoc | apply max_comm | apply max_idem]. Qed.

  Theorem lww_greater_stamp_wins : forall (s t : S) (v w : V), lt s t -> lww_merge (s, v) (t, w) = (t, w).
  Proof.
    intros s t v w L. unfold lww_merge, max, cmp; simpl. unfold lt in L. rewrite L. reflexivity.
  Qed.
End Lww.

(** * Maximum of any total order, the lattice under epochs and greatest batch ids *)
Theorem max_semilattice : forall K `{Ordered K}, is_semilattice (max (K := K)).
Proof. repeat split; intros; [apply max_assoc | apply max_comm | apply max_idem]. Qed.

(** * Grow-only counter: per writer the greatest count; the value is the sum *)
Definition gcounter : Type := fmap N N.
Definition gcounter_merge : gcounter -> gcounter -> gcounter := merge N.max.
Definition gcounter_value (c : gcounter) : N := fold_right N.add 0%N (map snd (bindings c)).

Theorem gcounter_merge_semilattice : is_semilattice gcounter_merge.
Proof.
  apply map_merge_semilattice. repeat split; intros; [apply N.max_assoc | apply N.max_comm | apply N.max_id].
Qed.

Lemma gcounter_insert_grows : forall (l : list (N * N)) k v,
  (fold_right N.add 0 (map snd l) <= fold_right N.add 0 (map snd (insert_in N.max k v l)))%N.
Proof.
  induction l as [|[j w] l IH]; intros k v; simpl; [lia|].
  specialize (IH k v). destruct (k ?= j)%N; simpl; lia.
Qed.

(** A counter never falls when more is merged in. *)
Theorem gcounter_value_grows : forall a b, (gcounter_value a <= gcounter_value (gcounter_merge a b))%N.
Proof.
  intros a b. rewrite (proj1 (proj2 gcounter_merge_semilattice)).
  unfold gcounter_value, gcounter_merge, bindings.
  destruct a as [a SA], b as [b SB]; simpl. clear SA SB. induction b as [|[k v] b IH]; simpl; [lia|].
  eapply N.le_trans; [apply IH|]. apply gcounter_insert_grows.
Qed.

(** * Product of two lattices *)
Section Product.
  Context {A B : Type} (f : A -> A -> A) (g : B -> B -> B).
  Definition product_merge (x y : A * B) : A * B := (f (fst x) (fst y), g (snd x) (snd y)).

  Theorem product_merge_semilattice : is_semilattice f -> is_semilattice g -> is_semilattice product_merge.
  Proof.
    intros [FA [FC FI]] [GA [GC GI]]. unfold product_merge. repeat split.
    - intros [a x] [b y] [c z]; simpl. now rewrite FA, GA.
    - intros [a x] [b y]; simpl. now rewrite FC, GC.
    - intros [a x]; simpl. now rewrite FI, GI.
  Qed.
End Product.

(** * OR-set: per dot the chain unseen < live < removed; a live dot carries a payload (places, statistics) *)
Section OrSet.
  Context {D P : Type} `{Ordered D} (payload_join : P -> P -> P) (payload_laws : is_semilattice payload_join).

  Inductive dot_state : Type := Live (p : P) | Removed.

  Definition dot_join (a b : dot_state) : dot_state :=
    match a, b with Live p, Live q => Live (payload_join p q) | _, _ => Removed end.

  Lemma dot_join_semilattice : is_semilattice dot_join.
  Proof.
    destruct payload_laws as [A [C I]]. repeat split.
    - intros [p|] [q|] [r|]; simpl; auto. now rewrite A.
    - intros [p|] [q|]; simpl; auto. now rewrite C.
    - intros [p|]; simpl; auto. now rewrite I.
  Qed.

  Definition orset : Type := fmap D dot_state.
  Definition orset_merge : orset -> orset -> orset := merge dot_join.

  Theorem orset_merge_semilattice : is_semilattice orset_merge.
  Proof. apply map_merge_semilattice, dot_join_semilattice. Qed.

  Definition live (d : D) (s : orset) : Prop := exists p, find d s = Some (Live p).
  Definition removed (d : D) (s : orset) : Prop := find d s = Some Removed.

  (** Once removed, a dot is removed in everything that merged it, from either side. *)
  Theorem orset_no_resurrection : forall d a b,
    removed d a -> removed d (orset_merge a b) /\ ~ live d (orset_merge a b).
  Proof.
    intros d a b R. unfold removed, live, orset_merge in *.
    assert (E : find d (merge dot_join a b) = Some Removed).
    { rewrite find_merge, R. destruct (find d b) as [[p|]|]; reflexivity. }
    split; auto. intros [p F]. congruence.
  Qed.

  (** Add wins over a removal that did not observe the dot: a live dot stays live unless removed by name. *)
  Theorem orset_live_unless_removed : forall d a b,
    live d a -> ~ removed d b -> live d (orset_merge a b).
  Proof.
    intros d a b [p L] R. unfold live, removed, orset_merge in *. rewrite find_merge, L.
    destruct (find d b) as [[q|]|]; simpl; eauto. now elim R.
  Qed.

  (** The textbook form: the live dots and a causal context of all dots ever seen. Merging keeps a dot if
      both have it live, or one has it live and the other never saw it. Both forms decide alike. *)
  Definition seen_dot (d : D) (s : orset) : Prop := find d s <> None.

  Theorem orset_causal_context : forall d a b,
    (seen_dot d (orset_merge a b) <-> seen_dot d a \/ seen_dot d b) /\
    (live d (orset_merge a b) <->
      (live d a /\ live d b) \/ (live d a /\ ~ seen_dot d b) \/ (live d b /\ ~ seen_dot d a)).
  Proof.
    intros d a b. unfold seen_dot, live, orset_merge. rewrite find_merge.
    destruct (find d a) as [[p|]|], (find d b) as [[q|]|]; simpl; firstorder (try congruence; eauto).
  Qed.
End OrSet.
