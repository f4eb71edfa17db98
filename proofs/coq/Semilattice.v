(** Join semilattices with Leibniz equality, and what follows from the three laws alone.

    [join_all_same_set] is the heart of convergence: two lists with the same *set* of members, whatever
    their order and however often each occurs, join to the same value. [eval_same_leaves] says the same of
    any grouping. No order on values is assumed; [below] is the one the join induces. *)

From Coq Require Import List.
Import ListNotations.

Definition is_semilattice {A : Type} (join : A -> A -> A) : Prop :=
  (forall a b c, join a (join b c) = join (join a b) c) /\
  (forall a b, join a b = join b a) /\
  (forall a, join a a = a).

Section Joins.
  Context {A : Type} (join : A -> A -> A) (laws : is_semilattice join).

  Let join_assoc : forall a b c, join a (join b c) = join (join a b) c := proj1 laws.
  Let join_comm : forall a b, join a b = join b a := proj1 (proj2 laws).
  Let join_idem : forall a, join a a = a := proj2 (proj2 laws).

  Definition below (a b : A) : Prop := join a b = b.

  Lemma below_refl : forall a, below a a.
  Proof. exact join_idem. Qed.

  Lemma below_trans : forall a b c, below a b -> below b c -> below a c.
  Proof. unfold below; intros a b c E F. rewrite <- F, join_assoc, E. reflexivity. Qed.

  Lemma below_antisym : forall a b, below a b -> below b a -> a = b.
  Proof. unfold below; intros a b E F. rewrite <- F, join_comm. exact E. Qed.

  Lemma below_join_left : forall a b, below a (join a b).
  Proof. unfold below; intros. now rewrite join_assoc, join_idem. Qed.

  Lemma below_join_right : forall a b, below b (join a b).
  Proof. intros a b. rewrite join_comm. apply below_join_left. Qed.

  Lemma join_least : forall a b c, below a c -> below b c -> below (join a b) c.
  Proof. unfold below; intros a b c E F. now rewrite <- join_assoc, F, E. Qed.

  (** The join of optional values; nothing is the bottom. *)
  Definition join_option (a b : option A) : option A :=
    match a, b with
    | Some x, Some y => Some (join x y)
    | Some x, None => Some x
    | None, other => other
    end.

  Lemma join_option_semilattice : is_semilattice join_option.
  Proof.
    repeat split.
    - intros [a|] [b|] [c|]; simpl; auto. now rewrite join_assoc.
    - intros [a|] [b|]; simpl; auto. now rewrite join_comm.
    - intros [a|]; simpl; auto. now rewrite join_idem.
  Qed.
End Joins.

Section JoinAll.
  Context {A : Type} (join : A -> A -> A) (bottom : A) (laws : is_semilattice join).
  Hypothesis bottom_least : forall a, join bottom a = a.

  Definition join_all (l : list A) : A := fold_right join bottom l.

  Lemma join_all_upper : forall l a, In a l -> below join a (join_all l).
  Proof.
    induction l as [|x l IH]; simpl; [tauto|]. intros a [->|I].
    - apply below_join_left; exact laws.
    - eapply below_trans; [exact laws | now apply IH | apply below_join_right; exact laws].
  Qed.

  Lemma join_all_least : forall l b, (forall a, In a l -> below join a b) -> below join (join_all l) b.
  Proof.
    induction l as [|x l IH]; simpl; intros b U.
    - apply bottom_least.
    - apply join_least; [exact laws | apply U; now left | apply IH; intros; apply U; now right].
  Qed.

  Theorem join_all_same_set : forall l m,
    (forall a, In a l <-> In a m) -> join_all l = join_all m.
  Proof.
    intros l m S. apply (below_antisym join laws);
      apply join_all_least; intros a I; apply join_all_upper; now apply S.
  Qed.

  Lemma join_all_app : forall l m, join_all (l ++ m) = join (join_all l) (join_all m).
  Proof.
    induction l as [|x l IH]; intros m; simpl.
    - now rewrite bottom_least.
    - rewrite IH. apply (proj1 laws).
  Qed.

  (** A merge of merges: any tree of pairwise joins, with any values at the leaves, repeated or not. *)
  Inductive merge_tree : Type :=
  | Nothing : merge_tree
  | Leaf : A -> merge_tree
  | Both : merge_tree -> merge_tree -> merge_tree.

  Fixpoint eval (t : merge_tree) : A :=
    match t with
    | Nothing => bottom
    | Leaf a => a
    | Both l r => join (eval l) (eval r)
    end.

  Fixpoint leaves (t : merge_tree) : list A :=
    match t with
    | Nothing => []
    | Leaf a => [a]
    | Both l r => leaves l ++ leaves r
    end.

  Lemma eval_leaves : forall t, eval t = join_all (leaves t).
  Proof.
    induction t as [|a|l IHl r IHr]; simpl.
    - reflexivity.
    - rewrite (proj1 (proj2 laws)). symmetry. apply bottom_least.
    - rewrite IHl, IHr. symmetry. apply join_all_app.
  Qed.

  Theorem eval_same_leaves : forall t u,
    (forall a, In a (leaves t) <-> In a (leaves u)) -> eval t = eval u.
  Proof. intros t u S. rewrite !eval_leaves. now apply join_all_same_set. Qed.
End JoinAll.
