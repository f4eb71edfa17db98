(** Sets of numbers as runs [start, stop): one canonical form, and exact union, intersection, difference.

    Canonical: no run is empty, and each ends before the next begins, without touching it. A set has one such
    form ([interval_form_unique]), so laws about sets are equations between lists: `crdtcat.intervals`. *)

From Coq Require Import NArith List Lia Bool.
From Crdtcat Require Import Semilattice.
Import ListNotations.
Local Open Scope N_scope.

Definition run : Type := (N * N)%type.

Fixpoint holds (x : N) (l : list run) : Prop :=
  match l with [] => False | (a, b) :: r => (a <= x < b) \/ holds x r end.

Definition above (x : N) (l : list run) : Prop := match l with [] => True | (a, _) :: _ => x < a end.

Fixpoint canonical (l : list run) : Prop :=
  match l with [] => True | (a, b) :: r => a < b /\ above b r /\ canonical r end.

Lemma canonical_above : forall l x y, canonical l -> above x l -> holds y l -> x < y.
Proof.
  induction l as [|[a b] l IH]; simpl; [tauto|]. intros x y [L [A C]] X [H|H]; [lia|].
  assert (b < y) by (apply IH; auto). lia.
Qed.

(** Equal members, equal lists. *)
Theorem interval_form_unique : forall l m, canonical l -> canonical m ->
  (forall x, holds x l <-> holds x m) -> l = m.
Proof.
  induction l as [|[a b] l IH]; intros [|[c d] m] Cl Cm S; auto.
  - exfalso. apply (S c). simpl in Cm. destruct Cm as [L _]. left. lia.
  - exfalso. apply (S a). simpl in Cl. destruct Cl as [L _]. left. lia.
  - simpl in Cl, Cm. destruct Cl as [Lab [Al Cl]], Cm as [Lcd [Am Cm]].
    assert (Low : forall x, holds x l -> b < x) by (intros x Hx; exact (canonical_above l b x Cl Al Hx)).
    assert (Lom : forall x, holds x m -> d < x) by (intros x Hx; exact (canonical_above m d x Cm Am Hx)).
    assert (Fa : (c <= a < d) \/ holds a m) by (apply (S a); left; lia).
    assert (Fc : (a <= c < b) \/ holds c l) by (apply (S c); left; lia).
    assert (a = c) as ->.
    { destruct Fa as [Fa|Fa]; [|apply Lom in Fa]; (destruct Fc as [Fc|Fc]; [|apply Low in Fc]); lia. }
    assert (b = d) as ->.
    { destruct (N.lt_trichotomy b d) as [L|[E|L]]; auto; exfalso.
      - assert (G : (c <= b < b) \/ holds b l) by (apply (S b); left; lia).
        destruct G as [G|G]; [|apply Low in G]; lia.
      - assert (G : (c <= d < d) \/ holds d m) by (apply (S d); left; lia).
        destruct G as [G|G]; [|apply Lom in G]; lia. }
    f_equal. apply IH; auto. intros x. split; intros I.
    + pose proof (Low x I). destruct (proj1 (S x) (or_intror I)); auto. lia.
    + pose proof (Lom x I). destruct (proj2 (S x) (or_intror I)); auto. lia.
Qed.

(** * Joining runs into the canonical form *)
Fixpoint add (s e : N) (l : list run) : list run :=
  match l with
  | [] => [(s, e)]
  | (a, b) :: r =>
      if e <? a then (s, e) :: l
      else if b <? s then (a, b) :: add s e r
      else add (N.min s a) (N.max e b) r
  end.

Lemma above_add : forall l s e x, canonical l -> x < s -> above x l -> above x (add s e l).
Proof.
  induction l as [|[a b] l IH]; simpl; auto. intros s e x [L [A C]] S X.
  destruct (e <? a) eqn:E; simpl; auto. destruct (b <? s) eqn:B; simpl; auto.
  apply IH; auto; [lia|]. destruct l as [|[c d] l]; simpl in *; auto. lia.
Qed.

Lemma canonical_add : forall l s e, s < e -> canonical l -> canonical (add s e l).
Proof.
  induction l as [|[a b] l IH]; simpl; auto. intros s e S [L [A C]].
  destruct (e <? a) eqn:E; [apply N.ltb_lt in E; simpl; auto|].
  destruct (b <? s) eqn:B; simpl.
  - apply N.ltb_lt in B. repeat split; auto. now apply above_add.
  - apply IH; auto. lia.
Qed.

Lemma holds_add : forall l s e x, s < e -> canonical l -> holds x (add s e l) <-> (s <= x < e) \/ holds x l.
Proof.
  induction l as [|[a b] l IH]; simpl; [tauto|]. intros s e x S [L [A C]].
  destruct (e <? a) eqn:E; simpl; [tauto|]. destruct (b <? s) eqn:B; simpl.
  - rewrite IH; auto. tauto.
  - rewrite IH; auto; [|lia]. apply N.ltb_ge in E, B.
    assert (N.min s a <= x < N.max e b <-> (s <= x < e) \/ (a <= x < b)) by lia. tauto.
Qed.

Fixpoint normal (l : list run) : list run :=
  match l with [] => [] | (s, e) :: r => if s <? e then add s e (normal r) else normal r end.

Lemma normal_canonical : forall l, canonical (normal l).
Proof.
  induction l as [|[s e] l IH]; simpl; auto. destruct (s <? e) eqn:E; auto.
  apply canonical_add; auto. now apply N.ltb_lt.
Qed.

Lemma normal_holds : forall l x, holds x (normal l) <-> holds x l.
Proof.
  induction l as [|[s e] l IH]; simpl; [tauto|]. intros x. destruct (s <? e) eqn:E.
  - rewrite holds_add; [now rewrite IH | now apply N.ltb_lt | apply normal_canonical].
  - apply N.ltb_ge in E. rewrite IH. split; auto. intros [F|F]; auto. lia.
Qed.

(** * The operations *)
Definition union (l m : list run) : list run := normal (l ++ m).

Definition common (a b : run) : run := (N.max (fst a) (fst b), N.min (snd a) (snd b)).
Definition intersection (l m : list run) : list run := normal (flat_map (fun a => map (common a) m) l).

Definition cut (hole a : run) : list run :=
  [(fst a, N.min (snd a) (fst hole)); (N.max (fst a) (snd hole), snd a)].
Definition difference (l m : list run) : list run :=
  normal (fold_left (fun rest hole => flat_map (cut hole) rest) (normal m) l).

Lemma holds_app : forall l m x, holds x (l ++ m) <-> holds x l \/ holds x m.
Proof. induction l as [|[a b] l IH]; simpl; intros m x; [tauto|]. rewrite IH. tauto. Qed.

Theorem interval_union_exact : forall l m x, holds x (union l m) <-> holds x l \/ holds x m.
Proof. intros. unfold union. rewrite normal_holds. apply holds_app. Qed.

Lemma holds_common : forall a m x, holds x (map (common a) m) <-> (fst a <= x < snd a) /\ holds x m.
Proof.
  intros a m x. induction m as [|[c d] m IH]; simpl; [tauto|]. rewrite IH. simpl.
  assert (N.max (fst a) c <= x < N.min (snd a) d <-> (fst a <= x < snd a) /\ (c <= x < d)) by lia. tauto.
Qed.

Theorem interval_intersection_exact : forall l m x, holds x (intersection l m) <-> holds x l /\ holds x m.
Proof.
  intros l m x. unfold intersection. rewrite normal_holds. induction l as [|[a b] l IH]; simpl; [tauto|].
  rewrite holds_app, IH, holds_common. simpl. tauto.
Qed.

Lemma holds_cut : forall hole l x, fst hole < snd hole ->
  holds x (flat_map (cut hole) l) <-> holds x l /\ ~ (fst hole <= x < snd hole).
Proof.
  intros [c d] l x L. simpl in L. induction l as [|[a b] l IH]; [simpl; tauto|].
  change (flat_map (cut (c, d)) ((a, b) :: l)) with (cut (c, d) (a, b) ++ flat_map (cut (c, d)) l).
  rewrite holds_app, IH. simpl.
  assert ((a <= x < N.min b c \/ N.max a d <= x < b \/ False) <-> (a <= x < b) /\ ~ (c <= x < d)) by lia.
  tauto.
Qed.

Theorem interval_difference_exact : forall l m x, holds x (difference l m) <-> holds x l /\ ~ holds x m.
Proof.
  intros l m x. unfold difference. rewrite normal_holds. rewrite <- (normal_holds m).
  assert (C : canonical (normal m)) by apply normal_canonical.
  generalize dependent (normal m). clear m. intros m. revert l.
  induction m as [|[c d] m IH]; intros l C; simpl; [tauto|].
  simpl in C. destruct C as [L [_ C]]. rewrite IH by auto. rewrite holds_cut by auto. simpl. tauto.
Qed.

Lemma by_members : forall l m, canonical l -> canonical m -> (forall x, holds x l <-> holds x m) -> l = m.
Proof. exact interval_form_unique. Qed.

(** * Laws, as equations *)
Theorem interval_union_laws : forall l m k,
  union l (union m k) = union (union l m) k /\ union l m = union m l /\ (canonical l -> union l l = l).
Proof.
  intros l m k. split; [|split]; [| |intros C]; apply by_members; auto; try apply normal_canonical; intros x;
    rewrite ?interval_union_exact; tauto.
Qed.

Lemma holds_dec : forall l x, holds x l \/ ~ holds x l.
Proof.
  induction l as [|[a b] l IH]; simpl; intros x; [tauto|]. specialize (IH x).
  assert ((a <= x < b) \/ ~ (a <= x < b)) by lia. tauto.
Qed.

Theorem interval_set_laws : forall l m k,
  intersection l m = intersection m l /\
  intersection l (intersection m k) = intersection (intersection l m) k /\
  intersection l (union m k) = union (intersection l m) (intersection l k) /\
  difference l (union m k) = difference (difference l m) k /\
  difference (union l m) k = union (difference l k) (difference m k) /\
  intersection (difference l m) m = [] /\
  (canonical l -> union (difference l m) (intersection l m) = l).
Proof.
  intros l m k. repeat split; try intros C; apply by_members; auto; try apply normal_canonical;
    try exact I; intros x; pose proof (holds_dec m x);
    repeat rewrite ?interval_union_exact, ?interval_intersection_exact, ?interval_difference_exact;
    simpl; tauto.
Qed.

(** Overlap is that the intersection is not empty. *)
Theorem interval_overlap_exact : forall l m,
  intersection l m <> [] <-> exists x, holds x l /\ holds x m.
Proof.
  intros l m. split.
  - intros N. destruct (intersection l m) as [|[a b] r] eqn:E; [congruence|]. exists a.
    apply interval_intersection_exact. rewrite E. simpl. left.
    assert (C : canonical (intersection l m)) by apply normal_canonical. rewrite E in C. simpl in C. lia.
  - intros [x H] E. apply interval_intersection_exact in H. rewrite E in H. exact H.
Qed.
