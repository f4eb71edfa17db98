(** Equal insertions (rule 5): rows that two writers insert at one position, knowing nothing of each other, with
    equal content are one insertion: `crdtcat.head.insertions`.

    An insertion is a chunk of a version; insertions compare as versions and then ordinals do. Two are equal if
    they have the same place (the rows they follow, the content's hash, the columns it is of, and how many such the
    version inserted before) and neither version saw the other. Not knowing of each other is not transitive, so who is equal to
    whom is settled in rising order: each is known as the first that is in the table and that it equals. *)

From Coq Require Import List Bool.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.

Section Insertions.
  Context {Insertion Place : Type} `{Ordered Insertion} `{Ordered Place}.
  Variable place : Insertion -> Place.
  Variable saw : Insertion -> Insertion -> bool.

  Definition unaware (a b : Insertion) : bool := negb (saw a b) && negb (saw b a).
  Definition equal (a b : Insertion) : bool := eqb (place a) (place b) && unaware a b.

  (** Each insertion with the one it is known as; those known as themselves are in the table. *)
  Fixpoint known (firsts rest : list Insertion) : list (Insertion * Insertion) :=
    match rest with
    | [] => []
    | x :: r =>
        match List.find (equal x) firsts with
        | Some f => (x, f) :: known firsts r
        | None => (x, x) :: known (firsts ++ [x]) r
        end
    end.

  Fixpoint kept (firsts rest : list Insertion) : list Insertion :=
    match rest with
    | [] => firsts
    | x :: r => kept (if List.find (equal x) firsts then firsts else firsts ++ [x]) r
    end.

  Definition known_as (s : fset Insertion) : list (Insertion * Insertion) := known [] (members s).
  Definition inserted (s : fset Insertion) : list Insertion := kept [] (members s).

  Lemma equal_sym : forall a b, equal a b = equal b a.
  Proof.
    intros a b. unfold equal, unaware. f_equal; [|apply andb_comm].
    apply eq_true_iff_eq. rewrite !eqb_eq. split; congruence.
  Qed.

  Lemma kept_keeps : forall rest firsts f, In f firsts -> In f (kept firsts rest).
  Proof.
    induction rest as [|x r IH]; intros firsts f I; simpl; auto. apply IH.
    destruct (List.find (equal x) firsts); auto. apply in_or_app. now left.
  Qed.

  Lemma kept_apart : forall rest firsts,
    (forall a b, In a firsts -> In b firsts -> a <> b -> equal a b = false) ->
    forall a b, In a (kept firsts rest) -> In b (kept firsts rest) -> a <> b -> equal a b = false.
  Proof.
    induction rest as [|x r IH]; intros firsts A; simpl; auto. apply IH.
    destruct (List.find (equal x) firsts) eqn:F; auto.
    intros a b I J N. apply in_app_or in I as [I|[<-|[]]]; apply in_app_or in J as [J|[<-|[]]]; auto.
    - rewrite equal_sym. now apply (find_none _ _ F).
    - now apply (find_none _ _ F).
    - now elim N.
  Qed.

  Lemma known_sound : forall rest firsts x f, rising (firsts ++ rest) -> In (x, f) (known firsts rest) ->
    In x rest /\ In f (kept firsts rest) /\
    ((f = x /\ forall g, In g firsts -> equal x g = false) \/ (lt f x /\ equal x f = true)).
  Proof.
    induction rest as [|y r IH]; intros firsts x f R J; simpl in *; [destruct J|].
    assert (L : forall g, In g firsts -> lt g y).
    { intros g G. clear - R G. induction firsts as [|a l IH]; [destruct G|].
      simpl in R. destruct R as [A R]. destruct G as [<-|G]; auto. apply A, in_or_app. right. now left. }
    destruct (List.find (equal y) firsts) as [g|] eqn:F.
    - destruct (find_some _ _ F) as [G E]. destruct J as [[= <- <-]|J].
      + split; [now left|]. split; [now apply kept_keeps|]. right. split; auto.
      + assert (R' : rising (firsts ++ r)).
        { clear - R. induction firsts as [|a l IH]; simpl in *; [tauto|]. destruct R as [A R].
          split; [|now apply IH]. intros b B. apply A. apply in_or_app. apply in_app_or in B as [B|B]; auto.
          right. now right. }
        destruct (IH firsts x f R' J) as [I [K D]]. split; [now right|]. now split.
    - destruct J as [[= <- <-]|J].
      + split; [now left|]. split; [apply kept_keeps, in_or_app; right; now left|].
        left. split; auto. intros g G. now apply (find_none _ _ F).
      + assert (R' : rising ((firsts ++ [y]) ++ r)) by now rewrite <- app_assoc.
        destruct (IH _ x f R' J) as [I [K D]]. split; [now right|]. split; [exact K|].
        destruct D as [[E N]|D]; [left|now right]. split; auto.
        intros g G. apply N, in_or_app. now left.
  Qed.

  Lemma known_all : forall rest firsts, map fst (known firsts rest) = rest.
  Proof.
    induction rest as [|x r IH]; intros firsts; simpl; auto.
    destruct (List.find (equal x) firsts); simpl; now rewrite IH.
  Qed.

  Lemma kept_from : forall rest firsts f, In f (kept firsts rest) -> In f firsts \/ In (f, f) (known firsts rest).
  Proof.
    induction rest as [|x r IH]; intros firsts f K; simpl in *; auto.
    destruct (List.find (equal x) firsts); apply IH in K as [K|K]; auto.
    - right. now right.
    - apply in_app_or in K as [K|[<-|[]]]; auto. right. now left.
    - right. now right.
  Qed.

  (** Of insertions that are equal one is in the table. Each that is not is known as a smaller one that is, and
      that it equals: no rows are lost. One that equals none below it is in the table: no rows are taken for
      others, of a version that knew of them least of all. *)
  Theorem equal_insertions_are_one : forall s,
    (forall a b, In a (inserted s) -> In b (inserted s) -> a <> b -> equal a b = false) /\
    (forall x, mem x s -> exists f, In (x, f) (known_as s) /\ In f (inserted s) /\
       (f = x \/ (lt f x /\ equal x f = true))) /\
    (forall x, mem x s -> (forall y, mem y s -> lt y x -> equal x y = false) -> In x (inserted s)).
  Proof.
    intros s. assert (R : rising ([] ++ members s)) by apply members_rising.
    assert (A : forall x, mem x s -> exists f, In (x, f) (known_as s)).
    { intros x M. apply mem_members in M. rewrite <- (known_all (members s) []) in M.
      apply in_map_iff in M as [[y f] [E K]]. simpl in E. subst. now exists f. }
    split; [|split].
    - apply kept_apart. intros a b [].
    - intros x M. destruct (A x M) as [f K]. exists f. destruct (known_sound _ _ _ _ R K) as [_ [I D]].
      split; auto. split; auto. destruct D as [[E _]|D]; auto.
    - intros x M N. destruct (A x M) as [f K]. destruct (known_sound _ _ _ _ R K) as [_ [I D]].
      destruct D as [[<- _]|[L E]]; auto. exfalso.
      assert (F : mem f s).
      { apply kept_from in I as [[]|I]. apply mem_members. rewrite <- (known_all (members s) []).
        apply in_map_iff. now exists (f, f). }
      rewrite (N f F L) in E. discriminate.
  Qed.

  (** The same content at the same place once more, by somebody who knew of nothing: the table is as it was. *)
  Theorem repeated_insertion_changes_nothing : forall s x f,
    (forall y, mem y s -> lt y x) -> In f (inserted s) -> equal x f = true ->
    inserted (union (single x) s) = inserted s.
  Proof.
    intros s x f L F E. unfold inserted.
    assert (members (union (single x) s) = members s ++ [x]) as ->.
    { apply rising_unique; [apply members_rising | apply rising_end; [apply members_rising|] |].
      - intros a I. now apply L, mem_members.
      - intros r. rewrite <- mem_members, mem_union, mem_single, in_app_iff, <- mem_members. simpl. intuition. }
    assert (G : forall l firsts, In f (kept firsts l) -> kept firsts (l ++ [x]) = kept firsts l).
    { induction l as [|y l IH]; intros firsts K; simpl in *; auto.
      destruct (List.find (equal x) firsts) eqn:N; auto.
      now rewrite (find_none _ _ N f K) in E. }
    now apply G.
  Qed.
End Insertions.
