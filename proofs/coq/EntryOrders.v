(** Orders of the entries of a dictionary: several, woven into one that keeps all of them.

    Each writer has a list of entries, none twice. Two lists have a common order exactly if no two entries stand in
    them the other way round, and weaving finds one then: it keeps both, adds nothing, and changes nothing if all of
    the second is in the first already. Where neither says what comes first, the first list's entries do: so it matters
    who is first, and readers take writers by rising version. *)

From Coq Require Import NArith List Bool.
From Crdtcat Require Import Order.
Import ListNotations.

Section EntryOrders.
  Context {Entry : Type} `{Ordered Entry}.

  (** What of a list comes before an entry and after it; nothing if the entry is not in it. *)
  Fixpoint cut (e : Entry) (l : list Entry) : option (list Entry * list Entry) :=
    match l with
    | [] => None
    | x :: r => if eqb x e then Some ([], r) else option_map (fun p => (x :: fst p, snd p)) (cut e r)
    end.

  (** [whole] is the first list, [left] what is left of it, [waiting] entries of the second that the first has not. *)
  Fixpoint weave (whole left waiting second : list Entry) : option (list Entry) :=
    match second with
    | [] => Some (left ++ waiting)
    | e :: rest =>
        match cut e left with
        | Some (before, after) => option_map (fun l => before ++ waiting ++ e :: l) (weave whole after [] rest)
        | None => if existsb (eqb e) whole then None else weave whole left (waiting ++ [e]) rest
        end
    end.

  Definition woven (first second : list Entry) : option (list Entry) := weave first first [] second.

  (** The first list lies in the second, in its order. *)
  Inductive within : list Entry -> list Entry -> Prop :=
  | within_nothing : forall l, within [] l
  | within_take : forall x a b, within a b -> within (x :: a) (x :: b)
  | within_skip : forall x a b, within a b -> within a (x :: b).

  Lemma within_refl : forall l, within l l.
  Proof. induction l; constructor; auto. Qed.

  Lemma within_in : forall a b x, within a b -> In x a -> In x b.
  Proof. induction 1; simpl; intros I; [destruct I | destruct I; auto | auto]. Qed.

  Lemma within_before : forall l a b, within a b -> within a (l ++ b).
  Proof. induction l; simpl; auto. intros. constructor. auto. Qed.

  Lemma within_app : forall l a b, within a b -> within (l ++ a) (l ++ b).
  Proof. induction l; simpl; auto. intros. constructor. auto. Qed.

  Lemma within_front : forall a l, within a (a ++ l).
  Proof. induction a; simpl; intros; constructor; auto. Qed.

  Lemma within_trans : forall a b c, within a b -> within b c -> within a c.
  Proof.
    intros a b c A B. revert a A. induction B as [l|x b c B IH|x b c B IH]; intros a A.
    - inversion A. constructor.
    - inversion A; subst; constructor; auto.
    - constructor. auto.
  Qed.

  Lemma cut_some : forall e l before after, cut e l = Some (before, after) -> l = before ++ e :: after.
  Proof.
    induction l as [|x l IH]; simpl; intros before after E; [discriminate|].
    destruct (eqb x e) eqn:Q.
    - apply eqb_eq in Q as ->. injection E as <- <-. reflexivity.
    - destruct (cut e l) as [[b a]|]; [|discriminate]. injection E as <- <-. simpl. f_equal. auto.
  Qed.

  Lemma cut_none : forall e l, cut e l = None <-> ~ In e l.
  Proof.
    induction l as [|x l IH]; simpl; [tauto|]. destruct (eqb x e) eqn:Q.
    - apply eqb_eq in Q as ->. split; [discriminate|]. intros N. elim N. auto.
    - apply eqb_neq in Q. destruct (cut e l) as [[b a]|]; simpl; split; try discriminate; auto.
      + intros N. exfalso. apply N. right. destruct (in_dec order_dec e l) as [I|I]; auto.
        apply IH in I. discriminate.
      + intros _ [E|I]; auto. now apply IH in I.
  Qed.

  Lemma known : forall e l, existsb (eqb e) l = true <-> In e l.
  Proof.
    intros e l. rewrite existsb_exists. split.
    - intros [x [I E]]. apply eqb_eq in E as ->. exact I.
    - intros I. exists e. split; auto. apply eqb_refl.
  Qed.

  Lemma distinct_right : forall a b : list Entry, NoDup (a ++ b) -> NoDup b.
  Proof. induction a; simpl; auto. intros b D. inversion D; auto. Qed.

  Lemma distinct_apart : forall (a b : list Entry) x, NoDup (a ++ b) -> In x a -> ~ In x b.
  Proof.
    induction a as [|y a IH]; intros b x D I J; [destruct I|]. simpl in D. inversion D as [|? ? N D']; subst.
    destruct I as [->|I]; [|now apply (IH b x)]. apply N, in_or_app. now right.
  Qed.

  Lemma distinct_app : forall a b : list Entry,
    NoDup a -> NoDup b -> (forall x, In x a -> ~ In x b) -> NoDup (a ++ b).
  Proof.
    induction a as [|y a IH]; simpl; intros b A B X; auto. inversion A as [|? ? N A']; subst. constructor; auto.
    intros I. apply in_app_or in I as [I|I]; [auto | now apply (X y (or_introl eq_refl))].
  Qed.

  Lemma distinct_left : forall a b : list Entry, NoDup (a ++ b) -> NoDup a.
  Proof.
    induction a as [|y a IH]; intros b D; [constructor|]. simpl in D. inversion D as [|? ? N D']; subst.
    constructor; [|now apply (IH b)]. intros I. apply N, in_or_app. now left.
  Qed.

  Lemma split_once : forall (b a n m : list Entry) e, NoDup (n ++ e :: m) ->
    within (b ++ e :: a) (n ++ e :: m) -> within b n /\ within a m.
  Proof.
    intros b a n. revert b a. induction n as [|x n IH]; intros b a m e D W.
    - simpl in *. inversion D as [|? ? N D']; subst. destruct b as [|y b]; simpl in W.
      + inversion W; subst; [split; [constructor | assumption]|]. exfalso. apply N.
        eapply within_in; eauto. now left.
      + exfalso. inversion W; subst.
        * apply N. eapply within_in; eauto. apply in_or_app. right. now left.
        * apply N. eapply within_in; eauto. right. apply in_or_app. right. now left.
    - simpl in *. inversion D as [|? ? N D']; subst. inversion W as [|y c d W' E F|y c d W' E F]; subst.
      + destruct b; discriminate.
      + destruct b as [|y b]; simpl in E.
        * injection E as -> ->. exfalso. apply N. apply in_or_app. right. now left.
        * injection E as -> ->. destruct (IH b a m e D' W') as [B A]. split; [constructor|]; auto.
      + destruct (IH b a m e D' W') as [B A]. split; [constructor|]; auto.
  Qed.

  Lemma weave_keeps : forall second whole left waiting m,
    (exists gone, whole = gone ++ left) -> NoDup whole -> NoDup (waiting ++ second) ->
    (forall e, In e waiting -> ~ In e whole) -> weave whole left waiting second = Some m ->
    within left m /\ within (waiting ++ second) m /\ NoDup m /\
    (forall e, In e m <-> In e left \/ In e (waiting ++ second)) /\
    (forall e, In e second -> In e whole -> In e left).
  Proof.
    induction second as [|e rest IH]; intros whole left waiting m [gone G] D E A W; simpl in W.
    - injection W as <-. rewrite app_nil_r in *. repeat split.
      + apply within_front.
      + apply within_before, within_refl.
      + apply distinct_app; auto; [subst; now apply distinct_right in D|].
        intros x I J. apply (A x J). subst. apply in_or_app. now right.
      + intros I. now apply in_app_or.
      + intros I. now apply in_or_app.
      + intros x [].
    - destruct (cut e left) as [[before after]|] eqn:C.
      + apply cut_some in C as ->.
        destruct (weave whole after [] rest) as [l|] eqn:R; [|discriminate]. injection W as <-.
        pose proof (distinct_right waiting (e :: rest) E) as Er. inversion Er as [|? ? Nr Dr]; subst.
        destruct (IH (gone ++ before ++ e :: after) after [] l) as [K1 [K2 [K3 [K4 K5]]]];
          [ exists (gone ++ before ++ [e]); now rewrite <- !app_assoc | exact D | exact Dr | intros x [] | exact R |].
        simpl in K2, K4. pose proof (distinct_right gone _ D) as Db.
        assert (Here : forall x, In x (before ++ e :: after) -> In x (gone ++ before ++ e :: after))
          by (intros; apply in_or_app; auto).
        repeat split.
        * apply within_app, within_before. constructor. exact K1.
        * apply within_before, within_app. constructor. exact K2.
        * assert (Ne : ~ In e l).
          { intros I. apply K4 in I as [I|I]; auto. apply NoDup_remove_2 in Db. apply Db, in_or_app. auto. }
          assert (Nb : forall x, In x before -> ~ In x l).
          { intros x I J. apply (distinct_apart before (e :: after) x Db I). right.
            apply K4 in J as [J|J]; auto. apply K5; auto. apply Here, in_or_app. auto. }
          apply distinct_app; [now apply distinct_left in Db | apply distinct_app |].
          -- now apply distinct_left in E.
          -- now constructor.
          -- intros x I [<-|J]; [apply (A e I), Here, in_or_app; right; now left|].
             apply K4 in J as [J|J].
             ++ apply (A x I), Here, in_or_app. right. now right.
             ++ apply (distinct_apart waiting (e :: rest) x E I). now right.
          -- intros x I J. apply in_app_or in J as [J|[<-|J]].
             ++ apply (A x J), Here, in_or_app. auto.
             ++ apply (distinct_apart before (e :: after) e Db I). now left.
             ++ now apply (Nb x).
        * rewrite !in_app_iff. simpl. rewrite K4. tauto.
        * rewrite !in_app_iff. simpl. rewrite K4. tauto.
        * intros x [<-|I] J; apply in_or_app; right; [now left | right; auto].
      + destruct (existsb (eqb e) whole) eqn:X; [discriminate|].
        assert (New : ~ In e whole) by (intros I; apply known in I; congruence).
        assert (Same : waiting ++ e :: rest = (waiting ++ [e]) ++ rest) by (rewrite <- app_assoc; reflexivity).
        destruct (IH whole left (waiting ++ [e]) m) as [K1 [K2 [K3 [K4 K5]]]];
          [ now exists gone | exact D | now rewrite <- Same
          | intros x I; apply in_app_or in I as [I|[<-|[]]]; auto | exact W |].
        rewrite Same. repeat split; auto; try apply K4.
        intros x [<-|I] J; [contradiction | auto].
  Qed.

  (** The result keeps both orders, has every entry of both once, and no other. *)
  Theorem entry_order_keeps_both : forall first second m,
    NoDup first -> NoDup second -> woven first second = Some m ->
    within first m /\ within second m /\ NoDup m /\ forall e, In e m <-> In e first \/ In e second.
  Proof.
    intros first second m F S W. destruct (weave_keeps second first first [] m) as [A [B [C [D _]]]]; auto.
    now exists [].
  Qed.

  Lemma weave_exists : forall second whole left waiting m,
    NoDup m -> within left m -> within second m -> (forall e, In e whole -> In e m -> In e left) ->
    weave whole left waiting second <> None.
  Proof.
    induction second as [|e rest IH]; intros whole left waiting m D L S G; simpl; [discriminate|].
    destruct (cut e left) as [[before after]|] eqn:C.
    - apply cut_some in C as ->.
      destruct (in_split e m) as [n1 [n2 ->]]; [eapply within_in; [exact S | now left]|].
      destruct (split_once before after n1 n2 e D L) as [B A].
      destruct (split_once [] rest n1 n2 e D S) as [_ R].
      assert (N : weave whole after [] rest <> None).
      { apply (IH whole after [] n2); auto.
        - apply distinct_right in D. now inversion D.
        - intros x I J.
          assert (K : In x (before ++ e :: after)) by (apply G; auto; apply in_or_app; right; now right).
          apply in_app_or in K as [K|[<-|K]]; auto; exfalso.
          + apply (distinct_apart n1 (e :: n2) x D); [now apply (within_in before) | now right].
          + apply NoDup_remove_2 in D. apply D, in_or_app. auto. }
      destruct (weave whole after [] rest); [discriminate | congruence].
    - apply cut_none in C. destruct (existsb (eqb e) whole) eqn:X.
      + exfalso. apply C, G; [now apply known | eapply within_in; [exact S | now left]].
      + apply (IH whole left (waiting ++ [e]) m); auto. clear -S. inversion S; subst; [now constructor|].
        eapply within_trans; [|exact S]. apply within_skip, within_refl.
  Qed.

  (** Refused only if there is no order that keeps both: orders contradict each other, or there is a result. *)
  Theorem entry_order_found : forall first second,
    NoDup first -> NoDup second ->
    (woven first second <> None <-> exists m, NoDup m /\ within first m /\ within second m).
  Proof.
    intros first second F S. split.
    - intros N. destruct (woven first second) as [m|] eqn:W; [|congruence].
      destruct (entry_order_keeps_both first second m F S W) as [A [B [C _]]]. eauto.
    - intros [m [D [A B]]]. unfold woven. apply (weave_exists second first first [] m); auto.
  Qed.

  (** Said again, it changes nothing; nor does an order that is kept already. *)
  Theorem entry_order_again : forall first second,
    NoDup first -> within second first -> woven first second = Some first.
  Proof.
    assert (G : forall second whole left,
      NoDup left -> within second left -> weave whole left [] second = Some left).
    { induction second as [|e rest IH]; intros whole left D W; simpl; [now rewrite app_nil_r|].
      destruct (cut e left) as [[before after]|] eqn:C.
      - apply cut_some in C as ->. destruct (split_once [] rest before after e D W) as [_ R].
        rewrite IH; [reflexivity | | exact R].
        apply distinct_right in D. now inversion D.
      - exfalso. apply cut_none in C. apply C. eapply within_in; [exact W | now left]. }
    intros first second. apply G.
  Qed.

  (** All orders, by rising version: each is kept, or one contradicts those before it. *)
  Fixpoint weave_all (so_far : list Entry) (orders : list (list Entry)) : option (list Entry) :=
    match orders with
    | [] => Some so_far
    | one :: more => match woven so_far one with Some m => weave_all m more | None => None end
    end.

  Theorem entry_order_keeps_all : forall orders m,
    Forall (@NoDup Entry) orders -> weave_all [] orders = Some m ->
    NoDup m /\ (forall one, In one orders -> within one m) /\
    forall e, In e m <-> exists one, In one orders /\ In e one.
  Proof.
    assert (G : forall orders so_far m, NoDup so_far -> Forall (@NoDup Entry) orders ->
      weave_all so_far orders = Some m ->
      NoDup m /\ within so_far m /\ (forall one, In one orders -> within one m) /\
      forall e, In e m <-> In e so_far \/ exists one, In one orders /\ In e one).
    { induction orders as [|one more IH]; intros so_far m D F W; simpl in W.
      - injection W as <-. repeat split; auto using within_refl; try tauto.
        + intros one [].
        + intros [I|[one [[] _]]]; auto.
      - inversion F as [|? ? F1 F2]; subst. destruct (woven so_far one) as [n|] eqn:E; [|discriminate].
        destruct (entry_order_keeps_both so_far one n D F1 E) as [A [B [C K]]].
        destruct (IH n m C F2 W) as [D' [N [Each Of]]]. repeat split; auto.
        + eapply within_trans; eauto.
        + intros other [<-|I]; [eapply within_trans; eauto | auto].
        + intros I. apply Of in I as [I|[other [I J]]]; [|right; exists other; simpl; auto].
          apply K in I as [I|I]; auto. right. exists one. simpl. auto.
        + intros [I|[other [[<-|I] J]]]; apply Of; [left; apply K; auto | left; apply K; auto | right; eauto]. }
    intros orders m F W. destruct (G orders [] m (NoDup_nil _) F W) as [D [_ [Each Of]]].
    repeat split; auto.
    - intros I. apply Of in I as [[]|I]. exact I.
    - intros I. apply Of. now right.
  Qed.
End EntryOrders.

(** Who is first matters, where neither says what comes first. *)
Theorem entry_order_by_version : exists a b : list N, woven a b <> woven b a.
Proof. exists [1%N], [2%N]. discriminate. Qed.

(** And what was decided so holds: who says otherwise later contradicts it, though nobody had said it. *)
Theorem entry_order_one_by_one : exists (orders : list (list N)) (m : list N),
  NoDup m /\ (forall one, In one orders -> within one m) /\ weave_all [] orders = None.
Proof.
  exists [[1%N]; [2%N]; [2%N; 1%N]], [2%N; 1%N]. repeat split; auto.
  - repeat constructor; simpl; intuition discriminate.
  - intros one [<-|[<-|[<-|[]]]]; repeat constructor.
Qed.
