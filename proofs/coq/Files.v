(** Files of a log: bundles, collection, paged listing: `crdtcat.format`, `crdtcat.protocol`.

    A name is (rank, rest). Version files have the least rank, bundles sort after them by rank, and a name is
    never used for two contents, so what a file covers is a function of its name ([covers]). A transaction
    file, listed before the table's folder, is a name of a still lower rank: the theorems speak of it too.

    The store here answers at once and in order; what a slow or failing one does is the business of the TLA
    models. Here there is no bound: any number of files, bundlers, collectors and pages. *)

From Coq Require Import NArith List Lia.
From Crdtcat Require Import Order Semilattice Fmap Clock State.
Import ListNotations.

(** * Bundles: two columns, ids and contents, and the coverage is the id column *)
Record bundle : Type := { covered_ids : list version_id; contents : list (list N) }.

Definition decode (b : bundle) : state := of_list (combine (covered_ids b) (contents b)).
Definition encode (s : state) : bundle :=
  {| covered_ids := map fst (members s); contents := map snd (members s) |}.
Definition bundle_of (files : list state) : bundle := encode (join_all state_join none files).

Lemma combine_split : forall {A B} (l : list (A * B)), combine (map fst l) (map snd l) = l.
Proof. induction l as [|[a b] l IH]; simpl; congruence. Qed.

Lemma decode_encode : forall s, decode (encode s) = s.
Proof.
  intros s. apply fset_ext. intros v. unfold decode, encode; simpl.
  rewrite combine_split, mem_of_list. symmetry. apply mem_members.
Qed.

(** A bundle decodes to the join of exactly the files it was made of, and names exactly their versions. *)
Theorem bundle_decodes_to_join : forall files,
  decode (bundle_of files) = join_all state_join none files /\
  (forall i, In i (covered_ids (bundle_of files)) <->
             exists f content, In f files /\ mem (i, content) f).
Proof.
  intros files. split; [apply decode_encode|].
  intros i. unfold bundle_of, encode; simpl. rewrite in_map_iff. split.
  - intros [[j c] [E I]]. simpl in E; subst. apply mem_members, mem_join_all in I as [f [If M]]. eauto.
  - intros [f [c [If M]]]. exists (i, c). split; auto. apply mem_members, mem_join_all. eauto.
Qed.

(** Bundling bundles is bundling what they hold: levels of the log-structured merge change nothing. *)
Theorem bundle_of_bundles : forall files more,
  decode (bundle_of (decode (bundle_of files) :: more)) = decode (bundle_of (files ++ more)).
Proof.
  intros. rewrite !(proj1 (bundle_decodes_to_join _)). simpl.
  symmetry. apply join_all_app; [exact state_join_semilattice | exact union_none].
Qed.

(** Two bundlers that merged the same versions write the same bytes. *)
Theorem bundle_canonical : forall files others,
  (forall v, (exists f, In f files /\ mem v f) <-> (exists f, In f others /\ mem v f)) ->
  bundle_of files = bundle_of others.
Proof.
  intros files others S. unfold bundle_of. f_equal. apply fset_ext. intros v. now rewrite !mem_join_all.
Qed.

(** * Collection *)
Definition name : Type := (N * list N)%type.
Definition rank (n : name) : N := fst n.

Lemma rank_orders : forall a b : name, (rank a < rank b)%N -> lt a b.
Proof.
  intros [r a] [q b] L. unfold rank in L. unfold lt, cmp; simpl in *.
  assert ((r ?= q)%N = Lt) as -> by now apply N.compare_lt_iff. reflexivity.
Qed.

Section Collection.
  Variable covers : name -> state.

  (** [permits f g]: some collector has read back [g] and may delete [f] whenever it gets to it. *)
  Record store : Type := { present : name -> Prop; ever : name -> Prop; permits : name -> name -> Prop }.

  Definition readable (s : store) (v : version) : Prop := exists n, present s n /\ mem v (covers n).

  Inductive step : store -> store -> Prop :=
  | put : forall s n,
      step s {| present := fun m => m = n \/ present s m; ever := fun m => m = n \/ ever s m;
                permits := permits s |}
  | read_back : forall s f g,
      present s g -> subset (covers f) (covers g) -> (rank f < rank g)%N ->
      step s {| present := present s; ever := ever s;
                permits := fun x y => (x = f /\ y = g) \/ permits s x y |}
  | delete : forall s f g, permits s f g ->
      step s {| present := fun m => present s m /\ m <> f; ever := ever s; permits := permits s |}.

  Inductive steps : store -> store -> Prop :=
  | stay : forall s, steps s s
  | more : forall s t u, steps s t -> step t u -> steps s u.

  (** Everything there ever was is covered by something present of at least its rank; and a permission
      names something that was there, covers more, and ranks higher. *)
  Definition safe (s : store) : Prop :=
    (forall x, ever s x ->
       exists y, present s y /\ subset (covers x) (covers y) /\ (rank x <= rank y)%N) /\
    (forall f g, permits s f g -> ever s g /\ subset (covers f) (covers g) /\ (rank f < rank g)%N) /\
    (forall x, present s x -> ever s x).

  Lemma step_safe : forall s t, step s t -> safe s -> safe t.
  Proof.
    intros s t [u n|u f g P C R|u f g P] [E [G I]]; repeat split; simpl in *.
    - intros x [->|X].
      + exists n. split; [now left|]. split; [now intros v | lia].
      + destruct (E x X) as [y [Y S]]. exists y. auto.
    - right. now apply (G f g).
    - now apply (G f g).
    - now apply (G f g).
    - intros x [->|X]; auto.
    - apply E.
    - destruct H as [[-> ->]|H]; auto. now apply (G f0 g0).
    - destruct H as [[-> ->]|H]; auto. now apply (G f0 g0).
    - destruct H as [[-> ->]|H]; auto. now apply (G f0 g0).
    - apply I.
    - intros x X. destruct (G f g P) as [Eg [Cg Rg]]. destruct (E g Eg) as [z [Z [Cz Rz]]].
      assert (z <> f) by (intros ->; lia).
      destruct (E x X) as [y [Y [Cy Ry]]]. destruct (order_dec y f) as [->|N].
      + exists z. repeat split; auto; [|lia]. intros v M. apply Cz, Cg, Cy, M.
      + exists y. auto.
    - now apply (G f0 g0).
    - now apply (G f0 g0).
    - now apply (G f0 g0).
    - intros x [X _]. auto.
  Qed.

  Lemma steps_safe : forall s t, steps s t -> safe s -> safe t.
  Proof. induction 1; auto. intros S. eapply step_safe; eauto. Qed.

  Lemma ever_step : forall s t x, step s t -> ever s x -> ever t x.
  Proof. intros s t x [u n|u f g P C R|u f g P] E; simpl; auto. Qed.

  Lemma ever_steps : forall s t x, steps s t -> ever s x -> ever t x.
  Proof. induction 1; auto. intros; eapply ever_step; eauto. Qed.

  (** Whatever was readable stays readable after every single step of any number of racing bundlers and
      collectors, each acting on a permission that may be arbitrarily old. *)
  Theorem delete_covered_safe : forall s t v, safe s -> steps s t -> readable s v -> readable t v.
  Proof.
    intros s t v Sf St [n [P M]].
    destruct (steps_safe s t St Sf) as [E _].
    destruct (E n) as [y [Y [C _]]].
    - eapply ever_steps; eauto. now apply Sf.
    - exists y. split; auto.
  Qed.

  (** * Paged listing in ascending order, while the store changes under it *)
  Record listing : Type := { objects : store; cursor : option name; got : version -> Prop }.

  Definition beyond (c : option name) (n : name) : Prop :=
    match c with None => True | Some m => lt m n end.
  Definition upto (c : name) (n : name) : Prop := ~ lt c n.

  Inductive listing_step : listing -> listing -> Prop :=
  | others : forall l t, step (objects l) t ->
      listing_step l {| objects := t; cursor := cursor l; got := got l |}
  | page : forall l c, beyond (cursor l) c ->
      listing_step l {| objects := objects l; cursor := Some c;
        got := fun v => got l v \/
          exists n, present (objects l) n /\ beyond (cursor l) n /\ upto c n /\ mem v (covers n) |}.

  Inductive listing_steps : listing -> listing -> Prop :=
  | listing_stay : forall l, listing_steps l l
  | listing_more : forall l m n, listing_steps l m -> listing_step m n -> listing_steps l n.

  Definition on_track (v : version) (l : listing) : Prop :=
    got l v \/ exists n, present (objects l) n /\ beyond (cursor l) n /\ mem v (covers n).

  Lemma beyond_trans : forall c a b, beyond c a -> lt a b -> beyond c b.
  Proof. intros [m|] a b; simpl; auto. intros; eapply lt_trans; eauto. Qed.

  Lemma listing_step_track : forall v l m, safe (objects l) -> listing_step l m ->
    on_track v l -> on_track v m.
  Proof.
    intros v l m Sf LS. revert Sf. destruct LS as [k t St|k c B]; unfold on_track; simpl; intros Sf T.
    - destruct T as [G|[n [P [Bn M]]]]; [now left|]. right.
      inversion St as [u x|u f g Pg C R|u f g Pm]; subst; simpl in *.
      + exists n. auto.
      + exists n. auto.
      + destruct (order_dec n f) as [->|N]; [|exists n; auto].
        destruct Sf as [E [G _]]. destruct (G f g Pm) as [Eg [Cg Rg]].
        destruct (E g Eg) as [z [Z [Cz Rz]]].
        assert (L : lt f z) by (apply rank_orders; lia).
        exists z. split; [split; auto; intros ->; now apply lt_irrefl in L|].
        split; [eapply beyond_trans; eauto | apply Cz, Cg, M].
    - destruct T as [G|[n [P [Bn M]]]]; [left; now left|].
      destruct (cmp c n) eqn:Cmp.
      + left; right. exists n. repeat split; auto. unfold upto, lt. congruence.
      + right. exists n. auto.
      + left; right. exists n. repeat split; auto. unfold upto, lt. congruence.
  Qed.

  Lemma listing_step_safe : forall l m, listing_step l m -> safe (objects l) -> safe (objects m).
  Proof. intros l m [k t St|k c B] S; simpl; auto. eapply step_safe; eauto. Qed.

  (** Acknowledged means readable (P2): what was readable when the listing began is in what it got, once no
      name is left beyond the cursor, however many pages, bundlers and collectors there were. *)
  Theorem listing_complete : forall start last v,
    safe (objects start) -> cursor start = None -> readable (objects start) v ->
    listing_steps start last ->
    (forall n, present (objects last) n -> ~ beyond (cursor last) n) -> got last v.
  Proof.
    intros start last v Sf C R St End.
    assert (I : safe (objects last) /\ on_track v last).
    { clear End. induction St as [l|l m n St IH N].
      - split; auto. right. destruct R as [x [P M]]. exists x. rewrite C. simpl. auto.
      - destruct (IH Sf C R) as [Sm Tm]. split.
        + eapply listing_step_safe; eauto.
        + eapply listing_step_track; eauto. }
    destruct I as [_ [G|[n [P [B _]]]]]; auto. exfalso. eapply End; eauto.
  Qed.
End Collection.
