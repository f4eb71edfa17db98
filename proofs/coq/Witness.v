(** Witnesses: the hypotheses of the theorems on collection (Files.v), compaction (Compaction.v) and snapshots
    (State.v) can be met, by stores and histories in which something happens. A theorem about nothing would be
    proved just as well; these are its probes. The other theorems have none here. *)

From Coq Require Import NArith List Bool Lia.
From Crdtcat Require Import Order Semilattice Fmap Clock State Files Compaction.
Import ListNotations.
Local Open Scope N_scope.

(** * Collection: from an empty store to a version file that was deleted, covered by its bundle *)
Definition example_version : version := ((1, 1, 1, 1), [7]).
Definition version_file : name := (0, [1]).
Definition bundle_file : name := (1, [2]).
Definition example_covers (n : name) : state := single example_version.

Definition empty_store : store :=
  {| present := fun _ => False; ever := fun _ => False; permits := fun _ _ => False |}.

Theorem empty_store_safe : safe example_covers empty_store.
Proof. repeat split; simpl in *; try intros; contradiction. Qed.

Theorem deletion_happens : exists s t,
  steps example_covers empty_store s /\ step example_covers s t /\
  present s version_file /\ ~ present t version_file /\ readable example_covers t example_version.
Proof.
  eexists. eexists. split; [|split; [|split; [|split]]].
  - eapply more; [eapply more; [eapply more; [apply stay|]|]|].
    + apply (put example_covers _ version_file).
    + apply (put example_covers _ bundle_file).
    + apply (read_back example_covers _ version_file bundle_file).
      * simpl. now left.
      * now intros v.
      * reflexivity.
  - apply (delete example_covers _ version_file bundle_file). simpl. left. now split.
  - simpl. right. now left.
  - simpl. intros [_ N]. now apply N.
  - exists bundle_file. split.
    + simpl. split; [now left | discriminate].
    + unfold example_covers. now apply mem_single.
Qed.

(** * Snapshots: out of three versions of writer 1 and one of writer 2, a clock picks the first two *)
Definition numbered_version (writer seq : N) : version := ((seq, writer, seq, 0), [seq]).
Definition example_token : state := of_list [numbered_version 1 1; numbered_version 1 2].
Definition example_state : state :=
  of_list [numbered_version 1 1; numbered_version 1 2; numbered_version 1 3; numbered_version 2 1].
Definition example_clock : vclock := insert (fun new _ => new) 1 2%positive empty.

Theorem picking_happens :
  subset example_token example_state /\ numbered example_state /\ gap_free example_token /\
  clock_of example_clock example_token /\ picked example_clock example_state = example_token /\
  example_token <> example_state.
Proof.
  assert (Sub : subset example_token example_state).
  { intros v M. apply mem_of_list in M. apply mem_of_list. simpl in *. tauto. }
  assert (Num : numbered example_state).
  { split.
    - intros v M. apply mem_of_list in M. simpl in M.
      repeat destruct M as [<-|M]; try reflexivity; contradiction.
    - intros u v U V. apply mem_of_list in U, V. simpl in U, V.
      repeat destruct U as [<-|U]; repeat destruct V as [<-|V]; try contradiction; intros W S;
        try reflexivity; try discriminate W; discriminate S. }
  assert (Gap : gap_free example_token).
  { intros v n M L. apply mem_of_list in M. simpl in M.
    repeat destruct M as [<-|M]; try contradiction; simpl in L.
    - exists (numbered_version 1 1). split; [apply mem_of_list; simpl; auto|]. unfold seq_of in *. simpl in *.
      split; [reflexivity | lia].
    - unfold seq_of in L. simpl in L. assert (n = 1 \/ n = 2) as [->| ->] by lia;
        [exists (numbered_version 1 1) | exists (numbered_version 1 2)];
        (split; [apply mem_of_list; simpl; auto | split; reflexivity]). }
  assert (Clock : clock_of example_clock example_token).
  { split.
    - intros v M. apply mem_of_list in M. simpl in M.
      repeat destruct M as [<-|M]; try contradiction; vm_compute; discriminate.
    - intros w. destruct (N.eq_dec w 1) as [->|O].
      + right. exists (numbered_version 1 2). split; [apply mem_of_list; simpl; auto | split; reflexivity].
      + left. unfold seen, example_clock. destruct (find w _) eqn:E; auto.
        apply find_bindings in E. simpl in E. destruct E as [E|[]]. congruence. }
  repeat (split; [assumption|]). split.
  - now apply clock_picks_snapshot.
  - intros E. assert (M : mem (numbered_version 2 1) example_state) by (apply mem_of_list; simpl; auto).
    rewrite <- E in M. apply mem_of_list in M. simpl in M.
    repeat destruct M as [M|M]; try contradiction; discriminate.
Qed.

(** * Compaction: source 3 folded 1 and 2; source 4 is an update it did not see; 5 compacts 3 again *)
Definition example_contributes (x r : N) : option N :=
  match x with 1 => Some 50 | 2 => Some 70 | 3 => Some 70 | 4 => Some 90 | 5 => Some 70 | _ => None end.
Definition example_saw (c : N) : fset N :=
  match c with 3 => of_list [1; 2] | 5 => of_list [1; 2; 3] | _ => none end.
Definition example_replaces (c x r : N) : bool :=
  match c with 3 => (x =? 1) || (x =? 2) | 5 => x =? 3 | _ => false end.
Definition example_compaction (x : N) : bool := (x =? 3) || (x =? 5).
Definition example_removes (x r : N) : bool := false.
Definition example_value := value N.max example_contributes example_removes example_replaces.

Theorem compaction_happens :
  closed N.max example_contributes example_removes example_compaction example_replaces example_saw
    (of_list [1; 2; 3; 4; 5]) /\
  example_value (of_list [1; 2; 3; 4; 5]) 0 = Some 90 /\
  example_value (of_list [1; 2; 3; 5]) 0 = Some 70 /\
  replaced example_replaces (of_list [1; 2; 3; 4; 5]) 0 1 = true /\
  replaced example_replaces (of_list [1; 2; 3; 4; 5]) 0 3 = true.
Proof.
  split; [|repeat split].
  assert (H3 : honest N.max example_contributes example_removes example_replaces example_saw 3 /\
               subset (example_saw 3) (of_list [1; 2; 3; 4; 5])).
  { repeat split.
    - intros x M. apply mem_of_list in M. simpl in M. destruct M as [<-|[<-|[]]]; reflexivity.
    - intros x r R. apply mem_of_list. simpl in R. apply orb_true_iff in R.
      destruct R as [R|R]; apply N.eqb_eq in R; subst; simpl; auto.
    - intros x M. apply mem_of_list in M. apply mem_of_list. simpl in *. tauto. }
  assert (H5 : honest N.max example_contributes example_removes example_replaces example_saw 5 /\
               subset (example_saw 5) (of_list [1; 2; 3; 4; 5])).
  { repeat split.
    - intros x M. apply mem_of_list in M. simpl in M. destruct M as [<-|[<-|[<-|[]]]]; reflexivity.
    - intros x r R. apply mem_of_list. simpl in R. apply N.eqb_eq in R; subst; simpl; auto.
    - intros x M. apply mem_of_list in M. apply mem_of_list. simpl in *. tauto. }
  split.
  - intros c _ K. unfold example_compaction in K. apply orb_true_iff in K.
    destruct K as [K|K]; apply N.eqb_eq in K; subst; auto.
  - intros c x r K. unfold example_compaction in K. apply orb_false_iff in K as [A B].
    apply N.eqb_neq in A, B. unfold example_replaces.
    destruct c as [|p]; auto. destruct p as [[p|[p|p|]|]|p|]; auto; try (now elim A); try (now elim B).
Qed.
