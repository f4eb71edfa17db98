(** Definitions of a column: a multi-value register. Each definition names those it replaces.

    What holds is every definition that none replaced. It is a function of the set, so all readers agree; a
    definition goes only if one that names it has arrived, and then for ever; concurrent ones stay beside each
    other, and the head takes the greatest and widens it by the rest. *)

From Coq Require Import NArith List Bool.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.

Section Columns.
  Context {Definition_ : Type} `{Ordered Definition_}.
  Variable replaces : Definition_ -> Definition_ -> bool.   (* the first names the second *)

  Definition current (s : fset Definition_) : fset Definition_ :=
    filter_set (fun d => negb (existsb (fun e => replaces e d) (members s))) s.

  Lemma mem_current : forall s d,
    mem d (current s) <-> mem d s /\ forall e, mem e s -> replaces e d = false.
  Proof.
    intros s d. unfold current. rewrite mem_filter, negb_true_iff. split; intros [M N]; split; auto.
    - intros e E. destruct (replaces e d) eqn:R; auto. exfalso.
      assert (existsb (fun e => replaces e d) (members s) = true); [|congruence].
      apply existsb_exists. exists e. split; auto. now apply mem_members.
    - destruct (existsb (fun e => replaces e d) (members s)) eqn:E; auto.
      apply existsb_exists in E as [e [I R]]. rewrite (N e) in R; [discriminate | now apply mem_members].
  Qed.

  (** Replaced is for ever. *)
  Theorem definition_stays_replaced : forall s later e d,
    mem e s -> replaces e d = true -> ~ mem d (current (union s later)).
  Proof.
    intros s later e d E R M. apply mem_current in M as [_ N]. rewrite (N e) in R; [discriminate|].
    apply mem_union. now left.
  Qed.

  (** What nobody has named holds, whatever else arrives: concurrent definitions both do. *)
  Theorem unseen_definition_holds : forall s later d,
    mem d s -> (forall e, mem e (union s later) -> replaces e d = false) -> mem d (current (union s later)).
  Proof. intros s later d M N. apply mem_current. split; auto. apply mem_union. now left. Qed.

  (** It can be computed piece by piece: of what held on either side, what the other side does not replace. *)
  Theorem current_of_union : forall s t d,
    mem d (current (union s t)) <->
    (mem d (current s) /\ forall e, mem e t -> replaces e d = false) \/
    (mem d (current t) /\ forall e, mem e s -> replaces e d = false).
  Proof.
    intros s t d. rewrite !mem_current. split.
    - intros [M N]. apply mem_union in M as [M|M]; [left | right];
        (split; [split; auto|]; intros e E; apply N; apply mem_union; auto).
    - intros [[[M A] B]|[[M A] B]]; (split; [apply mem_union; auto|]); intros e E;
        apply mem_union in E as [E|E]; auto.
  Qed.

  (** The head's type: the greatest definition, widened by the others in falling order where they fit. *)
  Context {Type_ : Type} (type_of : Definition_ -> Type_) (widen : Type_ -> Type_ -> option Type_).

  Definition column_type (s : fset Definition_) : option Type_ :=
    match rev (members (current s)) with
    | [] => None
    | d :: rest =>
        Some (fold_left (fun t e => match widen t (type_of e) with Some w => w | None => t end)
                rest (type_of d))
    end.

  (** Every reader of the same definitions has the same type, and one that holds alone is the type. *)
  Theorem column_type_converges : forall s t : fset Definition_,
    (forall d, mem d s <-> mem d t) -> column_type s = column_type t.
  Proof. intros s t E. now rewrite (fset_ext s t E). Qed.

  Theorem single_definition_is_type : forall s d,
    (forall e, mem e (current s) <-> e = d) -> column_type s = Some (type_of d).
  Proof.
    intros s d Only. unfold column_type.
    assert (current s = single d) as ->.
    { apply fset_ext. intros k. now rewrite mem_single. }
    reflexivity.
  Qed.
End Columns.
