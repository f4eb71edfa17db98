(** Work that was done apart and comes into one line: a fork that is joined to its transaction, a branch in CAS mode
    whose commits are made again.

    What comes in is put at the end, after all that it had not seen. If no write set of one side meets one of the
    other, that is what any other order would have given: nobody can tell that it was done apart. Where both meet
    and the one that comes in shall win, its values are those that are read. Commits made again say which one they
    repeat, their origin: so none comes in twice, however often and over however many branches it is merged. *)

From Coq Require Import NArith List Bool.
From Crdtcat Require Import Order Semilattice Fmap Intervals.
Import ListNotations.

(** * Writes in a line *)
Section Lines.
  Context {V : Type}.
  Let writes : Type := table (V := V).

  Definition run (line : list writes) (t : writes) : writes := fold_left (fun t w => apply w t) line t.

  (** Every way to do both, each in its own order. *)
  Inductive shuffle {A : Type} : list A -> list A -> list A -> Prop :=
  | shuffle_end : shuffle [] [] []
  | shuffle_left : forall x a b l, shuffle a b l -> shuffle (x :: a) b (x :: l)
  | shuffle_right : forall x a b l, shuffle a b l -> shuffle a (x :: b) (x :: l).

  Lemma run_past : forall line (w t : writes),
    (forall u, In u line -> forall r, find r w = None \/ find r u = None) ->
    run line (apply w t) = apply w (run line t).
  Proof.
    induction line as [|u line IH]; intros w t D; simpl; auto.
    rewrite (disjoint_writes_commute u w t).
    - apply IH. intros v I. apply D. now right.
    - intros r. destruct (D u (or_introl eq_refl) r); auto.
  Qed.

  Lemma run_app : forall l m t, run (l ++ m) t = run m (run l t).
  Proof. intros. unfold run. apply fold_left_app. Qed.

  Lemma run_any_order : forall mine theirs line,
    shuffle mine theirs line ->
    (forall w u, In w mine -> In u theirs -> forall r, find r w = None \/ find r u = None) ->
    forall t, run line t = run (theirs ++ mine) t.
  Proof.
    induction 1 as [|w mine theirs line S IH|u mine theirs line S IH]; intros D t; simpl; auto.
    - rewrite IH by (intros; apply D; simpl; auto). rewrite !run_app; simpl. f_equal.
      apply run_past. intros u I. apply D; simpl; auto.
    - apply IH. intros; apply D; simpl; auto.
  Qed.

  (** A change: the intervals it is said to write, and what it writes. *)
  Definition change : Type := (list interval * writes)%type.
  Definition honest (c : change) : Prop := forall r, find r (snd c) <> None -> inside_any r (fst c).

  Definition meets (mine theirs : list change) : bool :=
    existsb (fun a => existsb (fun b => overlap_any (fst a) (fst b)) theirs) mine.

  (** If the overlap test finds nothing, the end of the line is as good a place as any. *)
  Theorem line_any_order : forall mine theirs line t,
    (forall c, In c (mine ++ theirs) -> honest c) -> meets mine theirs = false -> shuffle mine theirs line ->
    run (map snd line) t = run (map snd (theirs ++ mine)) t.
  Proof.
    intros mine theirs line t Hon No S. rewrite map_app. apply run_any_order.
    - clear -S. induction S; simpl; constructor; auto.
    - intros w u W U r. apply in_map_iff in W as [a [<- A]]. apply in_map_iff in U as [b [<- B]].
      destruct (find r (snd a)) eqn:Ea; auto. destruct (find r (snd b)) eqn:Eb; auto. exfalso.
      assert (meets mine theirs = true); [|congruence].
      apply existsb_exists. exists a. split; auto. apply existsb_exists. exists b. split; auto.
      apply overlap_any_exact. exists r.
      split; apply Hon; try (apply in_or_app; auto); congruence.
  Qed.

  (** What comes last is what is read, where it wrote at all; elsewhere all is as it was. *)
  Theorem line_last_wins : forall line t r,
    find r (run line t) = match find r (run line empty) with Some v => Some v | None => find r t end.
  Proof.
    induction line as [|w line IH]; intros t r; simpl; [reflexivity|].
    rewrite (IH (apply w t)), (IH (apply w empty)). unfold apply. rewrite !find_merge.
    destruct (find r (run line empty)); auto. destruct (find r w); simpl; [now destruct (find r t)|].
    now destruct (find r t).
  Qed.
End Lines.

(** * Commits made again, each with its id and its origin *)
Section Repeats.
  Context {Id : Type} `{Ordered Id}.
  Definition commit : Type := (Id * Id)%type.

  Definition origins (l : list commit) : list Id := map snd l.
  Definition has (o : Id) (l : list commit) : bool := existsb (fun c => eqb (snd c) o) l.
  Definition lacking (target source : list commit) : list commit :=
    filter (fun c => negb (has (snd c) target)) source.
  Definition repeated (fresh : Id -> Id) (target source : list commit) : list commit :=
    target ++ map (fun c => (fresh (snd c), snd c)) (lacking target source).

  Lemma has_origin : forall o l, has o l = true <-> In o (origins l).
  Proof.
    intros o l. unfold has, origins. rewrite existsb_exists, in_map_iff. split.
    - intros [c [I E]]. apply eqb_eq in E. eauto.
    - intros [c [E I]]. exists c. split; auto. now apply eqb_eq.
  Qed.

  Lemma origins_repeated : forall fresh t s, origins (repeated fresh t s) = origins t ++ origins (lacking t s).
  Proof. intros. unfold repeated, origins. rewrite map_app, map_map. reflexivity. Qed.

  Lemma in_lacking : forall o t s, In o (origins (lacking t s)) <-> In o (origins s) /\ ~ In o (origins t).
  Proof.
    intros o t s. unfold lacking. unfold origins at 1 2. rewrite !in_map_iff. split.
    - intros [c [<- I]]. apply filter_In in I as [I N]. apply negb_true_iff in N. split; [eauto|].
      intros J. apply has_origin in J. congruence.
    - intros [[c [<- I]] N]. exists c. split; auto. apply filter_In. split; auto. apply negb_true_iff.
      destruct (has (snd c) t) eqn:E; auto. elim N. now apply has_origin.
  Qed.

  (** The target has what either had: which origins are there joins as a set does. *)
  Theorem repeat_is_union : forall fresh t s o,
    In o (origins (repeated fresh t s)) <-> In o (origins t) \/ In o (origins s).
  Proof.
    intros fresh t s o. rewrite origins_repeated, in_app_iff, in_lacking.
    destruct (in_dec order_dec o (origins t)); tauto.
  Qed.

  (** Nothing is there twice. *)
  Theorem repeat_once : forall fresh t s,
    NoDup (origins t) -> NoDup (origins s) -> NoDup (origins (repeated fresh t s)).
  Proof.
    intros fresh t s T S. rewrite origins_repeated.
    assert (L : NoDup (origins (lacking t s))).
    { clear T. unfold lacking, origins in *. induction s as [|c s IH]; simpl in *; [constructor|].
      inversion S as [|? ? N S']; subst. destruct (negb (has (snd c) t)); simpl; auto. constructor; auto.
      intros I. apply N. apply in_map_iff in I as [d [E I]]. apply filter_In in I as [I _].
      apply in_map_iff. eauto. }
    assert (D : forall o, In o (origins t) -> ~ In o (origins (lacking t s)))
      by (intros o I J; apply in_lacking in J; tauto).
    revert D. induction T as [|o l N _ IH]; simpl; intros D; auto. constructor.
    - intros I. apply in_app_or in I as [I|I]; auto. now apply (D o (or_introl eq_refl)).
    - apply IH. intros p I. apply D. now right.
  Qed.

  (** What the target has, under whatever name and by whichever way it came, is not made again. *)
  Theorem repeat_again : forall fresh t s,
    (forall o, In o (origins s) -> In o (origins t)) -> repeated fresh t s = t.
  Proof.
    intros fresh t s Sub. unfold repeated.
    assert (lacking t s = []) as ->; [|apply app_nil_r].
    destruct (lacking t s) as [|c l] eqn:E; auto. exfalso.
    assert (I : In (snd c) (origins (lacking t s))) by (rewrite E; now left).
    apply in_lacking in I as [I N]. auto.
  Qed.

  (** History only grows at its end, by what was lacking, in the order of the branch. *)
  Theorem repeat_extends : forall fresh t s, exists more,
    repeated fresh t s = t ++ more /\
    origins more = filter (fun o => negb (has o t)) (origins s).
  Proof.
    intros fresh t s. exists (map (fun c => (fresh (snd c), snd c)) (lacking t s)). split; auto.
    unfold origins, lacking. rewrite map_map. simpl. induction s as [|c s IH]; simpl; auto.
    destruct (negb (has (snd c) t)); simpl; rewrite IH; reflexivity.
  Qed.
End Repeats.
