(* Answers questions about the extracted model, one per line: an operation and its arguments as JSON arrays of
   numbers. See ../vectors.py for what each operation means. *)

type json = Number of int | Array of json list

let parse text =
  let at = ref 0 in
  let skip () = while !at < String.length text && text.[!at] = ' ' do incr at done in
  let rec value () =
    skip ();
    if text.[!at] = '[' then begin incr at; Array (items []) end
    else begin
      let start = !at in
      while !at < String.length text && (match text.[!at] with '0' .. '9' -> true | _ -> false) do incr at done;
      Number (int_of_string (String.sub text start (!at - start)))
    end
  and items found =
    skip ();
    match text.[!at] with
    | ']' -> incr at; List.rev found
    | ',' -> incr at; items found
    | _ -> let one = value () in items (one :: found)
  in
  value ()

let rec print = function
  | Number n -> string_of_int n
  | Array l -> "[" ^ String.concat "," (List.map print l) ^ "]"

let number = function Number n -> n | Array _ -> failwith "expected a number"
let list = function Array l -> l | Number _ -> failwith "expected an array"
let numbers j = List.map number (list j)
let pair j = match numbers j with [a; b] -> (a, b) | _ -> failwith "expected a pair"
let pairs j = List.map pair (list j)
let of_pair (a, b) = Array [Number a; Number b]
let of_pairs l = Array (List.map of_pair l)

let set j =
  match list j with
  | [live; removed] ->
      Model.sets_of
        (List.map (fun (d, e) -> (d, Model.Live e)) (pairs live)
        @ List.map (fun d -> (d, Model.Removed)) (numbers removed))
  | _ -> failwith "a set is its live dots and its removed dots"

let of_set s =
  let held = Model.bindings Model.ordered_N s in
  let live = List.filter_map (function d, Model.Live e -> Some (d, e) | _, Model.Removed -> None) held in
  let removed = List.filter_map (function d, Model.Removed -> Some (Number d) | _ -> None) held in
  Array [of_pairs live; Array removed]

let triple j = match numbers j with [k; s; v] -> (k, (s, v)) | _ -> failwith "expected a triple"
let registers j = Model.registers_of (List.map triple (list j))

let of_registers m =
  Array (List.map (fun (k, (s, v)) -> Array [Number k; Number s; Number v]) (Model.bindings Model.ordered_N m))

(* One version: time, writer, count, key, row it adds, scope, partition, rows it deletes, properties it sets. *)
let head j =
  let parts = List.map (fun v -> Array.of_list (list v)) (list j) in
  let version p = ((((number p.(0), number p.(1)), number p.(2)), 0), []) in
  let known = List.map (fun p -> (version p, p)) parts in
  let of_version v = List.assoc v known in
  let key v = match number (of_version v).(3) with 0 -> None | k -> Some k in
  let row v = number (of_version v).(4) in
  let adds v r = r <> 0 && row v = r in
  let partition r = number (snd (List.find (fun (v, _) -> row v = r) known)).(6) in
  let scope v =
    match number (of_version v).(5) with
    | 0 -> None
    | 1 -> Some (fun _ -> true)
    | p -> Some (fun r -> partition r = p - 2)
  in
  let deletes v r = List.mem r (numbers (of_version v).(7)) in
  let writes v _ c = List.assoc_opt c (pairs (of_version v).(8)) in
  let state = Model.versions_of (List.map fst known) in
  let rows = List.sort_uniq compare (List.filter (fun r -> r <> 0) (List.map (fun (v, _) -> row v) known)) in
  let names = List.sort_uniq compare (List.concat_map (fun p -> List.map fst (pairs p.(8))) parts) in
  let values =
    List.filter_map
      (fun c -> Option.map (fun (_, x) -> (c, x)) (Model.head_cell key writes state 0 c))
      names
  in
  Array
    [ Array (List.map (fun (v, _) -> Number (if Model.head_standing key state v then 1 else 0)) known);
      Array (List.map (fun r -> Number r) (List.filter (Model.head_alive key adds deletes scope state) rows));
      of_pairs values ]

let order j =
  let id v = match numbers v with [h; w; s; d] -> (((h, w), s), d) | _ -> failwith "expected an id" in
  let back (((h, w), s), d) = Array (List.map (fun n -> Number n) [h; w; s; d]) in
  Array (List.map back (Model.order_ids (List.map id (list j))))

(* One version: time, columns it writes (1, 2 or both), rows as key and two values, keys it deletes. Ids go by
   time, then by place in the list. *)
let keyed j =
  let table at v =
    match list v with
    | [time; mask; rows; gone] ->
        let stamp = (number time * 64) + at in
        let cells row =
          match numbers row with
          | [k; a; b] ->
              List.filter_map
                (fun (c, x) -> if number mask land c <> 0 then Some ((k, c), (stamp, x)) else None)
                [(1, a); (2, b)]
          | _ -> failwith "a row is its key and two values"
        in
        Model.table_of (List.concat_map cells (list rows)) (List.map (fun k -> (k, stamp)) (numbers gone))
    | _ -> failwith "a version is time, columns, rows, deleted keys"
  in
  let merged = Model.tables_join (List.mapi table (list j)) in
  let keys v = match list v with [_; _; rows; _] -> List.map (fun r -> List.hd (numbers r)) (list rows) | _ -> [] in
  let cell k c = match Model.table_read merged k c with Some x -> x | None -> 0 in
  Array
    (List.filter_map
       (fun k ->
         let a, b = (cell k 1, cell k 2) in
         if a = 0 && b = 0 then None else Some (Array [Number k; Number a; Number b]))
       (List.sort_uniq compare (List.concat_map keys (list j))))

(* The widest type of two, 0 for none, as a table; then definitions: time, type, places of those replaced. *)
let column wider definitions =
  let wider = Array.of_list (List.map (fun row -> Array.of_list (numbers row)) (list wider)) in
  let parsed =
    List.mapi
      (fun at d ->
        match list d with
        | [time; kind; ended] -> ((number time * 64) + at, (number kind, numbers ended))
        | _ -> failwith "a definition is time, type, what it replaces")
      (list definitions)
  in
  let ids = Array.of_list (List.map fst parsed) in
  let replaces e d = List.exists (fun at -> ids.(at) = d) (snd (List.assoc e parsed)) in
  let widen t u = match wider.(t - 1).(u - 1) with 0 -> None | w -> Some w in
  let kind d = fst (List.assoc d parsed) in
  Number (Option.value ~default:0 (Model.type_of_column replaces kind widen (List.map fst parsed)))

(* One version: time, how many rows it adds, the row they follow, 0 for none. Rows are numbered from 1. Of what
   follows one row the later comes first. *)
let positions j =
  let last = 1 lsl 40 in
  let add (at, known) v =
    match numbers v with
    | [time; count; after] ->
        let id = (time * 64) + at in
        let before = if after = 0 then [id] else List.assoc after known @ [last - id] in
        let first = List.length known + 1 in
        (at + 1, known @ List.init count (fun n -> (first + n, before @ [n])))
    | _ -> failwith "a version is time, rows, what they follow"
  in
  let _, known = List.fold_left add (0, []) (list j) in
  let row path = Number (fst (List.find (fun (_, p) -> p = path) known)) in
  Array (List.map row (Model.rows_in_order (List.map (fun (_, p) -> [p]) known)))

(* One version: time, places of those it saw, insertions as the row they follow and their content. Insertions are
   numbered from 1 as they are listed; in the model they go by time, place and ordinal. *)
let insertions j =
  let version at v =
    match list v with
    | [time; seen; made] ->
        let occurrence = Hashtbl.create 4 in
        let number ordinal m =
          let before = Option.value ~default:0 (Hashtbl.find_opt occurrence m) in
          Hashtbl.replace occurrence m (before + 1);
          ((((number time * 64) + at) * 8) + ordinal, (at, numbers m @ [before + 1]))
        in
        (numbers seen, List.mapi number (list made))
    | _ -> failwith "a version is time, what it saw, insertions"
  in
  let versions = Array.of_list (List.mapi version (list j)) in
  let known = List.concat_map snd (Array.to_list versions) in
  let by x = fst (List.assoc x known) in
  let saw x y = by x = by y || List.mem (by y) (fst versions.(by x)) in
  let place x = snd (List.assoc x known) in
  let names, kept = Model.insertions_known place saw (List.map fst known) in
  let listed = List.mapi (fun at (x, _) -> (x, at + 1)) known in
  Array
    [ Array (List.map (fun (x, _) -> Number (List.assoc (List.assoc x names) listed)) known);
      Number (List.length kept) ]

(* Versions as for a head: the places of those that stand, counted from 1, in the order of history. *)
let history j =
  let known =
    List.mapi
      (fun at v ->
        let p = Array.of_list (list v) in
        (((((number p.(0), number p.(1)), number p.(2)), 0), []), (at + 1, number p.(3))))
      (list j)
  in
  let key v = match snd (List.assoc v known) with 0 -> None | k -> Some k in
  let found = Model.history_standing key (Model.versions_of (List.map fst known)) in
  Array (List.map (fun v -> Number (fst (List.assoc v known))) found)

let overlap a b =
  let interval i =
    match numbers i with
    | [tag; start; stop] -> { Model.tag; Model.start; Model.stop }
    | _ -> failwith "an interval is tag, start, stop"
  in
  let intervals j = List.map interval (list j) in
  Number (if Model.intervals_overlap (intervals a) (intervals b) then 1 else 0)

(* Versions: time, writer, count, content; files, and more files: places of versions in the first list. The ids that a
   bundle of the files covers, and what it decodes to once it is in a bundle with the others. *)
let plain_version v =
  match numbers v with
  | [time; writer; count; content] -> ((((time, writer), count), 0), [content])
  | _ -> failwith "a version is time, writer, count, content"

let of_id (((time, writer), count), _) = [time; writer; count]
let of_numbers l = Array (List.map (fun n -> Number n) l)

let bundle versions files more =
  let known = Array.of_list (List.map plain_version (list versions)) in
  let parsed j = List.map (fun f -> List.map (fun at -> known.(at)) (numbers f)) (list j) in
  Array
    [ Array (List.map (fun i -> of_numbers (of_id i)) (Model.bundle_covers (parsed files)));
      Array (List.map (fun (i, c) -> of_numbers (of_id i @ c)) (Model.bundle_again (parsed files) (parsed more))) ]

(* Versions as for a bundle; a horizon; places of those that the expiry found, and of those that are there later. *)
let expired versions horizon found later =
  let known = Array.of_list (List.map plain_version (list versions)) in
  let parsed j = List.map (fun at -> known.(at)) (numbers j) in
  let seen = Model.expired_view (((number horizon, 0), 0), 0) (parsed found) (parsed later) in
  Array (List.map (fun (i, c) -> of_numbers (of_id i @ c)) seen)

(* Whose commits a bundle covers, and files [number, whose]: whose the numbers are, from 1 to the last. *)
let claims bundled files =
  let bundled = numbers bundled in
  let files = List.map (fun (n, c) -> (n - 1, c)) (pairs files) in
  let rec from n =
    match Model.claims_history bundled files n with None -> [] | Some c -> Number c :: from (n + 1)
  in
  Array (from 0)

(* What happened, in order: [what, side, row, value]. 0 appends a row, 1 updates it, 2 deletes it, 3 compacts what a side
   has, 4 gives both sides what either has. The rows of both in the end. *)
let compacted j =
  let happened = Array.of_list (List.map (fun e -> Array.of_list (numbers e)) (list j)) in
  let what n = happened.(n).(0) in
  let rows = List.sort_uniq compare (List.filter_map (fun e -> if e.(0) = 0 then Some e.(2) else None) (Array.to_list happened)) in
  let saw = Hashtbl.create 8 in
  let seen c = Option.value ~default:[] (Hashtbl.find_opt saw c) in
  let removes n r = what n = 2 && happened.(n).(2) = r in
  let rec contributes n r =
    match what n with
    | 0 | 1 -> if happened.(n).(2) = r then Some (n, happened.(n).(3)) else None
    | 3 when not (Model.compacted_deleted removes (seen n) r) ->
        Model.compaction_writes (List.map (fun x -> contributes x r) (List.filter (fun x -> replaces n x r) (seen n)))
    | _ -> None
  and replaces c x _ = what c = 3 && what x <> 2 && List.mem x (seen c) in
  let sides = [| []; [] |] in
  Array.iteri
    (fun n e ->
      if e.(0) = 4 then begin
        let both = List.sort_uniq compare (sides.(0) @ sides.(1)) in
        sides.(0) <- both; sides.(1) <- both
      end else begin
        if e.(0) = 3 then Hashtbl.replace saw n sides.(e.(1));
        sides.(e.(1)) <- sides.(e.(1)) @ [n]
      end)
    happened;
  let all = List.sort_uniq compare (sides.(0) @ sides.(1)) in
  of_pairs (List.filter_map (fun r -> Option.map (fun (_, x) -> (r, x)) (Model.compacted_value contributes removes replaces all r)) rows)

(* Entries, each values of rows that are numbered from 1 throughout; updates [row, value]; bounds of a filter. *)
let pruned entries updates low high =
  let entries = List.map numbers (list entries) in
  let add (at, first, made) values =
    (at + 1, first + List.length values, made @ [(at, List.mapi (fun n x -> (first + n, x)) values)]) in
  let count, after, made = List.fold_left add (0, 1, []) entries in
  let overlays = List.mapi (fun n u -> (count + n, [u])) (pairs updates) in
  let contributes x r = Option.map (fun v -> (x, v)) (List.assoc_opt r (List.assoc x (made @ overlays))) in
  let matches (_, x) = number low <= x && x <= number high in
  let shown r = Model.pruned_shown contributes matches (List.map fst overlays) (List.map fst made) r in
  let rows = List.init (after - 1) (fun n -> n + 1) in
  of_pairs (List.filter_map (fun r -> Option.map (fun (_, x) -> (r, x)) (shown r)) rows)

(* Runs of rows: least, greatest, nulls, rows; a bound is one more than it is, 0 if it is not known. *)
let statistics j =
  let bound n = if n = 0 then None else Some (n - 1) in
  let back = function None -> 0 | Some n -> n + 1 in
  let part p =
    match numbers p with
    | [low; high; nulls; rows] -> ((bound low, bound high), (nulls, rows))
    | _ -> failwith "a run of rows is least, greatest, nulls, rows"
  in
  let (low, high), nulls = Model.statistics_of (List.map part (list j)) in
  of_numbers [back low; back high; nulls]

(* Lists of entries: all of them in one, alone in a list; nothing if they contradict each other. *)
let orders j =
  match Model.entries_woven (List.map numbers (list j)) with
  | Some entries -> Array [of_numbers entries]
  | None -> Array []

(* How many rows there are, all 0; what was staged since a fork was made, and what the fork has staged: start, count, value.
   1 if the fork shall win. The rows once it is joined; nothing if both touched one and it shall not win. *)
let joined rows theirs mine wins =
  let change c =
    match numbers c with
    | [start; count; value] ->
        ([{ Model.tag = 0; Model.start = start; Model.stop = start + count }], List.init count (fun n -> (start + n, value)))
    | _ -> failwith "a change is start, count, value"
  in
  let changes j = List.map change (list j) in
  match Model.fork_joined (number wins = 1) (List.init (number rows) (fun n -> (n, 0))) (changes theirs) (changes mine) with
  | Some found -> of_numbers (List.map snd found)
  | None -> Array []

(* How many branches there are, each with commit 0; what happens to one: [branch, 0] it gets the next commit, [branch, other]
   what another has, counted from 1, is made again on it. The commits of each, by the number of their origin. *)
let repeated branches happened =
  let logs = Array.make (number branches) [(0, 0)] in
  let event (at, next) (branch, other) =
    if other = 0 then begin
      logs.(branch) <- logs.(branch) @ [(next, next)]; (at + 1, next + 1)
    end else begin
      logs.(branch) <- Model.made_again (fun o -> (1000 * at) + o) logs.(branch) logs.(other - 1); (at + 1, next)
    end
  in
  ignore (List.fold_left event (1, 1) (pairs happened));
  Array (List.map (fun log -> of_numbers (List.map snd log)) (Array.to_list logs))

let answer operation argument =
  match operation, list argument with
  | "tick", [a; b] -> Number (Model.tick (number a) (number b))
  | "receive", [a; b; c] -> Number (Model.receive (number a) (number b) (number c))
  | "clock", [a; b] ->
      of_pairs (Model.bindings Model.ordered_N (Model.vclock_merge (Model.clock_of (pairs a)) (Model.clock_of (pairs b))))
  | "counter", [a; b] ->
      let merged = Model.gcounter_merge (Model.counter_of (pairs a)) (Model.counter_of (pairs b)) in
      Array [Number (Model.gcounter_value merged); of_pairs (Model.bindings Model.ordered_N merged)]
  | "set", [a; b] -> of_set (Model.sets_merge (set a) (set b))
  | "registers", [a; b] -> of_registers (Model.registers_merge (registers a) (registers b))
  | "union", [a; b] -> of_pairs (Model.runs_union (pairs a) (pairs b))
  | "intersection", [a; b] -> of_pairs (Model.runs_intersection (pairs a) (pairs b))
  | "difference", [a; b] -> of_pairs (Model.runs_difference (pairs a) (pairs b))
  | "order", _ -> order argument
  | "head", _ -> head argument
  | "keyed", _ -> keyed argument
  | "column", [wider; definitions] -> column wider definitions
  | "positions", _ -> positions argument
  | "insertions", _ -> insertions argument
  | "history", _ -> history argument
  | "overlap", [a; b] -> overlap a b
  | "bundle", [versions; files; more] -> bundle versions files more
  | "expired", [versions; horizon; found; later] -> expired versions horizon found later
  | "claims", [bundled; files] -> claims bundled files
  | "compacted", _ -> compacted argument
  | "pruned", [entries; updates; low; high] -> pruned entries updates low high
  | "statistics", _ -> statistics argument
  | "orders", _ -> orders argument
  | "joined", [rows; theirs; mine; wins] -> joined rows theirs mine wins
  | "repeated", [branches; happened] -> repeated branches happened
  | _ -> failwith ("no such question: " ^ operation)

let () =
  try
    while true do
      let line = input_line stdin in
      let space = String.index line ' ' in
      let operation = String.sub line 0 space in
      let rest = String.sub line (space + 1) (String.length line - space - 1) in
      print_endline (print (answer operation (parse rest)))
    done
  with End_of_file -> ()
