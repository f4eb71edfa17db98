"""Every limit crdtcat enforces, by name, with the reason for its size.

A limit exists so that bad input fails early with `LimitExceeded` and a name to look up here, and so that a
damaged or hostile file cannot make a reader allocate without bound. Limits are part of the format's promise
to older readers: one may be raised in a later release, none may be lowered.

Constants only; nothing here runs.
"""

from __future__ import annotations

# Names ------------------------------------------------------------------------------------------------------

TABLE_NAME_CHARACTERS_MAX = 128  # with branch and file name it stays far below S3's 1,024-byte keys
BRANCH_NAME_CHARACTERS_MAX = 128  # as tables: both are folder names, and file systems stop at 255
TAG_NAME_CHARACTERS_MAX = 128  # as branches: tags and branches share one list of refs
COLUMN_NAME_BYTES_MAX = 255  # in UTF-8; what Hive metastores, Spark and DuckDB all take

# Schemas ----------------------------------------------------------------------------------------------------

COLUMNS_MAX = 10_000  # a Parquet footer with more costs longer to parse than the data it describes
NESTING_DEPTH_MAX = 32  # lists, structs and maps inside each other; bounds recursion when decoding
PARTITION_FIELDS_MAX = 16  # more columns than this in one partitioning is a mistake, not a layout
BUCKETS_MAX = 65_536  # per bucket transform; a bucket count near the row count partitions nothing

# Commits ----------------------------------------------------------------------------------------------------

COMMIT_METADATA_BYTES_MAX = 64 * 1024  # user metadata of one commit, encoded; it is read with every head
IDEMPOTENCY_KEY_BYTES_MAX = 255  # in UTF-8; keys are kept long after their versions are folded
PROPERTY_NAME_BYTES_MAX = 255  # in UTF-8; as column names
PROPERTY_VALUE_BYTES_MAX = 64 * 1024  # encoded; properties are read with every head
PROPERTIES_MAX = 10_000  # per table; the whole map is held in every head
PARTITION_VALUES_PER_COMMIT_MAX = 10_000  # distinct partitions one commit may touch: one chunk each at least
PARTITION_VALUE_BYTES_MAX = 1024  # one partition's encoded values; they are repeated in every entry
KEY_ROWS_MAX = 1_000_000  # whose keys are read to judge one commit by another; above, ranges of keys decide
CONFLICTS_MAX = 1_000  # that one error names, over all tables: more are too many to settle one by one
TRANSACTION_SECONDS_MAX = 43_200  # from a commit's first segment to its end; collectors wait twice that

ENTRY_ORDER_BYTES_MAX = 64 * 1024  # entries of one ordered dictionary, encoded; every commit repeats them

# Filters ----------------------------------------------------------------------------------------------------

CONDITIONS_MAX = 1_000  # in one filter: Arrow walks chains of them recursively; thousands exhaust its stack
SQL_NESTING_MAX = 256  # brackets inside brackets in one query: parsers are recursive, and end the process
NUMBER_DIGITS_MAX = 4_000  # of an integer in one: Python itself reads and writes 4,300, columns hold 76

# Files ------------------------------------------------------------------------------------------------------

VERSION_FILE_BYTES_MAX = 64 * 1024 * 1024  # larger than any sane delta; a reader allocates this at most
CARRIED_CLAIMS_MAX = 32  # in one claim's file, of those before it: as many writers as race in one table
CARRIED_BYTES_MAX = 32 * 1024  # of them together: a request takes no longer for it; every reader pays for it
ROW_INTERVALS_MAX = 2**25  # in one list of one version: 400 MB while it is decoded
BUNDLE_FILE_BYTES_MAX = 4 * 1024**3  # about ten million entries with statistics
SETTINGS_FILE_BYTES_MAX = 16 * 1024 * 1024  # COLUMNS_MAX columns with the longest names, escaped, fit
SETTINGS_NESTING_MAX = 128  # a type NESTING_DEPTH_MAX deep fits: a struct inside a struct is three levels
INLINE_BYTES = 64 * 1024  # default: rows that encode to at most this ride inside the version file
INLINE_BYTES_MAX = 16 * 1024 * 1024  # greatest value of that option; every head reads inlined rows

# Chunks -----------------------------------------------------------------------------------------------------

CHUNK_ROWS_LEAST = 16 * 1024  # default: shorter ones cost a scan more than they save a writer
CHUNK_ROWS_TARGET = 64 * 1024  # a scan of such chunks costs what one large row group does
CHUNK_ROWS_GREATEST = 128 * 1024  # bounds memory, and the offsets within a tag
CHUNK_BYTES_TARGET = 128 * 1024 * 1024  # Arrow content: wide rows make chunks of fewer rows
STATISTICS_BYTES_MAX = 64  # length of a string bound: enough to prune, small enough to keep per chunk
