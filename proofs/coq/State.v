(** The state of a table and strong eventual consistency (promise P3): `crdtcat.log`.

    A state is a finite set of versions; a version is its id with its canonical bytes. Join is union. The head
    is *some* function of the state: whatever it computes, equal states give equal heads, so everything that
    is proved about rules (Head.v) holds for every reader alike. *)

From Coq Require Import NArith List Lia.
From Crdtcat Require Import Order Semilattice Fmap Clock.
Import ListNotations.
Local Open Scope N_scope.

Definition version : Type := (version_id * list N)%type.
Definition state : Type := fset version.
Definition state_join : state -> state -> state := union.
Definition state_of : list version -> state := of_list.

Theorem state_join_semilattice : is_semilattice state_join.
Proof. exact union_semilattice. Qed.

(** Joining only adds: nothing a reader holds is lost by merging more. *)
Theorem state_join_grows : forall (s t : state) v, mem v s -> mem v (state_join s t).
Proof. intros s t v M. apply mem_union. now left. Qed.

(** The versions that reached a reader, in any tree of merges of files, are what its state holds. *)
Lemma mem_join_all : forall (files : list state) v,
  mem v (join_all state_join none files) <-> exists f, In f files /\ mem v f.
Proof.
  induction files as [|f files IH]; intros v; simpl.
  - split; [intros M; now apply mem_none in M | intros [f [[] _]]].
  - unfold state_join at 1. rewrite mem_union. rewrite IH. split.
    + intros [M|[g [I M]]]; [exists f | exists g]; auto.
    + intros [g [[->|I] M]]; [now left | right; now exists g].
Qed.

(** Strong eventual consistency. Two readers merge files (each file any set of versions: a version, a bundle,
    a bundle of bundles), in any order, any grouping, any of them more than once. If the versions that
    reached them are the same set, their states are equal, and so is any head computed from them. *)
Theorem strong_eventual_consistency : forall (Head : Type) (head : state -> Head)
    (t u : merge_tree (A := state)),
  (forall v, (exists f, In f (leaves t) /\ mem v f) <-> (exists f, In f (leaves u) /\ mem v f)) ->
  eval state_join none t = eval state_join none u /\
  head (eval state_join none t) = head (eval state_join none u).
Proof.
  intros Head head t u S.
  assert (E : eval state_join none t = eval state_join none u).
  { rewrite !(eval_leaves state_join none state_join_semilattice union_none).
    apply fset_ext. intros v. now rewrite !mem_join_all. }
  split; [exact E | now rewrite E].
Qed.

(** A snapshot is a set of versions; reading it from a larger state gives the snapshot itself (promise P4). *)
Definition snapshot_of (token : fset version) (s : state) : state :=
  filter_set (fun v => memb v token) s.

Theorem snapshot_stable : forall token s later,
  subset token s ->
  snapshot_of token (state_join s later) = snapshot_of token s /\ snapshot_of token s = token.
Proof.
  intros token s later Sub.
  assert (G : forall t, subset token t -> snapshot_of token t = token).
  { intros t St. apply fset_ext. intros v. unfold snapshot_of. rewrite mem_filter, memb_mem.
    split; [tauto | intros M; split; auto]. }
  split; [|now apply G]. rewrite !G; auto. intros v M. apply state_join_grows. now apply Sub.
Qed.

(** * A clock picks a snapshot out of a larger state: writers count without gaps *)
Definition writer_of (v : version) : N := let '(_, w, _, _) := fst v in w.
Definition seq_of (v : version) : N := let '(_, _, n, _) := fst v in n.

(** Every writer counts from 1, and no number twice. *)
Definition numbered (s : state) : Prop :=
  (forall v, mem v s -> 0 < seq_of v) /\
  (forall u v, mem u s -> mem v s -> writer_of u = writer_of v -> seq_of u = seq_of v -> u = v).

(** Whoever holds a version holds all that its writer counted before. A reader makes sure of it. *)
Definition gap_free (s : state) : Prop := forall v n, mem v s -> 0 < n <= seq_of v ->
  exists u, mem u s /\ writer_of u = writer_of v /\ seq_of u = n.

(** The clock of a set: per writer its greatest number there. *)
Definition clock_of (c : vclock) (s : state) : Prop :=
  (forall v, mem v s -> seq_of v <= seen c (writer_of v)) /\
  (forall w, seen c w = 0 \/ exists v, mem v s /\ writer_of v = w /\ seq_of v = seen c w).

Definition picked (c : vclock) (s : state) : state :=
  filter_set (fun v => N.leb (seq_of v) (seen c (writer_of v))) s.

(** However much a state has beside the snapshot, and whatever that sorts before: its clock picks the snapshot. *)
Theorem clock_picks_snapshot : forall c token s,
  subset token s -> numbered s -> gap_free token -> clock_of c token -> picked c s = token.
Proof.
  intros c token s Sub [Positive Once] Gap [Most Least]. apply fset_ext. intros v. unfold picked.
  rewrite mem_filter, N.leb_le. split.
  - intros [M L]. pose proof (Positive v M) as P. destruct (Least (writer_of v)) as [Z|[u [Mu [Wu Nu]]]]; [lia|].
    destruct (Gap u (seq_of v) Mu) as [t [Mt [Wt Nt]]]; [lia|].
    assert (t = v) by (apply Once; auto; congruence). congruence.
  - intros M. auto.
Qed.

(** * Places: where a chunk's bytes are. Inlined rows are let go once a segment holds them *)
Section Places.
  Context {Place : Type} `{Ordered Place}.

  Inductive whereabouts : Type := Inlined | Stored (places : fset Place).

  Definition places_join (a b : whereabouts) : whereabouts :=
    match a, b with
    | Stored p, Stored q => Stored (union p q)
    | Stored p, Inlined => Stored p
    | Inlined, other => other
    end.

  Theorem places_join_semilattice : is_semilattice places_join.
  Proof.
    destruct (union_semilattice (K := Place)) as [A [C I]]. repeat split.
    - intros [|p] [|q] [|r]; simpl; auto. now rewrite A.
    - intros [|p] [|q]; simpl; auto. now rewrite C.
    - intros [|p]; simpl; auto. now rewrite I.
  Qed.

  (** The log as it is kept: versions, and for each chunk of each where it is. *)
  Definition placed : Type := fmap version (fmap N whereabouts).
  Definition placed_join : placed -> placed -> placed := merge (merge places_join).

  Theorem placed_join_semilattice : is_semilattice placed_join.
  Proof. apply map_merge_semilattice, map_merge_semilattice, places_join_semilattice. Qed.

  (** Forgetting the places is forgetting nothing that joins depend on: versions join as before. *)
  Theorem placed_join_versions : forall a b v,
    In v (keys (placed_join a b)) <-> In v (keys a) \/ In v (keys b).
  Proof.
    intros a b v. rewrite <- !find_keys. unfold placed_join. rewrite find_merge. split.
    - intros [x E]. destruct (find v a); [left; eauto|]. destruct (find v b); [right; eauto | discriminate].
    - intros [[x E]|[x E]]; rewrite E; destruct (find v a), (find v b); simpl; eauto.
  Qed.
End Places.

(** * History: all versions in id order, a function of the set (rule 7) *)
Definition history (s : state) : list version := members s.

Fixpoint ascending (l : list version) : Prop :=
  match l with
  | a :: ((b :: _) as r) => lt a b /\ ascending r
  | _ => True
  end.

Theorem history_linear : forall s, ascending (history s) /\ forall v, In v (history s) <-> mem v s.
Proof.
  intros s. split; [|intros v; symmetry; apply mem_members].
  destruct s as [l S]. unfold history, members, keys, bindings; simpl.
  induction l as [|[a []] l IH]; simpl in *; auto.
  destruct l as [|[b []] l]; simpl in *; auto.
  apply Bool.andb_true_iff in S as [A S]. split; [now apply ltb_lt | now apply IH].
Qed.
