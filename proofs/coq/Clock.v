(** Hybrid logical clocks, version ids and vector clocks: `crdtcat.clock`.

    A timestamp is one number, 48 bits of milliseconds above 16 bits of counter, so both rules of the clock
    are a maximum. The 64-bit bound is left out: Python raises `LimitExceeded` where it would be passed. *)

From Coq Require Import NArith PArith Lia List.
From Crdtcat Require Import Order Semilattice Fmap.
Import ListNotations.
Local Open Scope N_scope.

(** * The hybrid clock *)
Definition counter_values : N := 65536.
Definition pack (milliseconds counter : N) : N := milliseconds * counter_values + counter.
Definition tick (last physical : N) : N := N.max (last + 1) (pack physical 0).
Definition receive (last remote physical : N) : N := N.max (N.max last remote + 1) (pack physical 0).

(** A tick is above everything the clock gave out or saw, and never behind the wall. *)
Theorem hlc_tick_monotone : forall last physical,
  last < tick last physical /\ pack physical 0 <= tick last physical.
Proof. intros. unfold tick. lia. Qed.

(** A receive is above both sides, equal timestamps included, and never behind the wall. *)
Theorem hlc_receive_monotone : forall last remote physical,
  last < receive last remote physical /\
  remote < receive last remote physical /\
  pack physical 0 <= receive last remote physical.
Proof. intros. unfold receive. lia. Qed.

(** Packed timestamps compare as (milliseconds, counter) pairs do. *)
Theorem hlc_pack_order : forall m c n d, c < counter_values -> d < counter_values ->
  (pack m c < pack n d <-> m < n \/ (m = n /\ c < d)).
Proof. unfold pack, counter_values; intros. nia. Qed.

(** Without news from others the clock runs ahead of the wall only by counting: one per event. *)
Theorem hlc_drift_bounded : forall last physical,
  tick last physical <= N.max (pack physical 0) last + 1.
Proof. intros. unfold tick. lia. Qed.

(** * Runs: timestamps extend happened-before *)
Inductive event : Type :=
| Tick (process physical : N)
| Receive (process physical remote : N).

(** Each process's clock is a number; a run gives every event its timestamp. *)
Definition clocks := N -> N.
Definition set_clock (c : clocks) (p t : N) : clocks := fun q => if N.eqb q p then t else c q.

Definition stamp (c : clocks) (e : event) : N :=
  match e with
  | Tick p w => tick (c p) w
  | Receive p w r => receive (c p) r w
  end.
Definition process (e : event) : N := match e with Tick p _ => p | Receive p _ _ => p end.
Definition step (c : clocks) (e : event) : clocks := set_clock c (process e) (stamp c e).

Lemma clock_never_back : forall es c p, c p <= fold_left step es c p.
Proof.
  induction es as [|e es IH]; simpl; intros c p; [lia|].
  eapply N.le_trans; [|apply IH]. unfold step, set_clock.
  destruct (N.eqb_spec p (process e)) as [->|]; [|lia].
  destruct e as [q w|q w r]; simpl; unfold tick, receive; lia.
Qed.

(** Every later event of a process has a greater timestamp than every earlier one, whatever the walls said. *)
Theorem hlc_extends_process_order : forall c e es f,
  process e = process f -> stamp c e < stamp (fold_left step es (step c e)) f.
Proof.
  intros c e es f P. pose proof (clock_never_back es (step c e) (process f)) as L.
  unfold step at 1 in L. unfold set_clock in L. rewrite P, N.eqb_refl in L.
  destruct f as [q w|q w r]; simpl in *; unfold tick, receive; lia.
Qed.

(** * Version ids: (hlc, writer, seq, digest), compared in that order *)
Definition version_id : Type := (((N * N) * N) * N)%type.

Definition strict_total_order {A} (less : A -> A -> Prop) : Prop :=
  (forall a, ~ less a a) /\
  (forall a b c, less a b -> less b c -> less a c) /\
  (forall a b, less a b \/ a = b \/ less b a).

Theorem version_id_total_order : strict_total_order (lt (K := version_id)).
Proof.
  repeat split; [apply lt_irrefl | intros; eapply lt_trans; eauto | apply lt_total].
Qed.

(** A greater timestamp is a greater id, whatever the rest: the order extends happened-before. *)
Theorem version_id_extends_hlc : forall (h h' w w' s s' d d' : N),
  h < h' -> lt (K := version_id) (h, w, s, d) (h', w', s', d').
Proof.
  intros. unfold lt, cmp; simpl. assert (h ?= h' = Lt) as -> by now apply N.compare_lt_iff. reflexivity.
Qed.

(** Fixed-width big-endian concatenation sorts as the tuples do: file names list in id order. *)
Theorem fixed_width_order : forall width a b c d, b < width -> d < width ->
  (a * width + b ?= c * width + d) = lexicographic (a ?= c) (b ?= d).
Proof.
  intros width a b c d B D. unfold lexicographic. destruct (N.compare_spec a c) as [->|L|L].
  - destruct (N.compare_spec b d) as [->|M|M].
    + apply N.compare_refl.
    + apply N.compare_lt_iff. lia.
    + apply N.compare_gt_iff. lia.
  - apply N.compare_lt_iff. nia.
  - apply N.compare_gt_iff. nia.
Qed.

(** * Vector clocks: writer to greatest sequence number; zeros are not stored, hence [positive] *)
Definition vclock : Type := fmap N positive.
Definition vclock_merge : vclock -> vclock -> vclock := merge Pos.max.
Definition seen (c : vclock) (writer : N) : N :=
  match find writer c with Some n => Npos n | None => 0 end.
Definition saw (c : vclock) (writer seq : N) : Prop := 0 < seq <= seen c writer.

Lemma pos_max_semilattice : is_semilattice Pos.max.
Proof. repeat split; intros; [apply Pos.max_assoc | apply Pos.max_comm | apply Pos.max_id]. Qed.

Theorem vclock_merge_semilattice : is_semilattice vclock_merge.
Proof. apply map_merge_semilattice, pos_max_semilattice. Qed.

Lemma seen_merge : forall a b w, seen (vclock_merge a b) w = N.max (seen a w) (seen b w).
Proof.
  intros a b w. unfold seen, vclock_merge. rewrite find_merge.
  destruct (find w a), (find w b); simpl; lia.
Qed.

(** A clock stands for a set of versions, and merge is the union of the sets. *)
Theorem vclock_merge_is_union : forall a b w n, saw (vclock_merge a b) w n <-> saw a w n \/ saw b w n.
Proof. intros. unfold saw. rewrite seen_merge. lia. Qed.

Definition vclock_le (a b : vclock) : Prop := forall w, seen a w <= seen b w.

Lemma vclock_ext : forall a b, (forall w, seen a w = seen b w) -> a = b.
Proof.
  intros a b E. apply fmap_ext. intros w. specialize (E w). unfold seen in E.
  destruct (find w a), (find w b); congruence.
Qed.

(** Containment is the order that merge induces, and clocks that contain each other are equal. *)
Theorem vclock_le_is_below : forall a b, vclock_le a b <-> below vclock_merge a b.
Proof.
  intros a b. split.
  - intros L. apply vclock_ext. intros w. rewrite seen_merge. specialize (L w). lia.
  - intros E w. rewrite <- E, seen_merge. lia.
Qed.
