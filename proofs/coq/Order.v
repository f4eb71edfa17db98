(** Total orders with Leibniz equality: what every key, stamp and id is compared by.

    [Lt] is the strict order, and [Eq] means *the same value*, not merely an equivalent one. That is what
    makes sorted lists canonical (see Fmap.v). Nothing here knows about versions or tables. *)

From Coq Require Import NArith PArith List Bool.
Import ListNotations.

Class Ordered (K : Type) := {
  cmp : K -> K -> comparison;
  cmp_eq : forall a b, cmp a b = Eq -> a = b;
  cmp_refl : forall a, cmp a a = Eq;
  cmp_opp : forall a b, cmp b a = CompOpp (cmp a b);
  cmp_trans : forall a b c, cmp a b = Lt -> cmp b c = Lt -> cmp a c = Lt
}.

Section Derived.
  Context {K : Type} `{Ordered K}.

  Definition lt (a b : K) : Prop := cmp a b = Lt.
  Definition ltb (a b : K) : bool := match cmp a b with Lt => true | _ => false end.
  Definition eqb (a b : K) : bool := match cmp a b with Eq => true | _ => false end.
  Definition max (a b : K) : K := match cmp a b with Lt => b | _ => a end.

  Lemma ltb_lt : forall a b, ltb a b = true <-> lt a b.
  Proof. intros a b; unfold ltb, lt; destruct (cmp a b); split; congruence. Qed.

  Lemma eqb_eq : forall a b, eqb a b = true <-> a = b.
  Proof.
    intros a b; unfold eqb; split.
    - destruct (cmp a b) eqn:E; try discriminate. intros _; now apply cmp_eq.
    - intros ->. now rewrite cmp_refl.
  Qed.

  Lemma eqb_neq : forall a b, eqb a b = false <-> a <> b.
  Proof.
    intros a b. rewrite <- (eqb_eq a b). destruct (eqb a b); split; congruence.
  Qed.

  Lemma eqb_refl : forall a, eqb a a = true.
  Proof. intros; now apply eqb_eq. Qed.

  Lemma order_dec : forall a b : K, {a = b} + {a <> b}.
  Proof.
    intros a b. destruct (eqb a b) eqn:E; [left; now apply eqb_eq | right; now apply eqb_neq].
  Defined.

  Lemma lt_irrefl : forall a, ~ lt a a.
  Proof. intros a; unfold lt; rewrite cmp_refl; discriminate. Qed.

  Lemma lt_trans : forall a b c, lt a b -> lt b c -> lt a c.
  Proof. unfold lt; intros; eapply cmp_trans; eauto. Qed.

  Lemma gt_lt : forall a b, cmp a b = Gt -> lt b a.
  Proof. intros a b E; unfold lt; rewrite cmp_opp, E; reflexivity. Qed.

  Lemma lt_total : forall a b, lt a b \/ a = b \/ lt b a.
  Proof.
    intros a b. destruct (cmp a b) eqn:E.
    - right; left; now apply cmp_eq.
    - now left.
    - right; right; now apply gt_lt.
  Qed.

  Lemma lt_not_eq : forall a b, lt a b -> a <> b.
  Proof. intros a b L ->. now apply (lt_irrefl b). Qed.

  Lemma lt_asym : forall a b, lt a b -> ~ lt b a.
  Proof. intros a b L M. apply (lt_irrefl a). eapply lt_trans; eauto. Qed.

  Lemma max_cases : forall a b, (lt a b /\ max a b = b) \/ (~ lt a b /\ max a b = a).
  Proof. intros a b; unfold max, lt; destruct (cmp a b); [right|left|right]; split; congruence. Qed.

  Lemma max_comm : forall a b, max a b = max b a.
  Proof.
    intros a b. unfold max. rewrite (cmp_opp a b). destruct (cmp a b) eqn:E; simpl; auto.
    now apply cmp_eq in E.
  Qed.

  Lemma max_idem : forall a, max a a = a.
  Proof. intros a; unfold max; now rewrite cmp_refl. Qed.

  Lemma max_assoc : forall a b c, max a (max b c) = max (max a b) c.
  Proof.
    intros a b c.
    destruct (max_cases b c) as [[L1 E1]|[L1 E1]]; destruct (max_cases a b) as [[L2 E2]|[L2 E2]];
      rewrite ?E1, ?E2; auto.
    - rewrite E1. destruct (max_cases a c) as [[L3 E3]|[L3 E3]]; rewrite E3; auto.
      exfalso; apply L3; eapply lt_trans; eauto.
    - destruct (max_cases a c) as [[L3 E3]|[L3 E3]]; rewrite E3; auto.
      destruct (lt_total a b) as [L|[->|L]]; try contradiction.
      exfalso; apply L1. eapply lt_trans; eauto.
  Qed.
End Derived.

(** * The orders in use *)

#[export] Instance Ordered_N : Ordered N.
Proof.
  refine {| cmp := N.compare |}.
  - apply N.compare_eq.
  - apply N.compare_refl.
  - intros; apply N.compare_antisym.
  - intros a b c; rewrite !N.compare_lt_iff; apply N.lt_trans.
Defined.

#[export] Instance Ordered_positive : Ordered positive.
Proof.
  refine {| cmp := Pos.compare |}.
  - apply Pos.compare_eq.
  - apply Pos.compare_refl.
  - intros; apply Pos.compare_antisym.
  - intros a b c; rewrite !Pos.compare_lt_iff; apply Pos.lt_trans.
Defined.

#[export] Instance Ordered_unit : Ordered unit.
Proof.
  refine {| cmp := fun _ _ => Eq |}.
  - now intros [] [].
  - reflexivity.
  - reflexivity.
  - discriminate.
Defined.

Definition lexicographic (first second : comparison) : comparison :=
  match first with Eq => second | other => other end.

(** Pairs compare by the first part, then by the second, as Python tuples do. *)
#[export] Instance Ordered_pair {A B} `{Ordered A} `{Ordered B} : Ordered (A * B).
Proof.
  refine {| cmp := fun x y => lexicographic (cmp (fst x) (fst y)) (cmp (snd x) (snd y)) |}.
  - intros [a b] [c d]; unfold lexicographic; simpl. destruct (cmp a c) eqn:E; try discriminate.
    apply cmp_eq in E. intros F; apply cmp_eq in F. congruence.
  - intros [a b]; simpl. rewrite !cmp_refl. reflexivity.
  - intros [a b] [c d]; simpl. rewrite (cmp_opp a c), (cmp_opp b d).
    destruct (cmp a c), (cmp b d); reflexivity.
  - intros [a b] [c d] [e f]; unfold lexicographic; simpl.
    destruct (cmp a c) eqn:E1; destruct (cmp c e) eqn:E2; try discriminate; intros F G.
    + apply cmp_eq in E1, E2; subst. rewrite cmp_refl. eapply cmp_trans; eauto.
    + apply cmp_eq in E1; subst. now rewrite E2.
    + apply cmp_eq in E2; subst. now rewrite E1.
    + now rewrite (cmp_trans _ _ _ E1 E2).
Defined.

(** Strings of bytes: element by element, a prefix first. *)
Fixpoint cmp_list {A} `{Ordered A} (a b : list A) : comparison :=
  match a, b with
  | [], [] => Eq
  | [], _ => Lt
  | _, [] => Gt
  | x :: a', y :: b' => lexicographic (cmp x y) (cmp_list a' b')
  end.

#[export] Instance Ordered_list {A} `{Ordered A} : Ordered (list A).
Proof.
  refine {| cmp := cmp_list |}.
  - induction a as [|x a IH]; intros [|y b]; simpl; try discriminate; auto.
    destruct (cmp x y) eqn:E; simpl; try discriminate.
    intros F. apply cmp_eq in E; apply IH in F; congruence.
  - induction a as [|x a IH]; simpl; auto. now rewrite cmp_refl.
  - induction a as [|x a IH]; intros [|y b]; simpl; auto.
    rewrite (cmp_opp x y), (IH b). destruct (cmp x y), (cmp_list a b); reflexivity.
  - induction a as [|x a IH]; intros [|y b] [|z c]; simpl; try discriminate; auto.
    destruct (cmp x y) eqn:E1; destruct (cmp y z) eqn:E2; simpl; try discriminate; intros F G.
    + apply cmp_eq in E1, E2; subst. rewrite cmp_refl. simpl. eapply IH; eauto.
    + apply cmp_eq in E1; subst. now rewrite E2.
    + apply cmp_eq in E2; subst. now rewrite E1.
    + now rewrite (cmp_trans _ _ _ E1 E2).
Defined.
