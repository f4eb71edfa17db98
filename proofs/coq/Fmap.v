(** Finite maps in canonical form: lists sorted strictly by key, so that equal content *is* equality.

    The proof of sortedness is an equation between booleans, and those have one proof (decidable equality),
    so no axiom is needed for [fmap_ext]. Python's counterpart is a dict compared by content, or columns
    sorted by id; both have the same canonical form. *)

From Coq Require Import List Bool Eqdep_dec.
From Crdtcat Require Import Order Semilattice.
Import ListNotations.

Section Fmap.
  Context {K V : Type} `{Ordered K}.

  Definition above (k : K) (l : list (K * V)) : bool :=
    match l with [] => true | (k', _) :: _ => ltb k k' end.

  Fixpoint sorted (l : list (K * V)) : bool :=
    match l with [] => true | (k, _) :: r => above k r && sorted r end.

  Fixpoint find_in (k : K) (l : list (K * V)) : option V :=
    match l with
    | [] => None
    | (k', v) :: r => if eqb k k' then Some v else find_in k r
    end.

  Lemma find_above : forall l k, sorted l = true -> above k l = true ->
    forall j, j = k \/ lt j k -> find_in j l = None.
  Proof.
    induction l as [|[k' v] r IH]; simpl; auto. intros k S A j J.
    apply andb_true_iff in S as [A' S]. apply ltb_lt in A.
    assert (L : lt j k') by (destruct J as [->|J]; [exact A | eapply lt_trans; eauto]).
    assert (eqb j k' = false) as -> by (apply eqb_neq; now apply lt_not_eq).
    eapply IH; eauto.
  Qed.

  Lemma sorted_ext : forall l m, sorted l = true -> sorted m = true ->
    (forall k, find_in k l = find_in k m) -> l = m.
  Proof.
    induction l as [|[k v] r IH]; intros [|[j w] s] SL SM E; auto.
    - specialize (E j). simpl in E. now rewrite eqb_refl in E.
    - specialize (E k). simpl in E. now rewrite eqb_refl in E.
    - simpl in SL, SM. apply andb_true_iff in SL as [AL SL]. apply andb_true_iff in SM as [AM SM].
      destruct (lt_total k j) as [L|[->|L]].
      + exfalso. specialize (E k). simpl in E. rewrite eqb_refl in E.
        assert (eqb k j = false) as F by (apply eqb_neq; now apply lt_not_eq). rewrite F in E.
        rewrite (find_above s j SM AM k) in E; auto. discriminate.
      + assert (v = w) as ->.
        { specialize (E j). simpl in E. rewrite !eqb_refl in E. congruence. }
        f_equal. apply IH; auto. intros i. specialize (E i). simpl in E.
        destruct (eqb i j) eqn:F; auto. apply eqb_eq in F; subst.
        rewrite (find_above r j SL AL j), (find_above s j SM AM j); auto.
      + exfalso. specialize (E j). simpl in E. rewrite eqb_refl in E.
        assert (eqb j k = false) as F by (apply eqb_neq; now apply lt_not_eq). rewrite F in E.
        rewrite (find_above r k SL AL j) in E; auto. discriminate.
  Qed.

  Definition fmap : Type := { l : list (K * V) | sorted l = true }.
  Definition find (k : K) (m : fmap) : option V := find_in k (proj1_sig m).
  Definition bindings (m : fmap) : list (K * V) := proj1_sig m.
  Definition keys (m : fmap) : list K := map fst (bindings m).

  Theorem fmap_ext : forall a b : fmap, (forall k, find k a = find k b) -> a = b.
  Proof.
    intros [l SL] [m SM] E. unfold find in E. simpl in E.
    assert (l = m) as -> by now apply sorted_ext.
    f_equal. apply UIP_dec, bool_dec.
  Qed.

  Definition empty : fmap := exist _ [] eq_refl.

  Lemma find_empty : forall k, find k empty = None.
  Proof. reflexivity. Qed.

  Lemma find_in_In : forall l k v, sorted l = true -> (find_in k l = Some v <-> In (k, v) l).
  Proof.
    induction l as [|[j w] r IH]; intros k v S; simpl; [split; [discriminate|tauto]|].
    simpl in S. apply andb_true_iff in S as [A S]. destruct (eqb k j) eqn:E.
    - apply eqb_eq in E; subst. split.
      + intros [= ->]. now left.
      + intros [[= ->]|I]; auto. apply IH in I; auto.
        rewrite (find_above r j S A j) in I; auto. discriminate.
    - rewrite IH by auto. split; auto. intros [[= -> _]|I]; auto. now rewrite eqb_refl in E.
  Qed.

  Lemma find_bindings : forall m k v, find k m = Some v <-> In (k, v) (bindings m).
  Proof. intros [l S] k v. now apply find_in_In. Qed.

  Lemma find_keys : forall m k, (exists v, find k m = Some v) <-> In k (keys m).
  Proof.
    intros m k. unfold keys. rewrite in_map_iff. split.
    - intros [v E]. apply find_bindings in E. now exists (k, v).
    - intros [[j v] [<- I]]. exists v. now apply find_bindings.
  Qed.

  (** * Insertion, combining with what is there *)
  Variable combine : V -> V -> V.

  Fixpoint insert_in (k : K) (v : V) (l : list (K * V)) : list (K * V) :=
    match l with
    | [] => [(k, v)]
    | (k', w) :: r =>
        match cmp k k' with
        | Eq => (k', combine v w) :: r
        | Lt => (k, v) :: l
        | Gt => (k', w) :: insert_in k v r
        end
    end.

  Lemma above_insert : forall l j k v, above j l = true -> lt j k -> above j (insert_in k v l) = true.
  Proof.
    intros [|[k' w] r] j k v A L; simpl in *; [now apply ltb_lt|].
    destruct (cmp k k'); simpl; auto. now apply ltb_lt.
  Qed.

  Lemma sorted_insert : forall l k v, sorted l = true -> sorted (insert_in k v l) = true.
  Proof.
    induction l as [|[k' w] r IH]; intros k v S; simpl; auto.
    destruct (cmp k k') eqn:E; simpl in *; auto.
    - rewrite S. unfold ltb. now rewrite E.
    - apply andb_true_iff in S as [A S]. rewrite IH, andb_true_r; auto.
      apply above_insert; auto. now apply gt_lt.
  Qed.

  Lemma find_insert : forall l k v j, sorted l = true ->
    find_in j (insert_in k v l) =
      if eqb j k then join_option combine (Some v) (find_in k l) else find_in j l.
  Proof.
    induction l as [|[k' w] r IH]; intros k v j S; simpl; auto.
    pose proof S as S0. simpl in S. apply andb_true_iff in S as [A S].
    destruct (cmp k k') eqn:E; simpl.
    - apply cmp_eq in E; subst. rewrite eqb_refl. destruct (eqb j k'); auto.
    - destruct (eqb j k) eqn:F; auto. apply eqb_eq in F; subst.
      assert (eqb k k' = false) as -> by (unfold eqb; now rewrite E).
      rewrite (find_above r k' S A k); auto.
    - rewrite IH by auto. destruct (eqb j k') eqn:F; auto.
      + apply eqb_eq in F; subst. destruct (eqb k' k) eqn:G; auto.
        apply eqb_eq in G; subst. now rewrite cmp_refl in E.
      + assert (eqb k k' = false) as -> by (unfold eqb; now rewrite E). reflexivity.
  Qed.

  Definition insert (k : K) (v : V) (m : fmap) : fmap :=
    exist _ (insert_in k v (proj1_sig m)) (sorted_insert _ k v (proj2_sig m)).

  (** * Merge: key by key *)
  Definition merge_in (a b : list (K * V)) : list (K * V) :=
    fold_right (fun kv acc => insert_in (fst kv) (snd kv) acc) b a.

  Lemma sorted_merge : forall a b, sorted b = true -> sorted (merge_in a b) = true.
  Proof. induction a as [|[k v] a IH]; simpl; auto. intros; apply sorted_insert; auto. Qed.

  Lemma find_merge_in : forall a b k, sorted a = true -> sorted b = true ->
    find_in k (merge_in a b) = join_option combine (find_in k a) (find_in k b).
  Proof.
    induction a as [|[j v] a IH]; intros b k SA SB; simpl.
    - now destruct (find_in k b).
    - simpl in SA. apply andb_true_iff in SA as [A SA].
      rewrite find_insert by now apply sorted_merge.
      destruct (eqb k j) eqn:E; [|now apply IH].
      apply eqb_eq in E; subst. rewrite IH by auto. rewrite (find_above a j SA A j); auto.
  Qed.

  Definition merge (a b : fmap) : fmap :=
    exist _ (merge_in (proj1_sig a) (proj1_sig b)) (sorted_merge _ _ (proj2_sig b)).

  Lemma find_merge : forall a b k, find k (merge a b) = join_option combine (find k a) (find k b).
  Proof. intros [l SL] [m SM] k. now apply find_merge_in. Qed.

  Lemma merge_empty : forall a, merge empty a = a.
  Proof. intros; apply fmap_ext; intros; now rewrite find_merge. Qed.

  (** A map of lattices is a lattice, whatever the keys mean. *)
  Theorem map_merge_semilattice : is_semilattice combine -> is_semilattice merge.
  Proof.
    intros laws. destruct (join_option_semilattice combine laws) as [A [C I]]. repeat split.
    - intros a b c; apply fmap_ext; intros k. rewrite !find_merge. apply A.
    - intros a b; apply fmap_ext; intros k. rewrite !find_merge. apply C.
    - intros a; apply fmap_ext; intros k. rewrite find_merge. apply I.
  Qed.
End Fmap.

Arguments fmap : clear implicits.
Arguments fmap K V {H}.

(** * Finite sets: maps to nothing *)
Section Fset.
  Context {K : Type} `{Ordered K}.

  Definition fset : Type := fmap K unit.
  Definition mem (k : K) (s : fset) : Prop := find k s = Some tt.
  Definition memb (k : K) (s : fset) : bool := if find k s then true else false.
  Definition none : fset := empty.
  Definition single (k : K) : fset := insert (fun _ _ => tt) k tt none.
  Definition union : fset -> fset -> fset := merge (fun _ _ => tt).
  Definition members (s : fset) : list K := keys s.

  Lemma memb_mem : forall k s, memb k s = true <-> mem k s.
  Proof. intros k s; unfold memb, mem. destruct (find k s) as [[]|]; split; congruence. Qed.

  Lemma mem_union : forall k a b, mem k (union a b) <-> mem k a \/ mem k b.
  Proof.
    intros k a b. unfold mem, union. rewrite find_merge.
    destruct (find k a) as [[]|], (find k b) as [[]|]; simpl; intuition congruence.
  Qed.

  Lemma mem_single : forall k j, mem k (single j) <-> k = j.
  Proof.
    intros k j. unfold mem, single, find, insert. simpl.
    destruct (eqb k j) eqn:E; [apply eqb_eq in E | apply eqb_neq in E]; intuition congruence.
  Qed.

  Lemma mem_none : forall k, ~ mem k none.
  Proof. intros k; unfold mem, none; rewrite find_empty; discriminate. Qed.

  Lemma mem_members : forall k s, mem k s <-> In k (members s).
  Proof.
    intros k s. unfold members. rewrite <- find_keys. unfold mem. split.
    - now exists tt.
    - now intros [[] E].
  Qed.

  Lemma fset_ext : forall a b : fset, (forall k, mem k a <-> mem k b) -> a = b.
  Proof.
    intros a b E. apply fmap_ext. intros k. specialize (E k). unfold mem in E.
    destruct (find k a) as [[]|], (find k b) as [[]|]; intuition congruence.
  Qed.

  Lemma union_semilattice : is_semilattice union.
  Proof.
    apply map_merge_semilattice. repeat split. now intros [].
  Qed.

  Lemma union_none : forall a, union none a = a.
  Proof. apply merge_empty. Qed.

  Definition subset (a b : fset) : Prop := forall k, mem k a -> mem k b.

  Definition of_list (l : list K) : fset := fold_right (fun k s => union (single k) s) none l.

  Lemma mem_of_list : forall l k, mem k (of_list l) <-> In k l.
  Proof.
    induction l as [|j l IH]; intros k; simpl.
    - split; [intros M; now apply mem_none in M | tauto].
    - rewrite mem_union, mem_single, IH. intuition congruence.
  Qed.

  Definition filter_set (p : K -> bool) (s : fset) : fset := of_list (filter p (members s)).

  Lemma mem_filter : forall p s k, mem k (filter_set p s) <-> mem k s /\ p k = true.
  Proof. intros p s k. unfold filter_set. now rewrite mem_of_list, filter_In, <- mem_members. Qed.
End Fset.

Arguments fset : clear implicits.
Arguments fset K {H}.

(** * Rising lists: a set has one *)
Section Rising.
  Context {K : Type} `{Ordered K}.

  Fixpoint rising (l : list K) : Prop :=
    match l with
    | [] => True
    | a :: r => (forall b, In b r -> lt a b) /\ rising r
    end.

  Lemma rising_unique : forall l m, rising l -> rising m -> (forall r, In r l <-> In r m) -> l = m.
  Proof.
    induction l as [|a l IH]; intros [|b m] Al Am S; auto.
    - exfalso. apply (S b). now left.
    - exfalso. apply (S a). now left.
    - destruct Al as [La Al], Am as [Lb Am].
      assert (a = b) as ->.
      { destruct (proj1 (S a) (or_introl eq_refl)) as [E|I]; auto.
        destruct (proj2 (S b) (or_introl eq_refl)) as [E|J]; auto.
        exfalso. apply (lt_asym a b); auto. }
      f_equal. apply IH; auto. intros r. split; intros I.
      + destruct (proj1 (S r) (or_intror I)) as [->|J]; auto. exfalso. now apply (lt_irrefl r), La.
      + destruct (proj2 (S r) (or_intror I)) as [->|J]; auto. exfalso. now apply (lt_irrefl r), Lb.
  Qed.

  Lemma members_rising : forall s : fset K, rising (members s).
  Proof.
    intros [l S]. unfold members, keys, bindings; simpl. induction l as [|[a []] l IH]; simpl in *; auto.
    apply andb_true_iff in S as [A S]. split; auto.
    clear IH. revert a A S. induction l as [|[c []] l IH]; intros a A S b I; simpl in *; [destruct I|].
    apply andb_true_iff in S as [C S]. apply ltb_lt in A. destruct I as [<-|I]; auto.
    apply (IH a); auto. destruct l as [|[d []] l]; simpl in *; auto.
    apply ltb_lt in C. apply ltb_lt. eapply lt_trans; eauto.
  Qed.

  Lemma rising_end : forall l x, rising l -> (forall a, In a l -> lt a x) -> rising (l ++ [x]).
  Proof.
    induction l as [|a l IH]; intros x R L; simpl; [split; [intros b []|exact I]|].
    destruct R as [A R]. split.
    - intros b J. apply in_app_or in J as [J|[<-|[]]]; [now apply A | apply L; now left].
    - apply IH; auto. intros c J. apply L. now right.
  Qed.
End Rising.
