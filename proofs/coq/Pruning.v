(** Pruning (rule 9): a scan may leave entries unread, and finds the same rows.

    A row's cell is the greatest contribution of the entries that hold the row and of the overlays on it. An
    entry may be left out if neither it nor any overlay on its rows has a value that the filter could match, and
    if it shares no row with an entry that is read. The second half is needed: leaving out a copy that has the
    newer value would show the older one. *)

From Coq Require Import List Bool.
From Crdtcat Require Import Order Semilattice Fmap Lattices.
Import ListNotations.

Section Pruning.
  Context {Source Row Stamp Value : Type} `{Ordered Source} `{Ordered Stamp} `{Ordered Value}.
  Let cell : Type := (Stamp * Value)%type.
  Variable contributes : Source -> Row -> option cell.
  Variable matches : cell -> bool.
  Variable may : Source -> bool.   (* statistics of an entry, joined with those of the overlays on its rows *)
  Variable entries overlays : list Source.

  Definition holds (e : Source) (r : Row) : Prop := contributes e r <> None.
  Definition share (e f : Source) : Prop := exists r, holds e r /\ holds f r.

  Definition all (sources : list Source) (r : Row) : option cell :=
    join_all (join_option lww_merge) None (map (fun x => contributes x r) sources).

  (** What a reader of some entries shows for a row: nothing, unless one of them holds it. *)
  Definition value (read : list Source) (r : Row) : option cell :=
    match all read r with None => None | Some _ => all (read ++ overlays) r end.

  Definition shown (read : list Source) (r : Row) : option cell :=
    match value read r with Some c => if matches c then Some c else None | None => None end.

  (** The statistics are sound: they cover the entry's own values, and the overlays' on rows it holds. *)
  Definition sound : Prop := forall e r x c,
    In e entries -> holds e r -> In x (e :: overlays) -> contributes x r = Some c -> matches c = true ->
    may e = true.

  (** Entries are read together with all that share a row with one that may match. *)
  Definition together (read : list Source) : Prop :=
    (forall e, In e read -> In e entries) /\
    (forall e, In e entries -> may e = true -> In e read) /\
    (forall e f, In e entries -> In f entries -> may e = true -> share e f -> In f read).

  Let laws : is_semilattice (join_option (lww_merge (S := Stamp) (V := Value))).
  Proof. apply join_option_semilattice, lww_merge_semilattice. Qed.

  Lemma all_one : forall sources r c, all sources r = Some c ->
    exists x, In x sources /\ contributes x r = Some c.
  Proof.
    induction sources as [|x sources IH]; intros r c E; [discriminate|].
    unfold all in E. simpl in E. fold (all sources r) in E.
    destruct (contributes x r) as [a|] eqn:C.
    - destruct (all sources r) as [b|] eqn:B; simpl in E.
      + injection E as E. destruct (max_cases a b) as [[_ F]|[_ F]];
          change (max a b) with (lww_merge a b) in F; rewrite F in E; subst.
        * destruct (IH r c B) as [y [I Y]]. exists y. split; [now right | exact Y].
        * exists x. split; [now left | exact C].
      + injection E as <-. exists x. split; [now left | exact C].
    - simpl in E. destruct (IH r c E) as [y [I Y]]. exists y. split; [now right | exact Y].
  Qed.

  Lemma all_none : forall sources r, all sources r = None <-> forall x, In x sources -> contributes x r = None.
  Proof.
    induction sources as [|x sources IH]; intros r; unfold all; simpl; [tauto|]. fold (all sources r).
    split.
    - destruct (contributes x r) eqn:C; [destruct (all sources r); discriminate|]. simpl. intros E y [<-|I]; auto.
      now apply IH.
    - intros N. rewrite (N x) by auto. simpl. apply IH. auto.
  Qed.

  Lemma all_same : forall l m r,
    (forall x, contributes x r <> None -> In x l <-> In x m) -> all l r = all m r.
  Proof.
    assert (B : forall l m r, (forall x, contributes x r <> None -> In x l -> In x m) ->
      below (join_option lww_merge) (all l r) (all m r)).
    { intros l m r S. apply join_all_least; [exact laws | reflexivity |]. intros a I.
      apply in_map_iff in I as [x [<- I]]. destruct (contributes x r) as [c|] eqn:C; [|reflexivity].
      rewrite <- C. apply join_all_upper; [exact laws|]. apply in_map_iff. exists x. split; auto.
      apply S; auto. congruence. }
    intros l m r S. apply (below_antisym (join_option lww_merge) laws); apply B; intros x C; now apply (S x C).
  Qed.

  Theorem pruning_sound : forall read, sound -> together read ->
    forall r, shown read r = shown entries r.
  Proof.
    intros read So [Sub [May Share]] r. unfold shown, value.
    destruct (existsb (fun e => may e && match contributes e r with Some _ => true | None => false end) entries)
      eqn:E.
    - (* An entry that may match holds the row: every entry that holds it is read. *)
      apply existsb_exists in E as [e [I P]]. apply andb_true_iff in P as [M C].
      destruct (contributes e r) as [c|] eqn:Ce; [clear C|discriminate].
      assert (S : forall x, contributes x r <> None -> In x read <-> In x entries).
      { intros x N. split; auto. intros J. apply (Share e x I J M). exists r. unfold holds.
        split; [congruence | exact N]. }
      rewrite (all_same read entries r S). rewrite (all_same (read ++ overlays) (entries ++ overlays) r); auto.
      intros x N. rewrite !in_app_iff. rewrite (S x N). tauto.
    - (* None does: whatever is shown for the row was judged, and does not match. *)
      assert (No : forall l, (forall e, In e l -> In e entries) ->
        match (match all l r with None => None | Some _ => all (l ++ overlays) r end) with
        | Some c => if matches c then Some c else None | None => None end = None).
      { intros l Sl. destruct (all l r) as [a|] eqn:A; auto.
        destruct (all_one l r a A) as [e [I Ce]].
        destruct (all (l ++ overlays) r) as [c|] eqn:B; auto.
        destruct (matches c) eqn:Mc; auto. exfalso.
        destruct (all_one _ r c B) as [x [J Cx]].
        assert (W : exists f, In f entries /\ holds f r /\ may f = true).
        { apply in_app_iff in J as [J|J].
          - exists x. split; [auto|]. unfold holds. split; [congruence|].
            apply (So x r x c); auto; [unfold holds; congruence | now left].
          - exists e. split; [auto|]. unfold holds. split; [congruence|].
            apply (So e r x c); auto; [unfold holds; congruence | now right]. }
        destruct W as [f [F [Hf Mf]]].
        assert (existsb (fun e => may e && match contributes e r with Some _ => true | None => false end)
                  entries = true); [|congruence].
        apply existsb_exists. exists f. split; auto. rewrite Mf. unfold holds in Hf.
        destruct (contributes f r); [reflexivity | congruence]. }
      rewrite (No read Sub), (No entries); auto.
  Qed.
End Pruning.
