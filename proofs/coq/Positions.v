(** Positions (rule 5): rows have one order, and compaction does not change it.

    A row's place is a path: its chunk's position at birth and its offset, and, for a row that was inserted after
    another, the path of the row it follows and then its own. Paths compare as lists do, a prefix first. Entries
    hold rows as pieces; a compacted entry holds pieces of many births. The table's order is a function of
    the *set* of rows, so it does not matter which entry holds which, nor where an entry has to be split. *)

From Coq Require Import List Bool.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.

Section Positions.
  Context {K : Type} `{Ordered K}.
  Definition path : Type := list K.

  Theorem position_total_order :
    (forall p : path, ~ lt p p) /\
    (forall p q r : path, lt p q -> lt q r -> lt p r) /\
    (forall p q : path, lt p q \/ p = q \/ lt q p).
  Proof. split; [apply lt_irrefl | split; [intros p q r; apply lt_trans | apply lt_total]]. Qed.

  Lemma cmp_extend : forall (p q : path) x, cmp_list p (p ++ x :: q) = Lt.
  Proof. induction p as [|a p IH]; intros q x; simpl; auto. rewrite cmp_refl. simpl. apply IH. Qed.

  Definition extends (s p : path) : Prop := exists q, s = p ++ q.

  Lemma before_extension : forall (p s : path), cmp_list p s = Lt -> ~ extends s p ->
    forall q, cmp_list (p ++ q) s = Lt.
  Proof.
    induction p as [|a p IH]; intros s L N q.
    - exfalso. apply N. now exists s.
    - destruct s as [|b s]; simpl in *; [discriminate|].
      destruct (cmp a b) eqn:E; simpl in *; try discriminate; auto.
      apply cmp_eq in E; subst. apply IH; auto. intros [t ->]. apply N. now exists t.
  Qed.

  (** An inserted row comes after the row it follows, and before everything that came after that one and was
      not itself inserted there. *)
  Theorem insertion_follows : forall (p q : path) x,
    lt p (p ++ x :: q) /\ forall s, lt p s -> ~ extends s p -> lt (p ++ x :: q) s.
  Proof.
    intros p q x. split; [apply cmp_extend|]. intros s L N. now apply before_extension.
  Qed.

  (** * Entries: pieces of rows; the table is what all of them hold, in order *)
  Definition piece : Type := list path.
  Definition rows_of (pieces : list piece) : fset path := of_list (concat pieces).
  Definition listing (pieces : list piece) : list path := members (rows_of pieces).

  (** Whatever holds the same rows lists them in the same order: compaction moves rows between entries only. *)
  Theorem compaction_keeps_order : forall before after : list piece,
    (forall r, In r (concat before) <-> In r (concat after)) -> listing before = listing after.
  Proof.
    intros before after S. unfold listing. f_equal. apply fset_ext. intros r.
    unfold rows_of. now rewrite !mem_of_list.
  Qed.

  (** Reading piece by piece: if pieces are cut so that nothing sorts between the rows of one, and are put in
      order, then they follow one another as the table's rows do. *)
  Theorem split_pieces_in_order : forall pieces : list piece,
    rising (concat pieces) -> concat pieces = listing pieces.
  Proof.
    intros pieces A. apply rising_unique; auto; [apply members_rising|].
    intros r. unfold listing, rows_of. now rewrite <- mem_members, mem_of_list.
  Qed.
End Positions.
